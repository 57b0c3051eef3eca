"""Types of values, and the classes of replies that are written by hand. `foreask_client.models` has all of them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]
KeyScope = Literal["read", "ask", "feedback", "write", "manage", "delegate"]
Lane = Literal["interactive", "bulk", "batch"]
Version = Literal["latest", "live"]

_INCOMPLETE = {
    "length": "the model reached its token limit",
    "content_filter": "the provider's content filter stopped it",
    "interrupted": "the model's reply was interrupted",
}


class Model(BaseModel):
    """A reply. Fields that a newer server adds are kept as attributes without a type."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())


class Completeness(Model):
    """The part of an answer that says whether it is complete."""

    incomplete_reason: str | None = None

    @property
    def why_incomplete(self) -> str | None:
        """The sentence that a reader of an incomplete answer needs; None if the answer is complete."""
        if self.incomplete_reason is None:
            return None
        reason = _INCOMPLETE.get(self.incomplete_reason, _INCOMPLETE["interrupted"])
        return f"This answer is incomplete: {reason}."


class Event(Model):
    """A server-sent event."""

    name: str
    data: Json
