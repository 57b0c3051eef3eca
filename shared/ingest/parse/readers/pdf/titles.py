"""The title of a PDF file."""

from __future__ import annotations

import re

from shared.ingest.parse.readers.pdf.margins import PageBlocks
from shared.ingest.parse.readers.pdf.structure import body_size

_NO_TITLE = re.compile(
    r"[\W_]*(?:untitled.*|anonymous|unspecified|unknown|none|null|title|document\d*|\d+|slide \d+|powerpoint[- ]pr.*|"
    r"microsoft (?:word|powerpoint|excel|office|publisher|visio)\b.*|print\w*|layout \d+|no title|"
    r"(?:page|sheet|scan|img|image|doc|presentation)[\s_-]*\d*|(?:pii|doi)\s*:.*|(?=\S*\d)[\w.-]*_[\w.-]*)[\W_]*",
    re.IGNORECASE,
)
_FILE = re.compile(
    r"\S*[\w)]\.(?:docx?|pdf|xlsx?|pptx?|od[tsp]|rtf|txt|html?|tex|dvi|ps|eps|indd|qx[dp]|p65|fm|wpd|pub|cdr|ai|svg|"
    r"jpe?g|png|tiff?|cwk|pages)",
    re.IGNORECASE,
)
_MOST_CHARS = 200
_MOST_PARTS = 2  # more texts of one size are the headings of sections
_UPPER = 0.35  # of the height of a page: the title is not below
_LARGER = 1.15  # than most letters of the page


def real_title(stated: str) -> str | None:
    """Return the title in the metadata; None if it is a program's default or the name of a file."""
    title = " ".join(stated.split())
    if not title or not any(map(str.isalpha, title)) or _NO_TITLE.fullmatch(title[:300]):
        return None
    if _FILE.fullmatch(title.rsplit(maxsplit=1)[-1][-100:]):
        return None
    return title[:_MOST_CHARS]


def largest(page: PageBlocks) -> str | None:
    """Return the largest text in the upper part of a page; None if no text is larger than the others."""
    least = page.bottom + (page.top - page.bottom) * _UPPER
    texts = [block for block in page.blocks if block.kind in ("text", "item") and not block.turned]
    texts = [block for block in texts if 2 < block.chars <= _MOST_CHARS and block.top >= least]  # noqa: PLR2004
    texts = [block for block in texts if any(map(str.isalpha, block.text)) and not block.text.endswith(":")]
    if not texts:
        return None
    size = max(block.size for block in texts)
    if size < body_size(page.blocks) * _LARGER:
        return None
    found = [block.text for block in texts if block.size == size]
    if len(found) > _MOST_PARTS:
        return None
    return " ".join(found[0].split()).removeprefix("- ") or None
