import functools
from uuid import UUID

import numpy as np
import pytest

from shared.domain.corpus.ids import chunk_point_id, question_point_id
from shared.domain.errors import InvalidInput
from shared.domain.text.bm25 import query_vector
from shared.query.retrieve import ChannelRank, Match, Weights, fuse
from shared.query.retrieve.query import Query
from shared.query.retrieve.scores.channels import ChannelQuery, fold, full_bm25
from shared.query.retrieve.scores.default_fusion import reference_scores
from shared.query.retrieve.scores.diversity import diversified
from shared.query.retrieve.searching import _channels
from shared.vectors.hits import RankedPoints
from shared.vectors.schema.filters import metadata_conditions
from tests.support.planted import guards


def chunk(letter):
    return UUID(int=ord(letter) << 48)


def named(chunk_id):
    """Return the letter of a chunk."""
    return chr(UUID(chunk_id).int >> 48)


def point(letter, ordinal=0):
    return question_point_id(chunk(letter), 1, ordinal)


def question(letter, score, ordinal=0):
    return point(letter, ordinal), score


def questions(*hits, limit=100):
    return fold("questions", RankedPoints(*zip(*hits, strict=True)), limit, 1.0)


def text(channel="text", **scores):
    points = [chunk_point_id(chunk(letter), 1) for letter in scores]
    return fold(channel, RankedPoints(points, list(scores.values())), 100, 1.0)


def ranked(hits, fusion="scores", weights=Weights()):  # noqa: B008  it is frozen
    return [named(match.chunk_id) for match in fuse(hits, fusion, weights)]


def test_chunk_counts_once_by_best_question():
    hits = questions(question("a", 0.5), question("a", 0.9, 1), question("b", 0.7))

    first, second = fuse({"questions": hits}, "max", Weights())

    assert (named(first.chunk_id), first.score, first.question) == ("a", 0.9, point("a", 1))
    assert (named(second.chunk_id), second.score, second.question) == ("b", 0.7, point("b"))
    assert first.ranks == {"questions": ChannelRank(1, 0.9)}


def test_score_is_weighted_mean_of_channels():
    hits = {"questions": questions(question("a", 0.5)), "text": text(a=0.2, b=0.4)}

    assert [(named(m.chunk_id), m.score) for m in fuse(hits, "mean", Weights(questions=3, text=1))] == [
        ("a", pytest.approx((3 * 0.5 + 0.2) / 4)),
        ("b", pytest.approx(0.1)),
    ]


def test_unseen_chunk_gets_half_of_lowest_score():
    hits = {"questions": questions(question("a", 0.6), question("b", 0.4), limit=2), "text": text(c=0.5)}

    assert {named(m.chunk_id): m.score for m in fuse(hits, "mean", Weights())}["c"] == pytest.approx((0.2 + 0.5) / 2)


def test_channel_without_weight_is_ignored():
    hits = {"questions": questions(question("a", 0.9)), "text": text(b=0.1)}

    assert ranked(hits, weights=Weights(questions=0)) == ["b", "a"]


def test_repeated_channel_is_searched_once():
    asked = ChannelQuery(np.ones(1, np.float32), query_vector("tide tables"))

    assert _channels(asked, Query("", channels=["text", "bm25", "text", "bm25"]), Weights()) == ["text", "bm25"]


def test_irrelevant_channel_noise_does_not_change_order():
    hits = {"questions": questions(question("a", 0.8), question("b", 0.5)), "text": text(b=0.06, a=0.01)}

    assert ranked(hits) == ["a", "b"]
    assert ranked(hits, "rrf", Weights(questions=1, text=2)) == ["b", "a"]


def test_score_is_excess_over_each_channels_baseline():
    hits = {
        "questions": questions(question("a", 0.9), question("b", 0.6)),
        "text": text(b=0.7, a=0.5, c=0.4, d=0.3, e=0.2),
        "bm25": text("bm25", a=0.2),
    }

    a, b, *_ = fuse(hits, "scores", Weights())

    assert reference_scores(hits) == {"questions": 0.2, "text": 0.2, "bm25": 0.0}
    assert (named(a.chunk_id), named(b.chunk_id)) == ("a", "b")
    assert a.evidence == pytest.approx((0.9 + 1.5 * 0.7, 0.35 * 0.4**0.5 * 0.95, 0.2 + 1.5 * 0.2, 8 * 0.2 * 0.5))
    assert a.score == pytest.approx(sum(a.evidence) / (2 + sum(a.evidence)))
    assert b.evidence == pytest.approx((0.7 + 1.5 * 0.5, 0.35 * 0.4**0.5 * 1.2, 0.0, 0.0))


def test_partial_questions_do_not_outrank_nearer_text():
    hits = {
        "questions": questions(question("w", 0.55)),
        "text": text(r=0.62, a=0.5, b=0.5, c=0.5, w=0.5),
    }

    assert ranked(hits)[0] == "r"
    assert ranked(hits, "mean")[0] == "w"


@guards(
    "shared/query/retrieve/scores/default_fusion.py",
    "        _AGREEMENT * sqrt(asked) * agreement,",
    "        0.0 * agreement,",
    means="a chunk whose question and text both answer ranks below one with a slightly nearer text",
)
def test_agreeing_question_and_text_outrank_either_alone():
    found = questions(question("b", 0.6), *(question(other, 0.4) for other in "acde"))
    hits = {"questions": found, "text": text(a=0.62, b=0.6, c=0.4, d=0.4, e=0.4)}

    assert ranked(hits)[0] == "b"


@guards(
    "shared/query/retrieve/scores/default_fusion.py",
    "    agreement = np.minimum(of_questions * np.maximum(question, assumed), of_texts * text)",
    "    agreement = np.minimum(of_questions * question, of_texts * text)",
    means="a nearer chunk whose questions are not written yet ranks below one with questions",
)
def test_missing_questions_are_assumed_to_agree():
    texts = text(a=0.6, b=0.58, **dict.fromkeys("cdefghij", 0.4))
    partial = questions(question("b", 0.58))
    complete = questions(question("b", 0.58), *(question(other, 0.4) for other in "cdefghij"))

    assert ranked({"questions": partial, "text": texts})[0] == "a"
    assert ranked({"questions": complete, "text": texts})[0] == "b"


def test_near_identical_question_adds_score_if_text_agrees():
    hits = {"questions": questions(question("w", 0.95), question("r", 0.9)), "text": text(r=0.7, w=0.0)}

    assert ranked(hits)[0] == "r"
    assert ranked({"questions": hits["questions"]})[0] == "w"


def test_only_weight_ratios_matter_and_zero_excludes_channel():
    hits = {"questions": questions(question("a", 0.9)), "text": text(a=0.6, b=0.5, c=0.5, d=0.5, e=0.5)}

    equal, double = (fuse(hits, "scores", Weights(n, n, n)) for n in (1, 2))
    (alone, *_) = fuse(hits, "scores", Weights(1, 0, 0))
    (half, *_) = fuse(hits, "scores", Weights(0.5, 1, 1))

    assert list(equal) == list(double)
    assert equal[0].evidence.similarity == pytest.approx(0.9 + 1.5 * 0.4)
    assert alone.evidence == pytest.approx((0.9 * 2.5, 0.0, 0.0, 0.0))
    assert half.evidence == pytest.approx(((0.9 + 1.5 * 0.4) / 2, 0.35 * 0.2**0.5 * 0.75, 0.0, 8 * 0.2 * 0.6 / 2))


def test_rrf_score_sums_reciprocal_ranks():
    hits = {"questions": questions(question("a", 0.9), question("b", 0.8)), "text": text(b=0.3)}

    assert [(named(m.chunk_id), m.score) for m in fuse(hits, "rrf", Weights())] == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("a", pytest.approx(1 / 61)),
    ]


def test_max_fusion_uses_best_channel():
    hits = {"questions": questions(question("a", 0.5)), "text": text(a=0.7, b=0.6)}

    assert [(named(m.chunk_id), m.score) for m in fuse(hits, "max", Weights())] == [("a", 0.7), ("b", 0.6)]


def test_chunk_matched_by_text_names_no_question():
    hits = {"questions": questions(question("a", 0.5), question("b", 0.6)), "text": text(a=0.8, b=0.4)}

    assert {named(m.chunk_id): m.question for m in fuse(hits, "scores", Weights())} == {
        "a": None,
        "b": point("b"),
    }


def test_equal_scores_have_deterministic_order():
    hits = [question("b", 0.5), question("a", 0.5)]

    assert ranked({"questions": questions(*hits)}) == ranked({"questions": questions(*hits[::-1])}) == ["a", "b"]


def test_bm25_is_share_of_reachable_maximum():
    terms = query_vector("tide tables harbour")

    assert full_bm25(terms, 1_000) == pytest.approx(3 * 2.2 * 0.5 * 7.6, rel=0.01)
    hits = fold("bm25", RankedPoints([chunk_point_id(chunk("a"), 1)], [10.0]), 100, 20.0)
    assert hits.scores == {str(chunk("a")): 0.5}


def test_diversity_demotes_similar_chunks():
    matches = [Match(chunk, score, None, {}) for chunk, score in (("a", 0.9), ("twin", 0.88), ("other", 0.7))]
    vectors = {"a": np.array([1.0, 0.0]), "twin": np.array([0.99, 0.1]), "other": np.array([0.0, 1.0])}

    assert [m.chunk_id for m in diversified(matches, vectors, 2, 0.0)] == ["a", "twin"]
    assert [m.chunk_id for m in diversified(matches, vectors, 2, 0.5)] == ["a", "other"]
    assert [m.chunk_id for m in diversified(matches, {}, 3, 0.5)] == ["a", "twin", "other"]


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
def test_filter_becomes_qdrant_condition(condition, expected):
    (built,) = metadata_conditions({"field": condition})

    assert built == {"key": "metadata.field"} | expected


def test_none_of_matches_missing_fields_and_lists():
    (built,) = metadata_conditions({"tags": {"none": ["x"]}})

    assert built == {"must_not": [{"key": "metadata.tags", "match": {"any": ["x"]}}]}


def test_date_bounds_become_date_range():
    (built,) = metadata_conditions({"published": {"gte": "2024-01-01"}})

    assert built["range"] == {"gte": "2024-01-01T00:00:00"}


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        {"exists": 1},
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
@pytest.mark.parametrize("kind", [None, "keyword", "integer", "float", "bool", "datetime"])
def test_invalid_condition_is_rejected_by_field(wrong, kind):
    with pytest.raises(InvalidInput) as caught:
        metadata_conditions({"field": wrong}, (("field", kind),) if kind else ())

    assert caught.value.field == "filter.field"
    assert "field" in caught.value.message


@pytest.mark.parametrize("wrong", ["text", [1], 3])
def test_invalid_filter_is_rejected(wrong):
    with pytest.raises(InvalidInput):
        metadata_conditions(wrong)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"any": []}, "filter.any"),
        ({"all": {"a": 1}}, "filter.all"),
        ({"any": [{"a": 1}, {}]}, "filter.any.1"),
        ({"not": [{"a": 1}]}, "filter.not"),
        ({"all": [{"b": 1}, {"not": {"any": [{"a": {"like": 1}}]}}]}, "filter.all.1.not.any.0.a"),
        ({"any": [{"a": n} for n in range(65)]}, "filter"),
        (functools.reduce(lambda inner, _: {"not": inner}, range(8), {"a": 1}), "filter" + ".not" * 8),
    ],
)
def test_nested_filter_error_names_its_path(wrong, field):
    with pytest.raises(InvalidInput) as caught:
        metadata_conditions(wrong)

    assert caught.value.field == field


FIELDS = (("tags", "keyword"), ("year", "integer"), ("price", "float"), ("draft", "bool"), ("at", "datetime"))


@pytest.mark.parametrize(
    ("name", "condition", "expected"),
    [
        ("tags", "a", {"key": "terms", "match": {"value": "tags=a"}}),
        ("tags", {"any": ["a", "b"]}, {"key": "terms", "match": {"any": ["tags=a", "tags=b"]}}),
        ("tags", {"none": ["a"]}, {"must_not": [{"key": "terms", "match": {"any": ["tags=a"]}}]}),
        ("year", 2026, {"key": "terms", "match": {"value": "year=2026"}}),
        ("year", {"any": [1, 2]}, {"key": "terms", "match": {"any": ["year=1", "year=2"]}}),
        ("year", {"gte": 2026}, {"key": "number_0", "range": {"gte": 2026}}),
        ("price", {"lt": 2}, {"key": "number_1", "range": {"lt": 2}}),
        ("price", 2.5, {"key": "number_1", "range": {"gte": 2.5, "lte": 2.5}}),
        ("draft", True, {"key": "terms", "match": {"value": "draft=true"}}),
        # Filters for which an index would return other results than the metadata.
        ("tags", 1, {"key": "metadata.tags", "match": {"value": 1}}),
        ("tags", {"text": "a"}, {"key": "metadata.tags", "match": {"text": "a"}}),
        ("year", True, {"key": "metadata.year", "match": {"value": True}}),
        ("price", 2, {"key": "metadata.price", "match": {"value": 2}}),
        ("draft", 1, {"key": "metadata.draft", "match": {"value": 1}}),
        ("at", "2026-01-01", {"key": "metadata.at", "match": {"value": "2026-01-01"}}),
        ("at", {"gte": 5}, {"key": "metadata.at", "range": {"gte": 5}}),
        ("year[]", 2026, {"key": "metadata.year[]", "match": {"value": 2026}}),
        ("other", "a", {"key": "metadata.other", "match": {"value": "a"}}),
    ],
)
def test_declared_field_filter_uses_index(name, condition, expected):
    (built,) = metadata_conditions({name: condition}, FIELDS)

    assert built == expected


def test_declared_date_field_uses_date_index():
    (built,) = metadata_conditions({"at": {"gte": "2024-01-01"}}, FIELDS)

    assert built == {"key": "datetime_0", "range": {"gte": "2024-01-01T00:00:00"}}
