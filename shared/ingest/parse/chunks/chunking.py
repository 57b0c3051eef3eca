"""Division of a text into chunks, by structure first.

Headings make sections; a section that fits is one chunk, and a section too short for a question joins its neighbour. A
longer section is divided between blocks; only a block that does not fit into a chunk is cut, at the least harmful
position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from zlib import crc32

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.stages.pages import PageText
from shared.domain.text.headings import common_path
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.blocks import Block, scan, scan_plain
from shared.ingest.parse.chunks.cutting import Piece, cut, is_lead
from shared.ingest.parse.document import ExtractedText

SHORT_CHARS = 200
"""A section with less text than this is too short to be asked about."""

FEW_CHARS = 40
"""A section with less text joins a neighbour if it can: it costs as much as a long one."""

EARLIEST_CUT = 0.6
"""A section that does not fit is cut between this share of `max_chars` and all of it.

Measured on 60 texts of 200 paragraphs without a heading, one paragraph edited near the top: filling every chunk changes
39 % of the chunks, 0.8 34 %, 0.6 9 % for 17 % more chunks, 0.4 5 % for 32 % more. A changed chunk is paid for again.
"""


@dataclass(frozen=True, slots=True)
class _PlacedPiece:
    """An indivisible unit: a block, or a piece of a block that does not fit into a chunk."""

    piece: Piece
    path: tuple[str, ...]
    heading: bool
    leads: bool = (
        False  # whether it says nothing without the next one: a heading, a question, an introduction of a list
    )

    @property
    def start(self) -> int:
        return self.piece.start

    @property
    def end(self) -> int:
        return self.piece.end


@dataclass(slots=True)
class _HeadingSection:
    """Units under one or more headings; `level` and `last` are the levels of the first and the last heading."""

    level: int
    last: int
    units: list[_PlacedPiece] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.units[-1].end - self.units[0].start

    @property
    def bodiless(self) -> bool:
        return all(unit.heading for unit in self.units)


def divide(extracted: ExtractedText, options: ChunkingOptions) -> tuple[ChunkContent, ...]:
    """Return the chunks of a text, in order.

    Every character that is not white space is in the span of a chunk. The cuts of a long section are chosen by content,
    so that an edit moves nearby cuts and leaves later ones unchanged. If the pages of a text are apart, each is divided
    by itself: no chunk has text of two, and a heading does not continue on the next page.
    """
    if extracted.apart and len(extracted.page_starts) > 1:
        return tuple(chain.from_iterable(_shifted(divide(page, options), start) for start, page in _pages(extracted)))
    blocks = scan(extracted.text) if extracted.markdown else scan_plain(extracted.text)
    page_of = _page_finder(extracted.page_starts)
    runs = _runs(_joined(_sections(blocks, extracted.text, options), options), extracted.text, options)
    return tuple(_content(run, section, extracted, page_of) for run, section in runs)


def _pages(extracted: ExtractedText) -> Iterator[tuple[int, ExtractedText]]:
    """Yield the offset and the text of each page; text before the first one belongs to it."""
    starts = [0, *(start for start, _ in extracted.page_starts[1:])]
    ends = [*starts[1:], len(extracted.text)]
    for start, end, (_, number) in zip(starts, ends, extracted.page_starts, strict=True):
        yield start, replace(extracted, text=extracted.text[start:end], page_starts=((0, number),), apart=False)


def _shifted(chunks: Iterable[ChunkContent], offset: int) -> Iterator[ChunkContent]:
    for chunk in chunks:
        (start, end), section = chunk.span, chunk.section
        shifted = (section[0] + offset, section[1] + offset) if section else None
        yield replace(chunk, span=(start + offset, end + offset), section=shifted)


def _runs(
    sections: Iterable[_HeadingSection], text: str, options: ChunkingOptions
) -> Iterator[tuple[Sequence[_PlacedPiece], tuple[int, int] | None]]:
    """Yield the units of each chunk, and the span of its section."""
    for section in sections:
        if options.section_max_chars is None:
            yield from ((run, None) for run in _packed(section.units, text, options.max_chars))
        else:
            for part in _packed(section.units, text, options.section_max_chars):
                yield from ((run, _span(part)) for run in _packed(part, text, options.max_chars))


def _span(run: Sequence[_PlacedPiece]) -> tuple[int, int]:
    first = run[0].piece
    return first.start - first.overlap_chars, run[-1].end


def _sections(blocks: Iterable[Block], text: str, options: ChunkingOptions) -> Iterator[_HeadingSection]:
    section = _HeadingSection(0, 0)
    open_headings: list[Block] = []
    for block in blocks:
        if block.kind == "heading":
            if section.units:
                yield section
            section = _HeadingSection(block.level, block.level)
            while open_headings and open_headings[-1].level >= block.level:
                open_headings.pop()
            open_headings.append(block)
            path = tuple(heading.title for heading in open_headings if heading.title)
        elif not section.units:
            path = ()
        heading, leads = block.kind == "heading", is_lead(block, text)
        pieces = cut(block, text, _with_headings(section, block, options))
        section.units += [_PlacedPiece(piece, path, heading, leads) for piece in pieces]
    if section.units:
        yield section


def _with_headings(section: _HeadingSection, block: Block, options: ChunkingOptions) -> ChunkingOptions:
    """Return options whose pieces leave space for the headings above the first block of a section.

    A heading must not become a chunk because the block below it fills one.
    """
    chars = block.start - section.units[0].start if section.units and section.bodiless else 0
    if not 0 < chars <= options.max_chars // 4 or block.kind == "heading":
        return options
    return replace(options, max_chars=options.max_chars - chars)


def _joined(sections: Iterable[_HeadingSection], options: ChunkingOptions) -> list[_HeadingSection]:
    """Join short sections to the next sibling or child, or else to the previous section, if `_may_merge`."""
    short_chars = min(SHORT_CHARS, options.max_chars // 4)
    done: list[_HeadingSection] = []
    waiting: _HeadingSection | None = None
    for section in sections:
        if waiting and _may_join_next(waiting, section, options):
            current = _HeadingSection(waiting.level, section.last, waiting.units + section.units)
        else:
            if waiting:
                _settle(waiting, done, options)
            current = section
        waiting = current if current.size < short_chars else None
        if not waiting:
            done.append(current)
    if waiting:
        _settle(waiting, done, options)
    return done


def _may_join_next(short: _HeadingSection, following: _HeadingSection, options: ChunkingOptions) -> bool:
    if following.level < short.level:
        return False
    return short.bodiless or _may_merge(short, following, options)


def _may_merge(first: _HeadingSection, second: _HeadingSection, options: ChunkingOptions) -> bool:
    """Return whether two sections together fit, or one of them has to be cut anyway."""
    together = second.units[-1].end - first.units[0].start
    return together <= options.max_chars or max(first.size, second.size) > options.max_chars


def _settle(short: _HeadingSection, done: list[_HeadingSection], options: ChunkingOptions) -> None:
    if done and _may_join_previous(done[-1], short, options):
        done[-1].units += short.units
        done[-1].last = short.last
    else:
        done.append(short)


def _may_join_previous(previous: _HeadingSection, short: _HeadingSection, options: ChunkingOptions) -> bool:
    if short.size < FEW_CHARS and (short.bodiless or short.level >= previous.last):
        return True
    return short.level >= previous.last and _may_merge(previous, short, options)


def _packed(units: Sequence[_PlacedPiece], text: str, max_chars: int) -> Iterator[Sequence[_PlacedPiece]]:
    first = 0
    while first < len(units):
        after = _cut_after(units, first, text, max_chars)
        yield units[first:after]
        first = after


def _cut_after(units: Sequence[_PlacedPiece], first: int, text: str, max_chars: int) -> int:
    """Return the end of the run that starts with unit `first`: the index of the next run's first unit."""
    start = units[first].start
    room = start + max_chars - units[first].piece.repeated_chars
    earliest = start + int(max_chars * EARLIEST_CUT)
    candidates: list[int] = []
    fits = first + 1
    while fits < len(units) and units[fits].end <= room:
        if units[fits - 1].end >= earliest:
            candidates.append(fits)
        fits += 1
    if fits == len(units):
        return fits
    return min([*candidates, fits], key=lambda index: _cut_cost(units, index, text))


def _cut_cost(units: Sequence[_PlacedPiece], index: int, text: str) -> tuple[int, int, int]:
    """Return the harm of a cut before a unit; a checksum decides between equals, so that cuts follow the content."""
    unit = units[index]
    tail_is_short = units[-1].end - unit.start < SHORT_CHARS
    priority = 3 if units[index - 1].leads else 0 if unit.heading else 2 if unit.piece.inside_block else 1
    return tail_is_short, priority, crc32(text[unit.start : unit.start + 64].encode("utf-8", "surrogatepass"))


def _content(
    run: Sequence[_PlacedPiece],
    section: tuple[int, int] | None,
    extracted: ExtractedText,
    page_of: Callable[[int], int | None],
) -> ChunkContent:
    start, end = _span(run)
    header = run[0].piece.header
    repeated = extracted.text[slice(*header)] + "\n" if header else ""
    return ChunkContent(
        text=repeated + extracted.text[start:end],
        span=(start, end),
        heading_path=_common_path(run),
        title=extracted.title,
        page=page_of(start),
        section=section,
        confidence=_confidence(page_of(start), page_of(end - 1), extracted.read_pages),
    )


def _confidence(first: int | None, last: int | None, read: Mapping[int, PageText]) -> int | None:
    """Return the mean confidence of the words on pages that were read by OCR; None if there are none."""
    if first is None or last is None or not read:
        return None
    pages = [read[number] for number in range(first, last + 1) if number in read]
    words = sum(page.words for page in pages)
    return round(sum(page.confidence * page.words for page in pages) / words) if words else None


def _common_path(run: Sequence[_PlacedPiece]) -> tuple[str, ...]:
    """Return the headings above everything in the chunk that is not itself a heading."""
    return common_path({unit.path for unit in run if not unit.heading} or {run[-1].path})


def _page_finder(page_starts: Sequence[tuple[int, int]]) -> Callable[[int], int | None]:
    offsets = [offset for offset, _ in page_starts]

    def page_of(position: int) -> int | None:
        if not page_starts:
            return None
        return page_starts[max(0, bisect_right(offsets, position) - 1)][1]

    return page_of
