"""Replies about the server's health."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.http.schemas.common import ReplyModel, example


class LiveReply(ReplyModel):
    model_config = example(status="live")

    status: Literal["live"] = "live"


class ReadyReply(ReplyModel):
    model_config = example(
        status="degraded",
        components={"ledger": "up", "broker": "down", "qdrant": "up", "uploads": "up"},
        down=["broker"],
        reasons={"broker": "the broker accepts no messages: connection refused"},
        warnings=[],
    )

    status: Literal["ready", "degraded", "unavailable", "stopping"]
    components: dict[Literal["ledger", "broker", "qdrant", "uploads"], Literal["up", "down"]]
    down: list[str]
    reasons: dict[str, str] = Field(
        description="Why a component does not answer; for Qdrant also why it takes no points or limits queries"
    )
    warnings: list[str] = Field(
        description="Problems with which this replica should stay in service, such as an index that is being repaired"
    )
