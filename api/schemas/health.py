"""Replies about the server's health."""

from __future__ import annotations

from typing import Literal

from api.schemas.common import ReplyModel, example


class LiveReply(ReplyModel):
    model_config = example(status="live")

    status: Literal["live"] = "live"


class ReadyReply(ReplyModel):
    model_config = example(
        status="degraded",
        components={"ledger": "up", "broker": "down", "qdrant": "up", "uploads": "up"},
        down=["broker"],
    )

    status: Literal["ready", "degraded", "unavailable", "stopping"]
    components: dict[Literal["ledger", "broker", "qdrant", "uploads"], Literal["up", "down"]]
    down: list[str]
