"""Requests and replies of sources."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import Field, model_validator

from features.sources.domain import MAX_DELETE_SHARE, MOST_SHOWN
from shared.http.schemas.common import BodyModel, CollectionName, ReplyModel, example, example_of
from shared.http.schemas.jobs import RunPhase

_JOB_ID = "0198f3a1-77aa-7c3a-9d70-3c1b5e8f2a51"
_MOST_KEYS = 1_000
_CRON = "Times of syncs as a cron expression with five fields"
_ZONE = "Time zone of the schedule, such as `Europe/Berlin`"
_SECRET = "Name of the operator's setting that contains the secret of the source"  # noqa: S105 - a description
_SHARE = "Part of the items that one sync may delete without approval; ten always may be"

SourceName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="Lower-case letters, digits, - and _; at most 63 characters; unique within the tenant",
        examples=["wiki"],
    ),
]
Kind = Annotated[str, Field(min_length=1, max_length=30)]
Uri = Annotated[str, Field(min_length=1, max_length=2_000, description="Address of the source")]
Options = Annotated[dict[str, Any], Field(max_length=50, description="Options of its kind")]
SecretName = Annotated[str, Field(min_length=1, max_length=100)]
Cron = Annotated[str, Field(min_length=1, max_length=200)]
Share = Annotated[float, Field(ge=0, le=1, strict=False)]


class SourceBody(BodyModel):
    """A source to add: a corpus that foreask keeps a collection in sync with."""

    model_config = example(
        name="wiki",
        collection="handbook",
        uri="file:///srv/wiki",
        options={"include": ["*.md"]},
        schedule="0 3 * * *",
        time_zone="Europe/Berlin",
    )

    name: SourceName
    collection: CollectionName = "default"
    kind: Kind | None = Field(None, description="Kind of source, such as `folder`; default: by the address")
    uri: Uri
    options: Options = Field({})
    secret_name: SecretName | None = Field(None, description=_SECRET)
    schedule: Cron | None = Field(None, description=f"{_CRON}; null: only on request")
    time_zone: str = Field("UTC", max_length=100, description=_ZONE)
    max_delete_share: Share = Field(MAX_DELETE_SHARE, description=_SHARE)


class SourceChange(BodyModel):
    """Changes of a source; absent fields are not changed."""

    model_config = example(schedule="0 */6 * * *")

    uri: Uri | None = None
    options: Options | None = None
    secret_name: SecretName | None = Field(None, description=f"{_SECRET}; null: none")
    schedule: Cron | None = Field(None, description=f"{_CRON}; null: only on request")
    time_zone: str | None = Field(None, max_length=100, description=_ZONE)
    max_delete_share: Share | None = Field(None, description=_SHARE)
    confirm: bool = Field(
        default=False,
        description="Required to change the address or the options of a source with documents, because documents of"
        " entries that the source lacks afterwards are deleted",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("uri", "options", "time_zone", "max_delete_share"):
            if name in self.model_fields_set and getattr(self, name) is None:
                raise ValueError(f"{name} cannot be null: omit it to keep its value")
        return self


class SourceCheckBody(BodyModel):
    """A source to check before it is added."""

    model_config = example(uri="file:///srv/wiki", options={"include": ["*.md"]})

    kind: Kind | None = Field(None, description="Kind of source, such as `folder`; default: by the address")
    uri: Uri
    options: Options = Field({})
    secret_name: SecretName | None = Field(None, description=_SECRET)


class SourceCheckView(ReplyModel):
    """A check of a source: its first entries, or why it cannot be listed."""

    model_config = example(
        id=_JOB_ID,
        state="done",
        seen=1000,
        refused=1,
        complete=False,
        keys=["leave.md", "travel/expenses.md"],
        refusal="broken.md: The key is not valid text.",
        error=None,
        created_at="2026-10-01T09:00:00Z",
        ended_at="2026-10-01T09:00:01Z",
    )

    id: UUID
    state: RunPhase = Field(description="`queued` until a parse worker starts it")
    seen: int = Field(description="Listed entries: at most 1,000, or 5 pages of a site")
    refused: int = Field(description="Listed entries that cannot be read")
    complete: bool = Field(description="Whether the source has no further entries")
    keys: list[str] = Field(description="Keys of the first ten entries that can be read")
    refusal: str | None = Field(description="Why the first refused entry cannot be read")
    error: str | None = Field(description="Why the source cannot be listed")
    created_at: datetime
    ended_at: datetime | None = Field(description="null while it is open")


class ApprovalBody(BodyModel):
    """An approval of withheld deletions."""

    model_config = example(deletions=120)

    deletions: int = Field(
        ge=1,
        le=2**31 - 1,
        description="Upper bound: if the new listing lacks more entries, nothing is deleted and all are withheld again",
    )


class HintBody(BodyModel):
    """Keys of entries that may have changed. Events of object stores are accepted as their stores send them."""

    model_config = example(keys=["leave.md", "travel/expenses.md"])

    keys: list[str] = Field(max_length=_MOST_KEYS)


class RefusedEntryView(ReplyModel):
    """An entry that a sync could not read."""

    key: str = Field(description="Unprintable bytes are escaped")
    reason: str


class SyncView(ReplyModel):
    """A sync of a source."""

    model_config = example(
        id=_JOB_ID,
        source="wiki",
        collection="handbook",
        state="done",
        seen=1250,
        created=12,
        changed=3,
        unchanged=1235,
        readers_changed=4,
        missing=2,
        deleted=0,
        withheld=0,
        refused=0,
        refused_entries=[],
        waiting=None,
        approved=None,
        error=None,
        created_at="2026-10-01T03:00:00Z",
        listed_at="2026-10-01T03:00:21Z",
        ended_at="2026-10-01T03:00:22Z",
        checkpoint=None,
        expires_at=None,
    )

    id: UUID = Field(description="Id of its job, which ends when the documents of the sync are finished")
    source: str
    collection: str
    state: RunPhase = Field(description="State of the listing; the job of the sync has its own")
    seen: int = Field(description="Entries in the listing so far")
    created: int = Field(description="Entries whose documents are new")
    changed: int = Field(description="Entries whose documents got other content")
    unchanged: int = Field(description="Entries whose documents have their content already")
    readers_changed: int = Field(description="Entries whose documents got other readers and no other content")
    missing: int = Field(description="Entries with documents that the listing lacks")
    deleted: int = Field(description="Deleted documents")
    withheld: int = Field(description="Deletions that need approval")
    refused: int = Field(description="Entries that cannot be read; their documents are neither changed nor deleted")
    refused_entries: list[RefusedEntryView] = Field(description=f"The first {MOST_SHOWN} refused entries")
    waiting: str | None = Field(description="Why it reads no more entries now; it continues by itself")
    approved: int | None = Field(description="Approved number of deletions; null for a sync without approval")
    error: str | None = Field(description="Reason of its failure")
    created_at: datetime
    listed_at: datetime | None = Field(description="Time at which the listing was complete")
    ended_at: datetime | None = Field(description="End of the listing and its deletions")
    checkpoint: str | None = Field(description="Position that its program has saved; null unless a program pushes it")
    expires_at: datetime | None = Field(
        description="Time at which it fails unless its program sends something; null unless it waits for a program"
    )


class SyncPage(ReplyModel):
    model_config = example(items=[example_of(SyncView)], next_cursor=None)

    items: list[SyncView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


class LookupView(ReplyModel):
    """The newest lookup of a source's hints."""

    model_config = example(state="done", waiting=None, error=None, ended_at="2026-10-01T09:12:31Z")

    state: RunPhase = Field(description="After `failed`, the hints are looked up again some minutes later")
    waiting: str | None = Field(description="Why it reads no more entries now; it continues by itself")
    error: str | None = Field(description="Reason of its last failure, until the hints have been looked up")
    ended_at: datetime | None = Field(description="null while it is open")


class SourceView(ReplyModel):
    """A source with its newest sync. Its documents have the external ids `NAME/KEY`."""

    model_config = example(
        name="wiki",
        collection="handbook",
        kind="folder",
        uri="file:///srv/wiki",
        options={"include": ["*.md"]},
        secret_name=None,
        schedule="0 3 * * *",
        time_zone="Europe/Berlin",
        max_delete_share=0.1,
        created_at="2026-09-30T12:00:00Z",
        next_sync_at="2026-10-02T01:00:00Z",
        schedule_error=None,
        newest_sync=example_of(SyncView),
        newest_lookup=example_of(LookupView),
        removing=False,
    )

    name: str
    collection: str
    kind: str
    uri: str
    options: dict[str, Any]
    secret_name: str | None = Field(description=_SECRET)
    schedule: str | None = Field(description=f"{_CRON}; null: only on request")
    time_zone: str
    max_delete_share: float = Field(description=_SHARE)
    created_at: datetime
    next_sync_at: datetime | None = Field(description="Time of the next scheduled sync; null without a schedule")
    schedule_error: str | None = Field(
        description="Why the last scheduled sync was not started, or why the next time is not known"
    )
    newest_sync: SyncView | None = Field(description="null before the first sync")
    newest_lookup: LookupView | None = Field(description="null before the first hint")
    removing: bool = Field(description="Whether the source is being removed")


class SourcePage(ReplyModel):
    model_config = example(items=[example_of(SourceView)], next_cursor=None)

    items: list[SourceView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


class WithheldView(ReplyModel):
    """Deletions of a source that need approval."""

    model_config = example(job_id=_JOB_ID, deletions=120, items=1250, keys=["2019/a.md", "2019/b.md"])

    job_id: UUID | None = Field(description="Job that waits for approval; null if none does")
    deletions: int = Field(description="Number of withheld deletions")
    items: int = Field(description="Number of documents of the source, including these")
    keys: list[str] = Field(description=f"The first {MOST_SHOWN} keys, in order")


class HintReply(ReplyModel):
    """The result of a hint."""

    model_config = example(accepted=2, ignored=0)

    accepted: int = Field(description="Number of keys that are looked up")
    ignored: int = Field(description="Number of names outside the source, such as in another bucket")
