"""The demo's documents: pages of this project, and descriptions of packages that it installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

# All texts are found within seconds; the embedded model writes their questions for minutes on two cores. The first
# three packages answer the demo's questions and are handed in first.
PACKAGES = ("httpx", "orjson", "asyncpg", "structlog", "anyio", "platformdirs", "uvicorn")
_PACKAGE_CHARS = 3_000
# The README is left out: it shows the demo's questions and answers.
_PAGES = ("docs/explanation/*.md", "docs/quickstart/*.md")
_PAGE_CHARS = 3_500
_PAGES_CHARS = 9_000
_SUFFIXES = {"text/x-rst": ".rst", "text/markdown": ".md"}


def write(folder: Path) -> dict[str, Path]:
    """Write the documents into a folder, the same each time.

    Returns:
        Their files by external id, the demo's answers first.
    """
    texts = dict([*_packages(), *_pages(Path(__file__).parents[1])])
    files = {name: folder / name for name in texts}
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[name], encoding="utf-8")
    return files


def beginning(text: str, most_chars: int) -> str:
    """Return whole paragraphs from the front of a text, at most so many characters."""
    if len(text) <= most_chars:
        return text
    cut = text.rfind("\n\n", 0, most_chars)
    return text[: cut if cut > 0 else most_chars].rstrip() + "\n"


def _pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield pages of this project; an installed package has none."""
    rest = _PAGES_CHARS
    for path in (path for pattern in _PAGES for path in sorted(root.glob(pattern))):
        if rest > 0:
            text = beginning(path.read_text(encoding="utf-8"), min(rest, _PAGE_CHARS))
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
        # A README may begin with a logo. The first heading, which becomes the title, would then be that of a section.
        title = f"# {name}\n\n" if suffix == ".md" else ""
        yield f"packages/{name}{suffix}", title + beginning(_description(package), _PACKAGE_CHARS)


def _description(package: Distribution) -> str:
    """Return the long description: the body of the metadata, or in old packages a header."""
    text = package.read_text("METADATA") or ""
    return text.partition("\n\n")[2] or package.metadata["Description"] or ""
