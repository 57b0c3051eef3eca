import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.query.answer.citations import CitationCleaner, CitationOrder


def cleaned(pieces, numbers=(1, 2, 3, 4)):
    cleaner = CitationCleaner(numbers)
    text = "".join(cleaner.feed(piece) for piece in pieces) + cleaner.end()
    return text, cleaner.cited, cleaner.removed


@pytest.mark.parametrize(
    ("written", "clean", "cited", "removed"),
    [
        ("A lease ends [1].", "A lease ends [1].", [1], []),
        ("It ends [1, 2].", "It ends [1][2].", [1, 2], []),
        ("It ends [1-3].", "It ends [1][2][3].", [1, 2, 3], []),
        ("It ends [2\u20134; 1].", "It ends [2][3][4][1].", [2, 3, 4, 1], []),
        ("It ends\u30101\u3011.", "It ends[1].", [1], []),
        ("It ends\u30102\u2020source\u3011.", "It ends[2].", [2], []),
        ("It ends [Passage 2].", "It ends [2].", [2], []),
        ("It ends [9].", "It ends.", [], [9]),
        ("It ends [0] [1][7].", "It ends [1].", [1], [0, 7]),
        ("It ends [3-6].", "It ends [3][4].", [3, 4], [5, 6]),
        ("It ends [1-900].", "It ends [1].", [1], [900]),
        ("It ends [1] and [1].", "It ends [1] and [1].", [1], []),
        ("An aside [as here] stays, [2] too.", "An aside [as here] stays, [2] too.", [2], []),
        ("Since [1998] it ends.", "Since [1998] it ends.", [], []),
        ("An open [1", "An open [1", [], []),
        ("\n  It ends [1].  \n", "It ends [1].", [1], []),
        ("Two\n\nparagraphs [1].", "Two\n\nparagraphs [1].", [1], []),
    ],
)
def test_citation_variants_are_normalised(written, clean, cited, removed):
    assert cleaned([written]) == (clean, cited, removed)
    assert cleaned(written) == (clean, cited, removed), "the same if the text arrives character by character"


def test_stream_delays_at_most_one_citation():
    cleaner = CitationCleaner([1])
    assert cleaner.feed("It ends [") == "It ends"
    assert cleaner.feed("1") == ""
    assert cleaner.feed("]. So") == " [1]. So"
    assert cleaner.feed(" [a very long aside that is no citation at all, whatever comes") != ""


@given(st.text(alphabet="ab .,[]\u3010\u301112-\n", max_size=60), st.data())
def test_stream_chunking_does_not_change_citations(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert cleaned(pieces) == cleaned([text])


def test_citations_are_renumbered_by_first_use():
    order = CitationOrder(range(1, 5))
    text = "".join(map(order.feed, ["It ends [4]", "[2], then [4].", " Not [1998], [9]", " but [1]."]))
    assert text == "It ends [1][2], then [1]. Not [1998], [9] but [3]."
    assert [(number, text[start:end]) for number, (start, end) in order.spans.items()] == [
        (4, "[1]"),
        (2, "[2]"),
        (1, "[3]"),
    ]
