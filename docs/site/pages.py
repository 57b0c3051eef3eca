"""The pages of the site: `docs/README.md` lists each once, and this list is the navigation and `llms.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import NamedTuple

LIST = PurePosixPath("docs/README.md")
DECISIONS = PurePosixPath("docs/decisions")
# Sections that a reader of `llms.txt` may skip; `Optional` is the convention's name of such a section.
OPTIONAL = ("Contributing",)

_ENTRY = re.compile(r"- \[(?P<title>[^\]]+)\]\((?P<path>[^)#]+\.md)\): (?P<notes>.+)")


class SitePage(NamedTuple):
    """A page, with its path from the root of the tree, and a short description."""

    title: str
    path: PurePosixPath
    notes: str


def sections(root: Path) -> Mapping[str, tuple[SitePage, ...]]:
    """Return the pages by the heading of their section, in the order of the list."""
    found: dict[str, tuple[SitePage, ...]] = {}
    for section in (root / LIST).read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, entries = section.partition("\n")
        found[heading] = tuple(
            SitePage(entry["title"], PurePosixPath(normpath(LIST.parent / entry["path"])), entry["notes"])
            for entry in map(_ENTRY.fullmatch, entries.splitlines())
            if entry
        )
    return found


def problems(root: Path) -> tuple[str, ...]:
    """Return a sentence for each page of `docs` that is not listed exactly once, and for each missing file."""
    listed = [page.path for pages in sections(root).values() for page in pages]
    existing = {PurePosixPath(path.relative_to(root)) for path in (root / "docs").rglob("*.md")}
    wrong = {
        "is not listed": {path for path in existing - {LIST, *listed} if path.parent != DECISIONS},
        "is listed twice": {path for path in listed if listed.count(path) > 1},
        "is missing": {path for path in listed if not (root / path).is_file()},
    }
    return tuple(f"{path} {problem}" for problem, paths in wrong.items() for path in sorted(paths))


def decisions(root: Path) -> Iterator[SitePage]:
    """Yield a page for each decision, with its own title."""
    for path in sorted((root / DECISIONS).glob("0*.md")):
        with path.open(encoding="utf-8") as file:
            title = file.readline().removeprefix("# ").strip()
        number, _, statement = title.partition(": ")
        yield SitePage(number, DECISIONS / path.name, statement)


def llms(root: Path, site: str = "") -> str:
    """Return `llms.txt`: the list of the pages, as https://llmstxt.org proposes it.

    Args:
        root: root of the tree.
        site: address of the site with a slash at its end; without it, links are relative to `llms.txt`.
    """
    introduction = (root / LIST).read_text(encoding="utf-8").split("\n\n")[1]
    lines = ["# foreask", "", introduction]
    optional = [page for heading, pages in sections(root).items() if heading in OPTIONAL for page in pages]
    listed = {heading: pages for heading, pages in sections(root).items() if heading not in OPTIONAL}
    for heading, pages in {**listed, "Optional": (*optional, *decisions(root))}.items():
        lines += ["", f"## {heading}", ""]
        lines += [f"- [{page.title}]({site}{page.path}): {page.notes}" for page in pages]
    return "\n".join(lines) + "\n"


def full_text(root: Path) -> str:
    """Return `llms-full.txt`: the pages that `llms.txt` does not call optional, one after the other."""
    return "\n\n".join(
        f"<!-- {page.path} -->\n\n{(root / page.path).read_text(encoding='utf-8').strip()}"
        for heading, pages in sections(root).items()
        if heading not in OPTIONAL
        for page in pages
    )
