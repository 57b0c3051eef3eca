from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.corpus.ids import (
    accepted_id,
    accepted_point_id,
    chunk_id,
    chunk_of_point,
    chunk_point_id,
    question_point_id,
)

COLLECTION, DOCUMENT = UUID(int=1), UUID(int=2)
CHUNK = chunk_id(COLLECTION, DOCUMENT, "The text.", 0)
VERSIONS = st.integers(1, 2**24 - 1)


def test_ids_are_stable_between_releases():
    accepted = accepted_id(CHUNK, "Why?")

    assert str(CHUNK) == "bffff3f8-9959-f223-f629-000000000000"
    assert str(accepted) == "bffff3f8-9959-f223-f629-000000f473b5"
    assert chunk_point_id(CHUNK, 1) == "bffff3f8-9959-f223-f629-000001000000"
    assert question_point_id(CHUNK, 26, 9) == "bffff3f8-9959-f223-f629-00001a00000a"
    assert accepted_point_id(accepted, 2) == "bffff3f8-9959-f223-f629-000002f473b5"


@given(st.tuples(st.uuids(), st.uuids(), st.text(), st.integers(0, 99)), VERSIONS, st.integers(0, 9_999), st.text())
def test_point_id_encodes_chunk_and_version(identity, version, ordinal, question):
    chunk = chunk_id(*identity)
    points = [
        chunk_point_id(chunk, version),
        question_point_id(chunk, version, ordinal),
        accepted_point_id(accepted_id(chunk, question), version),
    ]

    assert {chunk_of_point(point) for point in points} == {(str(chunk), version)}
    assert [str(UUID(point)) for point in points] == points
    assert len({str(chunk), *points}) == 4


def test_each_occurrence_of_text_has_own_id():
    other = UUID(int=3)
    others = [
        chunk_id(COLLECTION, DOCUMENT, "The text.", 1),
        chunk_id(COLLECTION, DOCUMENT, "Another.", 0),
        chunk_id(COLLECTION, other, "The text.", 0),
        chunk_id(other, DOCUMENT, "The text.", 0),
    ]

    assert len({CHUNK, *others}) == 5
    assert chunk_id(COLLECTION, DOCUMENT, "The text.", 0) == CHUNK


def test_accepted_question_id_ignores_case_and_punctuation():
    assert accepted_id(CHUNK, "How  long?") == accepted_id(CHUNK, "how long") != accepted_id(CHUNK, "how short")


def test_version_overflow_keeps_chunk_id_intact():
    assert chunk_of_point(chunk_point_id(CHUNK, 2**24 + 5)) == (str(CHUNK), 5)
