from dataclasses import replace

import pytest

from shared.domain.corpus.chunks import ChunkContent
from shared.providers.tokens import EstimatingCounter
from shared.query.retrieve.assembly import DistinctChunks, ordered, within_budget, without_overlaps
from shared.query.retrieve.chunks import RetrievedChunk

DOCUMENT = " ".join(f"word{number:02}" for number in range(60))


def chunk(start=0, end=20, *, document="a", text=None, path=(), header=""):
    return RetrievedChunk(
        chunk_id=f"{document}-{start}",
        score=0.5,
        matched_question=None,
        matched_question_source=None,
        content=ChunkContent(header + (text or DOCUMENT[start:end]), (start, end), path),
        document_id=document,
        row_id=document,
        external_id=f"{document}.md",
        filename=None,
        chunk_span=(start, end),
        version=1,
        metadata={},
        channels={},
    )


def distinct(top_k, *chunks):
    selection = DistinctChunks(top_k)
    selection.add(chunks)
    return selection


def test_duplicate_text_is_returned_once_with_sources():
    twins = [chunk(document="b"), chunk(document="c"), chunk(document="c")]
    selection = distinct(10, chunk(), *twins, chunk(20, 40))

    assert [c.document_id for c in selection.chunks] == ["a", "a"]
    assert selection.chunks[0].also_in == ("b.md", "c.md")
    assert selection.duplicates == 3


def test_repeated_source_is_not_a_duplicate():
    selection = distinct(10, chunk(), chunk())

    assert (len(selection.chunks), selection.duplicates, selection.chunks[0].also_in) == (1, 0, ())


def test_duplicate_takes_no_slot_of_top_k():
    selection = distinct(2, chunk(), chunk(document="b"))
    assert not selection.full

    selection.add([chunk(20, 40), chunk(40, 60)])
    assert selection.full
    assert [c.span for c in selection.chunks] == [(0, 20), (20, 40)]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 20), (14, 41)], [(0, 20), (21, 41)]),
        ([(14, 41), (0, 20)], [(14, 41), (0, 13)]),
        ([(0, 20), (35, 55), (14, 41)], [(0, 20), (35, 55), (21, 34)]),
        ([(0, 41), (7, 20)], [(0, 41)]),
        ([(0, 20), (21, 41)], [(0, 20), (21, 41)]),
    ],
)
def test_text_of_better_chunk_is_cut_from_next(spans, expected):
    cut = without_overlaps([chunk(*span) for span in spans])

    assert [c.text for c in cut] == [DOCUMENT[slice(*span)] for span in expected]
    assert [c.span for c in cut] == expected


def test_different_documents_or_versions_never_overlap():
    older = replace(chunk(), version=2)

    assert len(without_overlaps([chunk(), chunk(document="b"), older])) == 3


def test_repeated_header_rows_are_outside_span():
    table = chunk(14, 27, header="| head |\n")

    assert table.body == DOCUMENT[14:27]
    assert without_overlaps([chunk(0, 20), table])[1].text == DOCUMENT[21:27]


def test_budget_skips_oversized_chunks():
    chunks = [chunk(0, 30), chunk(0, 90), chunk(0, 15)]
    costs = EstimatingCounter().count([c.text for c in chunks])

    taken = within_budget(chunks, EstimatingCounter(), costs[0] + costs[2])

    assert [(c.text, c.tokens) for c in taken] == [(chunks[0].text, costs[0]), (chunks[2].text, costs[2])]


def test_sections_are_grouped_and_ordered_by_best_chunk():
    chunks = [
        chunk(40, 60, path=("B",)),
        chunk(0, 20, path=("A",)),
        chunk(20, 40, path=("B",)),
        chunk(path=("B",), document="b"),
    ]

    assert ordered(chunks, "score") == chunks
    assert [(c.document_id, c.span) for c in ordered(chunks, "section")] == [
        ("a", (20, 40)),
        ("a", (40, 60)),
        ("a", (0, 20)),
        ("b", (0, 20)),
    ]
