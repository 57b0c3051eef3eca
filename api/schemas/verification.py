"""Requests and replies of a collection's verification."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import Field

from api.schemas.common import CHUNK_ID, DOCUMENT_ID, POINT_ID, BodyModel, ReplyModel, example


class VerifyBody(BodyModel):
    """How to compare a collection with Qdrant."""

    model_config = example(repair=True)

    repair: bool = Field(default=False, description="repair what differs; false: nothing is changed")
    cursor: str | None = Field(
        None, max_length=3000, description="of the last `progress` event of a comparison that broke off: go on there"
    )


class FindingView(ReplyModel):
    """A point that differs."""

    model_config = example(
        kind="missing",
        why="not stored",
        point_id=POINT_ID,
        document_id=DOCUMENT_ID,
        chunk_id=CHUNK_ID,
        repaired=True,
    )

    kind: Literal["missing", "stale", "orphaned"]
    why: str
    point_id: str
    document_id: UUID | None
    chunk_id: UUID | None
    repaired: bool = Field(description="removed, shown, or its chunk is due to be indexed again without a call")


class VerificationCountsView(ReplyModel):
    """The counts of a comparison, so far or in all."""

    model_config = example(documents=1250, points=31000, missing=6, stale=0, orphaned=2, repaired=8)

    documents: int = Field(description="documents that were not in work")
    points: int = Field(description="points that are stored")
    missing: int = Field(description="expected and not stored")
    stale: int = Field(description="of an old version, or hidden though queries should see them")
    orphaned: int = Field(description="stored, though their document, chunk or question is not in the ledger")
    repaired: int


class VerificationProgress(VerificationCountsView):
    model_config = example(
        documents=1250, points=31000, missing=6, stale=0, orphaned=2, repaired=8, cursor="WyJwb2ludHMiXQ"
    )

    cursor: str = Field(description="with it another comparison goes on from here")


class VerificationReply(VerificationCountsView):
    model_config = example(documents=1250, points=31000, missing=6, stale=0, orphaned=2, repaired=8, findings=[])

    findings: list[FindingView] = Field(description="the first 1,000")
