"""Tables that continue on the next page."""

from __future__ import annotations

from collections.abc import Sequence

from shared.ingest.parse.readers.pdf.blocks import PageBlock
from shared.ingest.parse.readers.pdf.layout.lines import normal
from shared.ingest.parse.readers.pdf.margins import PageBlocks, without

_ALIGNED = 6.0  # points between the columns of a table on two pages


def join_tables(pages: Sequence[PageBlocks]) -> None:
    """Join a table at the top of a page to the table at the end of the previous page, with one header."""
    last: PageBlock | None = None
    header: list[str] = []
    before: PageBlocks | None = None
    for page in pages:
        body = [block for block in page.blocks if _is_body(block)]
        first = body[0] if body else None
        if last and before and first and _is_continued(last, header, first):
            _join(before, last, page, first, header)
            if len(body) > 1:
                last = None
        else:
            last = None
        if last is None and body and body[-1].kind == "table":
            header = body[-1].rows[0]
        last = body[-1] if body and body[-1].kind == "table" else None
        before = page


def _is_body(block: PageBlock) -> bool:
    return block.kind not in ("running", "note") and not block.turned


def _is_continued(last: PageBlock, header: Sequence[str], following: PageBlock) -> bool:
    if following.kind != "table" or len(last.columns) != len(following.columns):
        return False
    pairs = zip(last.columns, following.columns, strict=True)
    return _same(header, following.rows[0]) or all(abs(one - two) <= _ALIGNED for one, two in pairs)


def _same(header: Sequence[str], row: Sequence[str]) -> bool:
    return list(map(normal, header)) == list(map(normal, row))


def _join(before: PageBlocks, last: PageBlock, page: PageBlocks, first: PageBlock, header: Sequence[str]) -> None:
    """Put the rows of a table directly after the table on the page before, without the words around them."""
    if _same(header, first.rows[0]):
        tokens = [token for cell in first.rows.pop(0) for token in cell.split()]
        page.plain = without(page.plain, tokens, last=False)
    if not first.rows:
        page.blocks.remove(first)
        return
    first.continues = page.continues = True
    before.blocks.remove(last)
    before.blocks.append(last)
    page.blocks.remove(first)
    page.blocks.insert(0, first)
