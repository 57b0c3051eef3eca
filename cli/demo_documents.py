"""The demo's documents: pages of this project, and descriptions of installed packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

# All texts are searchable within seconds. The embedded model needs minutes for their questions on two cores. The first
# three packages answer the demo's questions and are uploaded first.
PACKAGES = ("httpx", "orjson", "asyncpg", "structlog", "anyio", "platformdirs", "uvicorn")
_PACKAGE_CHARS = 3_000
# The README is left out because it contains the demo's questions and answers.
_PAGES = ("docs/explanation/*.md", "docs/quickstart/*.md")
_PAGE_CHARS = 3_500
_PAGES_CHARS = 9_000
_SUFFIXES = {"text/x-rst": ".rst", "text/markdown": ".md"}


def write(folder: Path) -> dict[str, Path]:
    """Write the documents into a folder. Their content is the same each time.

    Returns:
        Files by external id; the documents with the demo's answers are first.
    """
    texts = dict([*_packages(), *_pages(Path(__file__).parents[1])])
    files = {name: folder / name for name in texts}
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[name], encoding="utf-8")
    return files


def excerpt(text: str, most_chars: int) -> str:
    """Return the first paragraphs of a text, up to a number of characters."""
    if len(text) <= most_chars:
        return text
    cut = text.rfind("\n\n", 0, most_chars)
    return text[: cut if cut > 0 else most_chars].rstrip() + "\n"


def _pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield pages of this project, which exist in a clone only."""
    remaining = _PAGES_CHARS
    for path in (path for pattern in _PAGES for path in sorted(root.glob(pattern))):
        if remaining > 0:
            text = excerpt(path.read_text(encoding="utf-8"), min(remaining, _PAGE_CHARS))
            remaining -= len(text)
            yield f"foreask/{path.relative_to(root).as_posix()}", text


def _packages() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        kind = (package.metadata["Description-Content-Type"] or "").partition(";")[0].strip()
        suffix = _SUFFIXES.get(kind, ".txt")
        # A README may start with a logo. The first heading, which becomes the title, would then be a section's heading.
        title = f"# {name}\n\n" if suffix == ".md" else ""
        yield f"packages/{name}{suffix}", title + excerpt(_description(package), _PACKAGE_CHARS)


def _description(package: Distribution) -> str:
    """Return the long description: the body of the metadata, or a header in old packages."""
    text = package.read_text("METADATA") or ""
    return text.partition("\n\n")[2] or package.metadata["Description"] or ""
