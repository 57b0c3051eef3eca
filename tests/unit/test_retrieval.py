import pytest

from shared.errors import InvalidInput
from shared.index import Hit
from shared.retrieval import Match, condition_of, fit, fold


def question(chunk, score, text="Why?"):
    return Hit(f"{chunk}-{text}", score, {"chunk_id": chunk, "question": text})


def test_a_chunk_counts_once_by_its_best_question():
    folded = fold([question("a", 0.5), question("a", 0.9, "How?"), question("b", 0.7)], [])

    assert folded == [Match("a", 0.9, "How?"), Match("b", 0.7, "Why?")]


def test_the_nearer_of_question_and_text_decides():
    folded = fold([question("a", 0.5), question("b", 0.6)], [Hit("a", 0.8, {}), Hit("b", 0.4, {})])

    assert folded == [Match("a", 0.8, None), Match("b", 0.6, "Why?")]


def test_equal_scores_have_one_order():
    hits = [question("b", 0.5), question("a", 0.5)]

    assert [m.chunk_id for m in fold(hits, [])] == [m.chunk_id for m in fold(hits[::-1], [])] == ["a", "b"]


def test_the_budget_passes_over_what_does_not_fit():
    assert fit([5, 9, 4, 1], lambda cost: cost, 10) == [5, 4, 1]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("legal", {"match": {"value": "legal"}}),
        (7, {"match": {"value": 7}}),
        (True, {"match": {"value": True}}),
        (0.5, {"range": {"gte": 0.5, "lte": 0.5}}),
        ({"any": ["a", "b"]}, {"match": {"any": ["a", "b"]}}),
        ({"gte": 1, "lt": 2.5}, {"range": {"gte": 1, "lt": 2.5}}),
        ({"text": "annual report"}, {"match": {"text": "annual report"}}),
    ],
)
def test_a_filter_becomes_a_condition(condition, expected):
    (built,) = condition_of({"field": condition})

    assert built.model_dump(exclude_none=True, by_alias=True) == {"key": "metadata.field"} | expected


def test_none_of_holds_where_the_field_is_missing_and_for_lists():
    (built,) = condition_of({"tags": {"none": ["x"]}})

    assert built.model_dump(exclude_none=True) == {"must_not": [{"key": "metadata.tags", "match": {"any": ["x"]}}]}


def test_dates_become_a_range_of_dates():
    (built,) = condition_of({"published": {"gte": "2024-01-01"}})

    assert built.range.gte.year == 2024


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"any": []},
        {"any": "text"},
        {"any": ["a", 1]},
        {"any": [True]},
        {"gte": "not a date"},
        {"gte": True},
        {"gte": 1, "lt": "2024-01-01"},
        {"like": "x"},
        {"text": " "},
        {"any": ["a"], "gte": 1},
    ],
)
def test_what_is_not_a_condition_is_refused_with_its_field(wrong):
    with pytest.raises(InvalidInput) as caught:
        condition_of({"field": wrong})

    assert caught.value.field == "filter.field"
    assert "field" in caught.value.message


@pytest.mark.parametrize("wrong", ["text", [1], 3])
def test_what_is_not_a_filter_is_refused(wrong):
    with pytest.raises(InvalidInput):
        condition_of(wrong)
