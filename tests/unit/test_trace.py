"""A query's trace has the facts and times of every stage, and a sentence that explains each stage."""

from typing import get_args

import pytest

from shared.http.queries.explanation import sentence
from shared.query.retrieve.trace import AssemblyFacts, FetchFacts, RewriteFacts, SearchFacts, StageFacts, Trace


def test_stages_are_listed_in_query_order():
    trace = Trace()
    with trace.timed("answer"):
        pass
    trace.record("fetch", FetchFacts(3))
    trace.skip("rewrite", "no model")

    assert [stage.name for stage in trace.stages] == ["rewrite", "fetch", "answer"]
    assert trace.skipped == {"rewrite": "no model"}
    assert list(trace.milliseconds) == ["answer"]


def test_stage_times_sum_even_on_failure(monkeypatch):
    clock = iter([0.0, 0.5, 1.0, 1.25])
    monkeypatch.setattr("shared.query.retrieve.trace.time.perf_counter", lambda: next(clock))
    trace = Trace()
    with trace.timed("fetch"):
        pass
    with pytest.raises(ValueError, match="gone"), trace.timed("fetch"):
        raise ValueError("gone")

    assert trace.milliseconds == {"fetch": 750.0}


def test_skipped_stage_drops_recorded_facts():
    trace = Trace()
    trace.record("rewrite", RewriteFacts(2))
    trace.skip("rewrite", "late")

    (stage,) = trace.stages
    assert (stage.facts, stage.skipped) == (None, "late")


def test_every_fact_type_has_sentence():
    assert {*get_args(StageFacts)} <= sentence.registry.keys()


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (RewriteFacts(1), "one call, 1 more text searched"),
        (RewriteFacts(3), "one call, 3 more texts searched"),
        (SearchFacts({"questions": 3, "bm25": 0}), "chunks by channel: questions 3, bm25 0"),
        (SearchFacts({}), "chunks by channel: none"),
        (
            AssemblyFacts(1, 2, 30, exact=True),
            "1 cut where another has the same text, 2 over the budget; 30 tokens, counted",
        ),
        (None, None),
    ],
)
def test_stage_facts_become_sentences(facts, expected):
    assert sentence(facts) == expected
