"""Requests and replies of labelled sets and evaluations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, StringConstraints

from shared.http.schemas.calibration import NDCG, LabelledQuestion
from shared.http.schemas.common import BodyModel, ReplyModel, example, example_of
from shared.http.schemas.jobs import RunPhase

MOST_QUESTIONS = 1_000
SetName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"),
    Field(description="Letters, digits, dots and dashes", examples=["helpdesk-2026"]),
]
_QUESTION = {"question": "How much leave do I get?", "external_ids": ["leave.md"]}
_RUN_ID = "0198f3a1-5f0e-7c3a-9d70-3c1b5e8f2a44"


class LabelledSetBody(BodyModel):
    """Labelled questions. Either all of them list `external_ids` of documents, or all list chunks."""

    model_config = example(questions=[_QUESTION])

    questions: list[LabelledQuestion] = Field(min_length=1, max_length=MOST_QUESTIONS)


class LabelledSetView(ReplyModel):
    model_config = example(
        set="helpdesk-2026", questions=[_QUESTION | {"chunk_ids": []}], changed_at="2026-10-01T09:30:00Z"
    )

    set: str
    questions: list[LabelledQuestion]
    changed_at: datetime


class LabelledSetSizeView(ReplyModel):
    set: str
    questions: int
    changed_at: datetime


class LabelledSetList(ReplyModel):
    model_config = example(items=[{"set": "helpdesk-2026", "questions": 142, "changed_at": "2026-10-01T09:30:00Z"}])

    items: list[LabelledSetSizeView]


class EvaluateBody(BodyModel):
    """Questions and strategies of an evaluation."""

    model_config = example(labelled_set="helpdesk-2026", strategies=["default", "text", "bm25"], baseline="text")

    labelled_set: SetName | None = Field(
        None, description="Name of a labelled set of the collection; alternatively, send `questions`"
    )
    questions: list[LabelledQuestion] | None = Field(None, min_length=1, max_length=MOST_QUESTIONS)
    strategies: list[str] | None = Field(
        None,
        max_length=20,
        description="Names of strategies, as in `foreask eval`; null for all that do not call a model per question",
    )
    baseline: str | None = Field(None, description="Strategy to compare the others with; null for `text`")
    build: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Number of the build to search; null for the live build"
    )


class EvaluationView(ReplyModel):
    """An evaluation. It continues if the client disconnects or the server is restarted."""

    model_config = example(
        id=_RUN_ID,
        labelled_set="helpdesk-2026",
        build=1,
        questions=142,
        state="running",
        strategy="text",
        done=180,
        total=426,
        error=None,
        created_at="2026-10-01T09:30:00Z",
        ended_at=None,
        results=None,
    )

    id: UUID
    labelled_set: str | None = Field(
        description="Name of the labelled set; null if the request contained the questions"
    )
    build: int | None = Field(description="Number of the searched build; null if it was deleted")
    questions: int
    state: RunPhase = Field(description="`queued`: it waits for a free slot of an index worker")
    strategy: str | None = Field(description="Current strategy")
    done: int = Field(description="Number of finished queries out of `total`")
    total: int
    error: str | None
    created_at: datetime
    ended_at: datetime | None
    results: dict[str, Any] | None = Field(
        description="Content of `results.json` of `foreask eval`; lists contain only its `rows`. null until it is done"
    )


class EvaluationList(ReplyModel):
    model_config = example(items=[example_of(EvaluationView)], strategies=["default", "text", "bm25"])

    items: list[EvaluationView]
    strategies: list[str] = Field(description="Names of the available strategies")


class DifferenceView(ReplyModel):
    """nDCG@10 of a strategy in two evaluations, on their common questions."""

    strategy: str
    before: float
    now: float
    difference: NDCG
    p_value: float = Field(description="Probability of such a difference by chance")
    queries: int


class DifferenceList(ReplyModel):
    model_config = example(
        items=[
            {
                "strategy": "default",
                "before": 0.71,
                "now": 0.79,
                "difference": {"mean": 0.08, "low": 0.02, "high": 0.14},
                "p_value": 0.004,
                "queries": 142,
            }
        ]
    )

    items: list[DifferenceView]
