"""Pictures in a document become chunks, each after the chunk of its location. A model writes their texts later."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from hashlib import sha256

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import Unreadable
from shared.ingest.parse.document import ExtractedText
from shared.ingest.parse.extraction import EmbeddedPicture, pictures_in

Shrink = Callable[[bytes], bytes | None]
"""Returns a picture as a small JPEG file; None if it is not worth a description."""

MOST_REPEATED = 3
"""A picture that a document contains more often is a logo or a decoration."""


def illustrated(
    content: bytes, extracted: ExtractedText, chunks: Sequence[ChunkContent], shrink: Shrink, most: int
) -> tuple[tuple[ChunkContent, ...], dict[str, bytes]]:
    """Insert chunks for the pictures of a file.

    Args:
        content: content of the file.
        extracted: its text.
        chunks: the chunks of the text.
        shrink: makes pictures small.
        most: maximum number of pictures; the first ones are used.

    Returns:
        The chunks with the pictures, whose texts are empty, and the files of the pictures by their hashes.
    """
    files: dict[str, bytes] = {}
    after: dict[int, list[ChunkContent]] = defaultdict(list)
    for found in _distinct(_found(content, extracted), extracted):
        if len(files) >= most:
            break
        jpeg = shrink(found.content)
        digest = sha256(jpeg).hexdigest() if jpeg else ""
        if jpeg and digest not in files:
            files[digest] = jpeg
            index = _index_of(found, chunks)
            after[index].append(_chunk(chunks[index], found.page, digest))
    parts = [[chunk, *after[index]] for index, chunk in enumerate(chunks)]
    return tuple(chunk for part in parts for chunk in part), files


def _found(content: bytes, extracted: ExtractedText) -> list[EmbeddedPicture]:
    """Return the pictures of a file; none if it cannot be converted again, because its text is worth more."""
    try:
        return pictures_in(content, extracted)
    except Unreadable:
        return []


def _distinct(found: Sequence[EmbeddedPicture], extracted: ExtractedText) -> list[EmbeddedPicture]:
    """Return the first occurrence of each picture, without logos and without pages that OCR has read."""
    counts = Counter(picture.content for picture in found)
    first: dict[bytes, EmbeddedPicture] = {}
    for picture in found:
        if counts[picture.content] <= MOST_REPEATED and picture.page not in extracted.read_pages:
            first.setdefault(picture.content, picture)
    return list(first.values())


def _index_of(found: EmbeddedPicture, chunks: Sequence[ChunkContent]) -> int:
    """Return the index of the chunk in front of a picture."""
    if found.page is not None:
        return max(0, bisect_right([chunk.page or 0 for chunk in chunks], found.page) - 1)
    if found.position is None:
        return len(chunks) - 1
    return max(0, bisect_right([chunk.span[0] for chunk in chunks], found.position) - 1)


def _chunk(before: ChunkContent, page: int | None, digest: str) -> ChunkContent:
    end = before.span[1]
    return ChunkContent(
        "",
        (end, end),
        before.heading_path,
        before.title,
        page,
        before.section,
        before.language,
        picture=digest,
    )
