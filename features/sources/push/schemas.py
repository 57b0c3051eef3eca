"""Requests and replies of programs that push entries."""

from __future__ import annotations

from typing import Any, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from features.sources.push.pushing import PushedEntry
from shared.domain.access.persons import readers_of
from shared.http.schemas.common import BodyModel, ReplyModel, example, example_of
from shared.storage.uploads import Upload

MOST_ENTRIES = 1_000
_JOB_ID = "0198f3a1-77aa-7c3a-9d70-3c1b5e8f2a51"
_LISTING = "Id of the open listing; null: the entries are not a part of a listing"


class ListingBody(BodyModel):
    """A listing to start, or to continue."""

    model_config = example(key="nightly")

    key: str = Field("", max_length=200, description="Idempotency key: an open listing with the same key is continued")


class EntryBody(BodyModel):
    """An entry of a page.

    Without a body it is compared with its document: if the version is the same, absent fields stay as they are. With a
    body it is complete: absent fields are empty, and absent readers stay.
    """

    model_config = example(
        key="travel/expenses",
        version="v12",
        text="# Expenses\n\nKeep your receipts.",
        title="Expenses",
        url="https://wiki.example.com/travel/expenses",
        metadata={"department": "finance"},
        readable_by=["group:staff"],
    )

    key: str = Field(max_length=2_000, description="Name within the source: at most 1,024 bytes of UTF-8")
    version: str | None = Field(
        None,
        max_length=10_000,
        description="Changes whenever the body changes, and otherwise never, such as an ETag; default: the hash of the"
        " body",
    )
    text: str | None = Field(None, description="The body: Markdown, or another text of the `media_type`")
    filename: str | None = Field(None, max_length=1_000, description="Name whose ending shows the format")
    media_type: str | None = Field(None, max_length=200, description="Default: by the filename and the content")
    title: str | None = Field(None, max_length=10_000)
    url: str | None = Field(None, max_length=2_000, description="Address, which becomes the metadata field `url`")
    metadata: dict[str, Any] | None = None
    readable_by: list[str] | None = Field(
        None, description="Readers of the document: `everyone`, `user:NAME`, `group:NAME`; an empty list: no person"
    )
    deleted: bool = Field(default=False, description="Whether the entry does not exist any more")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.deleted and (self.text is not None or self.version is not None):
            raise ValueError("A deleted entry has no version and no body.")
        return self

    def pushed(self, upload: Upload | None = None, *, filename: str | None = None) -> PushedEntry:
        """Return the entry, with a stored body or its text.

        Raises:
            InvalidInput: a reader is malformed, or there are too many.
        """
        text = None if self.text is None else self.text.encode() if self.text.strip() else b""
        given = None if self.metadata is None and self.url is None else self.metadata or {}
        return PushedEntry(
            key=self.key,
            version=self.version,
            body=upload or text,
            filename=self.filename or filename,
            media_type=self.media_type or (None if text is None or self.filename else "text/markdown"),
            title=self.title,
            metadata=given if self.url is None else {**(given or {}), "url": self.url},
            readable_by=None if self.readable_by is None else readers_of(self.readable_by),
            is_deleted=self.deleted,
        )


class EntriesBody(BodyModel):
    """A page of entries, in any order. If two entries have the same key, the last one counts."""

    model_config = example(listing=_JOB_ID, entries=[example_of(EntryBody)], checkpoint="page 2")

    listing: UUID | None = Field(None, strict=False, description=_LISTING)
    entries: list[EntryBody] = Field(max_length=MOST_ENTRIES)
    checkpoint: str | None = Field(
        None,
        max_length=10_000,
        description="Position of the program after this page, in its own terms; starting the same listing again"
        " returns it",
    )


class PageBody(BodyModel):
    """A page whose entries are validated one by one, so that an invalid one stops no other."""

    listing: UUID | None = Field(None, strict=False)
    entries: list[Any] = Field(max_length=MOST_ENTRIES)
    checkpoint: str | None = Field(None, max_length=10_000)


class EntryResultView(ReplyModel):
    """The result of an entry."""

    model_config = example(key="travel/expenses", result="created", reason=None)

    key: str
    result: Literal["created", "changed", "described", "unchanged", "deleted", "body_needed", "refused"] = Field(
        description="`body_needed`: send the entry again, with its body. `described`: its readers, title or metadata"
        " changed, and not its content. `refused`: `reason` says why; its document stays as it is"
    )
    reason: str | None = Field(description="Why it is refused; null otherwise")


class EntriesReply(ReplyModel):
    """The results of a page: one for each key. Everything else than `body_needed` and `refused` is saved."""

    model_config = example(results=[example_of(EntryResultView)])

    results: list[EntryResultView]
