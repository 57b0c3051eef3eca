"""Requests and replies about who reads documents."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from shared.domain.access.persons import MOST_CHARS, MOST_GROUPS
from shared.http.schemas.common import DOCUMENT_ID, BodyModel, ReplyModel, example

_Name = Annotated[str, Field(min_length=1, max_length=MOST_CHARS)]


class AccessCheckBody(BodyModel):
    """A person and a document."""

    model_config = example(user="ada@example.org", groups=["legal"], document_id=DOCUMENT_ID)

    user: _Name = Field(description="Name of the user, as the identity provider or the application names it")
    groups: list[_Name] = Field(default_factory=list, max_length=MOST_GROUPS, description="Names of the user's groups")
    document_id: Annotated[UUID, Field(strict=False)]


class VersionAccessView(ReplyModel):
    """Whether a person reads a version of a document."""

    version: int
    live: bool = Field(description="Whether queries see this version")
    readable: bool
    matches: list[str] = Field(description="Readers of the version that the person matches")
    readable_by: list[str] | None = Field(description="Readers of the version; null: it names none")


class AccessCheckReply(ReplyModel):
    """Why a person reads a document, or does not."""

    model_config = example(
        readable=True,
        reason="ada@example.org reads the document, because it names the group 'legal'.",
        versions=[
            {
                "version": 1,
                "live": True,
                "readable": True,
                "matches": ["group:legal"],
                "readable_by": ["group:hr", "group:legal"],
            }
        ],
    )

    readable: bool = Field(description="Whether the person's queries find the document; false if none finds it yet")
    reason: str = Field(description="The reason, as a sentence")
    versions: list[VersionAccessView] = Field(description="The live and the newest version, the newest first")


class ReaderView(ReplyModel):
    """A reader that documents name."""

    reader: str = Field(
        description="`everyone`, `user:NAME` or `group:NAME`; `unset`: documents that name none; `nobody`: documents"
        " that no person reads"
    )
    documents: int = Field(description="Number of documents whose newest versions name it")
    seen_at: datetime | None = Field(
        description="For a group: when a person last had it, at most an hour old; null if no person has had it for"
        " 90 days"
    )


class AccessReview(ReplyModel):
    """Readers of documents, for a review."""

    model_config = example(
        readable_by_default="everyone",
        items=[
            {"reader": "unset", "documents": 120, "seen_at": None},
            {"reader": "group:legal", "documents": 31, "seen_at": "2026-10-01T09:30:00Z"},
        ],
    )

    readable_by_default: Literal["everyone", "nobody"] = Field(
        description="Which persons read documents that name no readers: FOREASK_READABLE_BY_DEFAULT"
    )
    items: list[ReaderView] = Field(
        description="`everyone`, `unset` and `nobody`, then up to 1,000 readers with the most documents"
    )
