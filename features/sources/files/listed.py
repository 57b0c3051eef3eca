"""Listed objects as messages of the process that reads a listing. They are untrusted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from features.sources.errors import COMPONENT
from features.sources.reading.listings import MESSAGE_OBJECTS
from shared.domain.corpus.document_fields import MOST_KEY_BYTES
from shared.domain.errors import Misconfigured

_Text = Annotated[str, Field(max_length=MOST_KEY_BYTES)]
_OBJECT = tuple[_Text, Annotated[int, Field(ge=0, le=2**63 - 1)], _Text | None, _Text | None, datetime]


class Problem(BaseModel):
    """The end of a listing.

    Args:
        problem: a `name` that the library refuses, a `missing` bucket, `refused` credentials, or another reason.
        text: its words.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    problem: Literal["name", "missing", "refused", "failed"]
    text: _Text


_OBJECTS = Annotated[list[_OBJECT], Field(max_length=MESSAGE_OBJECTS)]
_MESSAGE = TypeAdapter(_OBJECTS | bool | Problem, config=ConfigDict(strict=True))


def read(message: bytes) -> list[dict[str, Any]] | bool | Problem:
    """Return the objects of a message, with obstore's fields; or whether the page is the last; or the problem.

    Raises:
        ValidationError: no reader sends such a message.
    """
    found = _MESSAGE.validate_json(message)
    return [_fields(*each) for each in found] if isinstance(found, list) else found


def unlistable(reason: str) -> Misconfigured:
    """Return the error of a listing that a store would send alike at another attempt."""
    return Misconfigured(f"The bucket cannot be listed: {reason}.", component=COMPONENT)


def _fields(path: str, size: int, tag: str | None, version: str | None, modified: datetime) -> dict[str, Any]:
    return {"path": path, "size": size, "e_tag": tag, "version": version, "last_modified": modified}
