"""Requests and replies of a collection's builds."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from shared.domain.states import BuildState, DocumentState
from shared.http.schemas.calibration import NDCG
from shared.http.schemas.collections import CollectionOptionsView, OptionsInForceView
from shared.http.schemas.common import BodyModel, ReplyModel, example, example_of
from shared.http.schemas.jobs import RunPhase

_BUILD: dict[str, Any] = {
    "build": 2,
    "state": "filling",
    "embedding_model": "e5",
    "options": {
        "questions_per_chunk": 5,
        "prompt": None,
        "chunk_max_chars": 1200,
        "chunk_overlap_chars": 100,
        "prepend_questions": None,
        "section_max_chars": None,
        "ocr_languages": None,
        "captions": None,
        "context": None,
        "filterable": {},
    },
    "effective": example_of(OptionsInForceView),
    "created_at": "2026-10-01T09:00:00Z",
    "live_until": None,
    "source_documents": 1250,
    "copied": 800,
    "documents": {"ready": 640, "searchable": 160},
    "eta_seconds": 210,
    "cost": 0.84,
    "gate": None,
}


class BuildView(ReplyModel):
    model_config = example(**_BUILD)

    build: int = Field(description="Number of the build within the collection")
    state: BuildState = Field(
        description="`live`: the build answers queries. `following`: it has all documents and receives all changes."
    )
    embedding_model: str
    options: CollectionOptionsView = Field(description="A null option uses the server's setting")
    effective: OptionsInForceView | None = Field(None, description="The options in force")
    created_at: datetime
    live_until: datetime | None = Field(
        description="Time at which another build became live; null if this build was never replaced"
    )
    source_documents: int = Field(description="Number of documents in the live build")
    copied: int = Field(description="Number of documents copied to the build")
    documents: dict[DocumentState, int] = Field(description="Number of documents in each state")
    eta_seconds: int | None = Field(
        None,
        description="Time until the build has every document, or else until its documents are finished, at the pace of"
        " `GET /v1/status`; null without evidence",
    )
    cost: float | None = Field(
        None, description="Costs of all calls for the build with a known price; null if there are none"
    )
    gate: dict[str, Any] | None = Field(None, description="Latest report of the gate")


class BuildList(ReplyModel):
    model_config = example(items=[_BUILD])

    items: list[BuildView] = Field(description="Builds in order of number")


class GateQuestion(BodyModel):
    question: str = Field(min_length=1, max_length=10_000, pattern=r"\S")
    external_ids: list[str] = Field(
        min_length=1, max_length=100, description="External ids of the documents that answer the question"
    )


class GateBody(BodyModel):
    model_config = example(
        questions=[{"question": "How much leave do I get?", "external_ids": ["leave.md"]}], accept_failures=0
    )

    questions: list[GateQuestion] | None = Field(
        None, max_length=1_000, description="At least 30 questions; null uses the questions that users have accepted"
    )
    accept_failures: int = Field(0, ge=0, description="Number of documents that may have failed only in the new build")


class QualityView(ReplyModel):
    source: Literal["labelled", "accepted"]
    questions: int
    live: NDCG
    build: NDCG
    difference: NDCG = Field(description="Build minus live, paired by question")


class LatencyView(ReplyModel):
    questions: int
    live_milliseconds: float = Field(description="95th percentile of the query latency")
    build_milliseconds: float


class DocumentComparisonView(ReplyModel):
    documents: int
    missing: int
    stale: int
    orphaned: int
    unindexed: int
    failed: int
    degraded: int


class PointDifferencesView(ReplyModel):
    documents: int
    points: int
    missing: int
    stale: int
    orphaned: int
    repaired: int


class GateReply(ReplyModel):
    """The report of the gate; it is open if there are no reasons against the build."""

    model_config = example(
        open=False,
        reasons=["Documents that the build lacks: 1."],
        notes=["The latency was not compared: this needs 20 questions, of users or labelled."],
        documents={
            "documents": 1250,
            "missing": 1,
            "stale": 0,
            "orphaned": 0,
            "unindexed": 0,
            "failed": 0,
            "degraded": 0,
        },
        points={"documents": 1249, "points": 15200, "missing": 0, "stale": 0, "orphaned": 0, "repaired": 0},
        quality=None,
        latency=None,
    )

    open: bool
    reasons: list[str]
    notes: list[str] = Field(description="Skipped comparisons, with their reasons")
    documents: DocumentComparisonView
    points: PointDifferencesView
    quality: QualityView | None
    latency: LatencyView | None


class GateProgress(PointDifferencesView):
    """Counts of a gate that is not done yet."""

    state: RunPhase = Field(description="`queued`: it waits for a free slot of an index worker")


class GateRunView(ReplyModel):
    """The newest gate of a build."""

    model_config = example(
        state="running",
        error=None,
        created_at="2026-10-01T09:30:00Z",
        ended_at=None,
        points={"documents": 1249, "points": 15200, "missing": 0, "stale": 0, "orphaned": 0, "repaired": 0},
        report=None,
    )

    state: RunPhase
    error: str | None
    created_at: datetime
    ended_at: datetime | None
    points: PointDifferencesView = Field(description="Documents and points of the build that are compared so far")
    report: GateReply | None


class SwitchBody(BodyModel):
    model_config = example(force=False)

    force: bool = Field(default=False, description="Switch even if the gate is closed or has not been run")
