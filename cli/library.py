"""The demo's documents: this project's own, and what the packages that it has just installed say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

# Sized so that a first demo takes some minutes on two cores, nearly all of them the embedded model's. The first three
# answer the demo's questions and are handed in first.
PACKAGES = ("httpx", "orjson", "asyncpg", "structlog", "anyio", "platformdirs", "uvicorn")
_PACKAGE_CHARS = 3_000
# Not the README: it shows the demo's own questions and answers.
_OWN_PAGES = ("docs/explanation/*.md", "docs/quickstart/*.md")
_OWN_CHARS = 3_500
_OWN_TOTAL_CHARS = 9_000
_SUFFIXES = {"text/x-rst": ".rst", "text/markdown": ".md"}


def write(folder: Path) -> dict[str, Path]:
    """Write the documents into a folder, the same each time; return them by external id."""
    texts = dict([*_packages(), *_own(Path(__file__).parents[1])])
    files = {name: folder / name for name in texts}
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[name], encoding="utf-8")
    return files


def beginning(text: str, most_chars: int) -> str:
    """Return whole paragraphs from the front of a text."""
    if len(text) <= most_chars:
        return text
    cut = text.rfind("\n\n", 0, most_chars)
    return text[: cut if cut > 0 else most_chars].rstrip() + "\n"


def _own(root: Path) -> Iterator[tuple[str, str]]:
    """Pages of this project, where it runs from its own sources."""
    rest = _OWN_TOTAL_CHARS
    for path in (path for pattern in _OWN_PAGES for path in sorted(root.glob(pattern))):
        if rest > 0:
            text = beginning(path.read_text(encoding="utf-8"), min(rest, _OWN_CHARS))
            rest -= len(text)
            yield f"foreask/{path.relative_to(root).as_posix()}", text


def _packages() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        kind = (package.metadata["Description-Content-Type"] or "").partition(";")[0].strip()
        suffix = _SUFFIXES.get(kind, ".txt")
        # Where a README begins with a logo, the first heading, which becomes the title, would be any section's.
        title = f"# {name}\n\n" if suffix == ".md" else ""
        yield f"packages/{name}{suffix}", title + beginning(_description(package), _PACKAGE_CHARS)


def _description(package: Distribution) -> str:
    """The long description, which is the metadata's body, or a header in old ones."""
    text = package.read_text("METADATA") or ""
    return text.partition("\n\n")[2] or package.metadata["Description"] or ""
