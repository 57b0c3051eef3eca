"""The list of the page's words, and the translations of them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from tests.page.words.messages import messages, unsaid

WEB = Path(__file__).parents[3] / "api" / "web"
FOLDER = WEB / "words"
ENGLISH = FOLDER / "en.json"
LANGUAGES = ("de", "zh")
PLACEHOLDER = re.compile(r"\{\d+\}")
# Texts that are the same in every language, or that no user reads.
_UNTRANSLATED = {
    *("foreask", "API", "R@1", "R@10", "MRR", "nDCG@10", "ms", "p", "B", "kB", "MB", "Swagger UI", "openapi.json"),
    *("marked by-sentence", "Recall@10", "Markdown"),
    *("https://example.org/foreask", "handbook", "website", "default", "URL", "Bearer \u2026", "Successful Response"),
    *("Escape", "Enter", "Arrow", "Home", "End", "Tab"),
    *("candidates", "None", "True", "False", "Python", "import os", "command line"),
    *("English", "Deutsch", "labelled", "Qdrant", "department"),
    *("questions joined", "questions prepended", "default prepended", "all rrf"),  # names of strategies
    *("default hyde", "default queries", "default step-back", "default rerank"),
    "\u2026import httpx reply = httpx.request(\u2026) reply.raise_for_status() print(reply.json())",
}
_ENGLISH_MODULES = {"parts/sample.js", "routes/gallery.js"}  # English documents, and a screen for developers
_OBJECT = re.compile(r"^export default (\{.*\});$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^\s*//[^\n]*$", re.MULTILINE)


def modules(folder: Path = WEB) -> list[Path]:
    """Return our modules that may contain words."""
    return [
        path for path in sorted(folder.rglob("*.js")) if path.relative_to(folder).parts[0] not in {"vendor", "words"}
    ]


@cache
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


def untranslated(folder: Path = WEB) -> list[tuple[str, str]]:
    """Return the texts that a module shows in English in every language, each with the module."""
    return [
        (name, each.text)
        for path in modules(folder)
        if (name := path.relative_to(folder).as_posix()) not in _ENGLISH_MODULES
        for each in unsaid(path.read_text())
        if each.text not in _UNTRANSLATED
    ]


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
