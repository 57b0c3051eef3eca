"""The title of a text."""

from __future__ import annotations

import re

from shared.ingest.parse.chunks.blocks import TITLE_CHARS, scan

_FRONT_TITLE = re.compile(r"^title:[ \t]*(\S[^\n]*)$", re.MULTILINE)


def title_of(text: str, stated: object) -> str | None:
    """Return the title in the metadata, else the first heading near the top."""
    if isinstance(stated, str) and stated.strip():
        return " ".join(stated.split())[:TITLE_CHARS]
    if text.startswith("---\n") and (found := _FRONT_TITLE.search(text[:4096].partition("\n---")[0])):
        return found[1].strip("\"' ")[:TITLE_CHARS]
    headings = (block.title for block in scan(text[:4096]) if block.kind == "heading")
    return next((title for title in headings if title), None)
