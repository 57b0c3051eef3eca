"""The list of the page's words, and the translations of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.page.words.messages import messages

WEB = Path(__file__).parents[3] / "api" / "web"
FOLDER = WEB / "words"
ENGLISH = FOLDER / "en.json"
LANGUAGES = ("de", "zh")
PLACEHOLDER = re.compile(r"\{\d+\}")
_OBJECT = re.compile(r"^export default (\{.*\});$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^\s*//[^\n]*$", re.MULTILINE)


def modules(folder: Path = WEB) -> list[Path]:
    """Return our modules that may contain words."""
    return [
        path for path in sorted(folder.rglob("*.js")) if path.relative_to(folder).parts[0] not in {"vendor", "words"}
    ]


def used(folder: Path = WEB) -> dict[str, list[str]]:
    """Return the keys of all words, each with the modules that use it."""
    found: dict[str, list[str]] = {}
    for path in modules(folder):
        name = path.relative_to(folder).as_posix()
        for key in messages(path.read_text()):
            places = found.setdefault(key, [])
            if name not in places:
                places.append(name)
    return dict(sorted(found.items(), key=lambda item: (item[1][0], item[0])))


def written(words: dict[str, list[str]]) -> str:
    """Return the list of words as its file contains it: a word in each line."""
    lines = (f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(places)}" for key, places in words.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def catalogue(language: str, folder: Path = FOLDER) -> dict[str, str]:
    """Return the translations of a language."""
    source = (folder / f"{language}.js").read_text()
    found = _OBJECT.search(source)
    if found is None:
        raise ValueError(f"{language}.js has no object as its default export.")
    pairs = json.loads(re.sub(r",\s*\}$", "}", _COMMENT.sub("", found[1])), object_pairs_hook=list)
    texts = dict(pairs)
    if len(texts) < len(pairs):
        raise ValueError(f"{language}.js has a word twice.")
    return texts


def placeholders(text: str) -> list[set[str]]:
    """Return the placeholders of a text, or of each of its plural forms."""
    return [set(PLACEHOLDER.findall(form)) for form in text.split("|")]
