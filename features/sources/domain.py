"""Sources as they are stored and shown: their definitions, and the syncs of their documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.errors import InvalidInput
from shared.domain.jobs import JobState

PUSH = "push"  # the kind of source whose entries programs push
MOST_SHOWN = 100  # keys of withheld deletions, and refused entries
MAX_DELETE_SHARE = 0.1
_WITHOUT_LISTING = frozenset({"copy_files", "readers", "readers_column", "permissions"})
_ALWAYS_ALLOWED = 10  # deletions of a sync: a tenth of a small corpus is often one document
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    """A source of a collection.

    Its documents have the external ids `NAME/KEY`. A corpus in two collections is two sources.

    Args:
        name: its name within the tenant.
        kind: such as `folder`, `s3` or `git`; see `opening.py`.
        uri: its address.
        options: options of its kind.
        secret_name: name of the setting that contains its secret; None if it needs none.
        schedule: times of its syncs as a cron expression; None: only on request.
        time_zone: time zone of the schedule, such as `Europe/Berlin`.
        max_delete_share: part of its items, from 0 to 1, that one sync deletes without approval; ten always are.
    """

    id: UUID
    tenant: str
    collection: str
    name: str
    kind: str
    uri: str
    created_at: datetime
    options: Mapping[str, Any] = field(default_factory=dict)
    secret_name: str | None = None
    schedule: str | None = None
    time_zone: str = "UTC"
    max_delete_share: float = MAX_DELETE_SHARE

    @property
    def listing_options(self) -> Mapping[str, Any]:
        """The options on which its listing and the contents of its entries depend."""
        return {name: value for name, value in self.options.items() if name not in _WITHOUT_LISTING}

    def external_id(self, key: str) -> str:
        """Return the external id of an entry's document. Names have no slash, so that two sources never share one."""
        return f"{self.name}/{key}"

    def allowed_deletions(self, items: int) -> int:
        """Return how many documents one sync deletes without approval.

        Args:
            items: number of the source's items.
        """
        return max(_ALWAYS_ALLOWED, int(items * self.max_delete_share))


@dataclass(frozen=True, slots=True)
class NewSource:
    """A source to add; see `SourceDefinition`.

    Raises:
        InvalidInput: the name, the address or the share is invalid.
    """

    name: str
    kind: str
    uri: str
    options: Mapping[str, Any] = field(default_factory=dict)
    secret_name: str | None = None
    schedule: str | None = None
    time_zone: str = "UTC"
    max_delete_share: float = MAX_DELETE_SHARE

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(
                "The name of a source has 1 to 63 lower-case letters, digits, - and _, and starts with a letter or"
                " digit.",
                field="name",
            )
        require_uri(self.uri)
        require_share(self.max_delete_share)
        require_schedule(self.kind, self.schedule)


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """Changes of a source; None keeps the old value.

    Args:
        schedule: an empty text removes the schedule.
        secret_name: an empty text removes the name.
    """

    uri: str | None = None
    options: Mapping[str, Any] | None = None
    secret_name: str | None = None
    schedule: str | None = None
    time_zone: str | None = None
    max_delete_share: float | None = None

    def __post_init__(self) -> None:
        if self.uri is not None:
            require_uri(self.uri)
        if self.max_delete_share is not None:
            require_share(self.max_delete_share)

    @property
    def lists_others(self) -> bool:
        """Whether the next listing may lack entries that exist in the corpus, such as after a new filter."""
        return self.uri is not None or self.options is not None


@dataclass(frozen=True, slots=True)
class SyncCounts:
    """The entries and documents of a sync so far.

    Args:
        seen: entries in the listing.
        created: entries whose documents are new.
        changed: entries whose documents got other content.
        unchanged: entries whose documents already have their content.
        readers_changed: entries whose documents got other readers and no other content.
        missing: items that the listing lacks.
        deleted: deleted documents.
        withheld: items whose deletion needs approval.
        refused: entries that cannot be read or named. Their documents are neither changed nor deleted.
    """

    seen: int = 0
    created: int = 0
    changed: int = 0
    unchanged: int = 0
    readers_changed: int = 0
    missing: int = 0
    deleted: int = 0
    withheld: int = 0
    refused: int = 0

    def plus(self, more: Mapping[str, int]) -> SyncCounts:
        """Return the sums of these counts and others, by name."""
        sums = {name: getattr(self, name) + more.get(name, 0) for name in self.__dataclass_fields__}
        return SyncCounts(**sums)


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry that a sync could not read, and the reason as a sentence; unprintable bytes of its key are escaped."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class SyncState:
    """A sync as its owner sees it.

    Args:
        id: id of its job, which ends later, when its documents are processed.
        source: name of its source.
        state: state of its listing: `queued` until a worker claims it, and while its job is paused.
        refused: the first refused entries.
        waiting: why it reads no more entries now, as a sentence; it continues by itself.
        approved: approved number of deletions; None for a sync without approval.
        error: reason of its failure.
        listed_at: when the listing was complete; None before.
        ended_at: when the listing and the deletions ended.
        checkpoint: position that the program of a pushed listing has saved; None without one.
        expires_at: when a pushed listing fails unless its program sends something; None if it does not wait for one.
    """

    id: UUID
    source: str
    collection: str
    state: JobState
    counts: SyncCounts
    refused: Sequence[RefusedEntry]
    waiting: str | None
    approved: int | None
    error: str | None
    created_at: datetime
    listed_at: datetime | None
    ended_at: datetime | None
    checkpoint: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CheckedSource:
    """The first entries of a source.

    Args:
        seen: entries that were listed, of which `refused` cannot be read.
        complete: whether there are no further entries.
        keys: keys of the first entries that can be read.
        refusal: why the first of the others cannot be read, as a sentence.
    """

    seen: int = 0
    refused: int = 0
    complete: bool = False
    keys: tuple[str, ...] = ()
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """A check of a source that is not added yet.

    Args:
        found: its result; empty until the check is done.
        error: why the source cannot be listed.
    """

    id: UUID
    state: JobState
    found: CheckedSource
    error: str | None
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class LookupState:
    """The lookup of a source's hints.

    Args:
        state: `queued` until a worker claims it; after a failure, the hints are looked up again some minutes later.
        waiting: why it reads no more entries now, as a sentence; it continues by itself.
        error: reason of its last failure, until the hints have been looked up.
        ended_at: when it ended; None while it is open.
    """

    state: JobState
    waiting: str | None
    error: str | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source with its newest sync.

    Args:
        next_at: time of the next scheduled sync; None without a schedule.
        newest: newest sync; None before the first one.
        lookup: newest lookup of hints; None before the first hint.
        removing: whether the source is being removed.
        schedule_error: why its last scheduled sync was not started, or why its next time is not known.
    """

    definition: SourceDefinition
    next_at: datetime | None
    newest: SyncState | None
    lookup: LookupState | None
    removing: bool = False
    schedule_error: str | None = None


@dataclass(frozen=True, slots=True)
class Withheld:
    """Deletions that need approval.

    Args:
        job_id: job that waits for approval; None if none does.
        deletions: number of withheld deletions; 0 without a waiting job.
        items: number of the source's items, including these.
        keys: the first 100 keys, in order.
    """

    job_id: UUID | None
    deletions: int
    items: int
    keys: Sequence[str]


@dataclass(frozen=True, slots=True)
class WaitingSync:
    """A sync whose deletions need approval; `job_id` waits for it."""

    source: str
    collection: str
    job_id: UUID
    deletions: int


def require_uri(uri: str) -> None:
    """Raise InvalidInput unless an address can be stored."""
    if not uri.strip() or "\0" in uri or len(uri) > 2_000:  # noqa: PLR2004 - the sentence has the number
        raise InvalidInput("The address of a source has 1 to 2,000 characters.", field="uri")


def require_schedule(kind: str, schedule: str | None) -> None:
    """Raise InvalidInput if a source of a kind cannot have a schedule."""
    if kind == PUSH and schedule:
        raise InvalidInput("A source whose entries programs push has no schedule.", field="schedule")


def require_share(share: float) -> None:
    """Raise InvalidInput unless a share is between 0 and 1."""
    if not 0 <= share <= 1:
        raise InvalidInput("The share of deletions without approval is between 0 and 1.", field="max_delete_share")
