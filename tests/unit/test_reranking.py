import pytest

from shared.domain.errors import BadReply
from shared.providers.reranking import scores_in

RESULTS = [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0}, {"index": 1, "score": -3.5}]


@pytest.mark.parametrize("reply", [{"model": "m", "results": RESULTS}, RESULTS])
def test_scores_are_returned_in_document_order(reply):
    assert scores_in(reply, 3) == [0.0, -3.5, 0.9]


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {},
        {"results": None},
        {"results": {"0": 0.5}},
        [],
        RESULTS[:2],
        [*RESULTS, {"index": 3, "score": 1.0}],
        [*RESULTS, RESULTS[0]],
        [*RESULTS[:2], {"index": 3, "score": 1.0}],
        [*RESULTS[:2], {"index": -1, "score": 1.0}],
        [*RESULTS[:2], {"index": 2, "score": 1.0}],
        [*RESULTS[:2], {"index": "1", "score": 1.0}],
        [*RESULTS[:2], {"index": True, "score": 1.0}],
        [*RESULTS[:2], {"index": 1, "score": float("nan")}],
        [*RESULTS[:2], {"index": 1, "score": "NaN"}],
        [*RESULTS[:2], {"index": 1, "score": None}],
        [*RESULTS[:2], {"index": 1}],
        [*RESULTS[:2], 0.5],
        "ranking",
    ],
)
def test_rerank_needs_one_score_per_document(reply):
    with pytest.raises(BadReply):
        scores_in(reply, 3)
