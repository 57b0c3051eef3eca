"""Texts restored from spans that an older release stored unchecked do not exceed the maximum size of a document."""

import pytest

from features.estimates.texts import restored
from shared.domain.corpus.chunks import MOST_CHARS, ChunkContent
from shared.query.retrieve import units

LARGEST_PIECE = 65_536


def chunk(span):
    return ChunkContent("late", span)


def pieces_of(chunks):
    """Return the pieces of a document's text, as the API sends them."""
    at = 0
    for content in chunks:
        yield from content.continuing(at)
        at = max(at, content.span[1])


def test_white_space_between_chunks_keeps_positions():
    gap = 3 * LARGEST_PIECE + 1
    text = "".join(pieces_of([chunk((0, 4)), chunk((4 + gap, 8 + gap)), chunk((6 + gap, 10 + gap))]))

    assert text == "late" + "\n" * gap + "late" + "te"


@pytest.mark.parametrize(
    "spans",
    [
        [(10**10, 10**10 + 4)],
        [(number * 10**9, number * 10**9 + 4) for number in range(1_000)],
        [(number * 10**5, number * 10**5 + 4) for number in range(1_000)],
    ],
)
def test_text_of_stored_spans_has_bounded_pieces(spans):
    sizes = [len(piece) for piece in pieces_of(map(chunk, spans))]

    assert max(sizes) <= LARGEST_PIECE
    assert sum(sizes) <= MOST_CHARS + 6 * len(spans)
    assert len(restored([chunk(span) for span in spans], "text/plain", markdown=False).text) == sum(sizes)


def test_words_after_last_position_stay_separate():
    text = "".join(pieces_of([chunk((0, 4)), chunk((10**9, 10**9 + 4)), chunk((10**10, 10**10 + 4))]))

    assert text.split() == ["late"] * 3


@pytest.mark.parametrize("span", [(9, -4), (-9, 4), (0, 10**10), (-(10**10), 10**10)])
def test_impossible_span_restores_at_most_its_text(span):
    assert sum(map(len, chunk(span).continuing(0))) <= 9 + 4
    assert len(units.joined([{"text": "late", "span": span}] * 3)) <= 3 * (9 + 4)


@pytest.mark.parametrize("distance", [10**4, 10**10])
def test_section_of_stored_spans_has_bounded_size(distance):
    parts = [{"text": "late", "span": (number * distance, number * distance + 4)} for number in range(1_000)]

    text = units.joined(parts)

    assert len(text) <= units.MOST_CHARS + 6 * len(parts)
    assert text.split() == ["late"] * 1_000
