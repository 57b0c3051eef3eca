"""The states of builds, documents, pages, chunks, accepted questions, jobs, listings and batches.

This table has all their transitions. Only this module provides the SQL fragments that set a state. The tests install a
trigger that is generated from the table and refuses every other transition.

collections
    MAKE_COLLECTION      new -> live
    START_BUILD          new -> filling
    PAUSE_FILL           filling -> paused
    RESUME_FILL          paused -> filling
    FINISH_FILL          filling -> following
    SWITCH_FROM          live -> following
    SWITCH_TO            following -> live
    DROP_BUILD           filling, paused, following -> dropping
    ERASE_BUILD          live, filling, paused, following -> dropping

documents
    SUBMIT               new -> queued
    CLAIM_DOCUMENT       queued, parsing -> parsing
    RELEASE_DOCUMENT     parsing -> queued
    FAIL_PARSING         parsing -> failed | queued
    SETTLE_PARSED        parsing -> indexing
    PARSE_PAGES          parsing -> reading
    PAGES_READ           reading -> queued
    SHOW                 indexing -> searchable
    FINISH               searchable -> degraded | ready
    INDEX_AGAIN          searchable, ready, degraded -> searchable
    REVIVE_DOCUMENT      failed -> queued
    REOPEN               degraded -> searchable
    DISCARD_DOCUMENT     queued, reading, failed -> deleting | searchable | degraded | ready
    DISCARD_LAST         degraded -> ready
    REPLACE              any but deleting -> queued
    REINDEX              ready, degraded, failed -> queued
    DELETE               any but deleting -> deleting

pages
    INSERT_PAGE          new -> read | waiting
    SETTLE_READ          waiting -> read
    FAIL_READING         waiting -> dead | waiting
    DISCARD_PAGE         dead -> discarded

chunks
    INSERT_CHUNK         new -> parsed
    SETTLE_GENERATED     generating -> generated
    FAIL_GENERATING      generating -> generated | generating
    SETTLE_TEXT          parsed -> generating
    SETTLE_INDEXED       parsed, generated -> indexed | dead
    END_INDEXING         parsed, generated -> dead
    INDEX_CHUNK_AGAIN    indexed, dead -> generated
    REVIVE_CHUNK         dead -> parsed
    DISCARD_CHUNK        dead -> discarded

accepted_questions
    ACCEPT               new, removing, refused -> waiting
    SETTLE_ACCEPTED      waiting -> refused | indexed
    MARK_WAITING         indexed -> waiting
    RETRACT              waiting, indexed, refused -> removing
    DELETE_LATE          new -> removing

jobs
    OPEN_JOB             new -> running
    PAUSE_JOB            running -> paused
    RESUME_JOB           paused -> running
    CANCEL_JOB           running, paused -> cancelling
    FINISH_JOB           running, paused, cancelling -> cancelled | failed | done_with_errors | done
    LOOK_UP_AGAIN        done, failed, cancelled -> running

syncs
    START_LISTING        new -> running
    LIST_AGAIN           done -> running
    END_LISTING          running -> cancelled | failed | done

batches
    PLAN_BATCH           new -> planning
    PROBE                new -> planned
    DIVIDE_BATCH         new -> planned
    SEAL_BATCH           planning -> planned
    UPLOAD_BATCH         planned -> creating
    UPLOAD_AGAIN         creating -> planned
    START_BATCH          creating -> running
    END_BATCH            planning, planned, creating, running -> collecting
    FINISH_BATCH         collecting -> failed | done
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Literal

from shared.domain.jobs import JobKind, JobState, PauseReason
from shared.domain.states import AcceptedState, BatchState, BuildState, ChunkState, DocumentState, PageState
from shared.ledger.model import columns, lanes

Table = Literal["collections", "documents", "pages", "chunks", "accepted_questions", "jobs", "syncs", "batches"]


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table of transitions.

    Args:
        table: the table whose rows change.
        sources: states before the transition; None for a row that does not exist yet.
        targets: states after the transition, in the order of the conditions of `sets`.
    """

    table: Table
    sources: tuple[StrEnum | None, ...]
    targets: tuple[StrEnum, ...]

    @property
    def column(self) -> str:
        """The column that contains the state: for a collection's row, the state of a build."""
        return "build_state" if self.table == "collections" else "state"

    def applies(self, alias: str = "") -> str:
        """Return the SQL condition that a row has one of the source states."""
        return is_in([source for source in self.sources if source], alias, self.column)

    def target(self, *conditions: str) -> str:
        """Return the SQL expression of the new state.

        Args:
            conditions: one per target except the last, which applies if no condition holds.
        """
        *chosen, otherwise = self.targets
        if not conditions and not chosen:
            return f"'{otherwise}'"
        cases = (f"WHEN {when} THEN '{state}'" for when, state in zip(conditions, chosen, strict=True))
        return f"CASE {' '.join(cases)} ELSE '{otherwise}' END"

    def sets(self, *conditions: str) -> str:
        """Return the SQL assignment of the new state; see `target`."""
        return f"{self.column} = {self.target(*conditions)}"

    def sets_where(self, condition: str, alias: str, *conditions: str) -> str:
        """Return the SQL assignment of the new state if a condition holds; otherwise the row keeps its state."""
        return f"{self.column} = CASE WHEN {condition} THEN {self.target(*conditions)} ELSE {alias}.{self.column} END"


def is_in(states: Collection[StrEnum], alias: str = "", column: str = "state") -> str:
    """Return the SQL condition that a row has one of these states."""
    column = f"{alias}.{column}" if alias else column
    first, *others = (f"'{state}'" for state in states)
    return f"{column} IN ({', '.join([first, *others])})" if others else f"{column} = {first}"


def exists(alias: str = "") -> str:
    """Return the SQL condition that a document is visible to its owner, as written in its unique index."""
    return f"{alias}.state <> 'deleting'" if alias else "state <> 'deleting'"


def has_failed(alias: str = "") -> str:
    """Return the SQL condition that a document's newest version could not be read."""
    return is_in((DocumentState.FAILED,), alias)


def is_live(alias: str = "") -> str:
    """Return the SQL condition that a build is live, as written in its unique index."""
    return build_is_in((BuildState.LIVE,), alias)


def build_is_in(states: Collection[BuildState], alias: str = "") -> str:
    """Return the SQL condition that a build has one of these states."""
    return is_in(states, alias, "build_state")


def is_dropping(alias: str = "") -> str:
    """Return the SQL condition that a build is being deleted."""
    return build_is_in((BuildState.DROPPING,), alias)


# Builds that contain, or will contain, the documents of the live one.
FOLLOWERS = (BuildState.FILLING, BuildState.PAUSED, BuildState.FOLLOWING)

# The open work of each stage.
TO_PARSE = (DocumentState.QUEUED, DocumentState.PARSING)
TO_READ = (PageState.WAITING,)
TO_INDEX_TEXT = (ChunkState.PARSED,)
TO_GENERATE = (ChunkState.GENERATING,)
TO_INDEX_QUESTIONS = (ChunkState.GENERATED,)
TO_INDEX = (*TO_INDEX_TEXT, *TO_INDEX_QUESTIONS)
OPEN_CHUNKS = (*TO_INDEX_TEXT, *TO_GENERATE, *TO_INDEX_QUESTIONS)

# Documents with chunks in progress, with chunks or pages in progress, in any progress, and that no worker holds.
OPEN_DOCUMENTS = (DocumentState.INDEXING, DocumentState.SEARCHABLE)
PROGRESSING_DOCUMENTS = (DocumentState.READING, *OPEN_DOCUMENTS)
UNFINISHED_DOCUMENTS = (*TO_PARSE, *PROGRESSING_DOCUMENTS)
UNPARSED_DOCUMENTS = (*TO_PARSE, DocumentState.READING)
PARSED_DOCUMENTS = (*OPEN_DOCUMENTS, DocumentState.READY, DocumentState.DEGRADED)
FINAL_DOCUMENTS = (DocumentState.READY, DocumentState.DEGRADED, DocumentState.FAILED)
EXISTING_DOCUMENTS = tuple(state for state in DocumentState if state is not DocumentState.DELETING)

# Batches that are not settled completely.
OPEN_BATCHES = (
    BatchState.PLANNING,
    BatchState.PLANNED,
    BatchState.CREATING,
    BatchState.RUNNING,
    BatchState.COLLECTING,
)

# The queue of each stage, and of documents that may have ended: its states. Every lane is at least 0, but only
# statements that say so can use the index of a queue. All others look rows up by their ids, contents or documents. For
# each of these lookups, PostgreSQL would read a whole queue that was short when it made the plan. For the same reason,
# only statements that look for a content (`IN_GENERATION`) say that versions are positive.
QUEUES: Mapping[str, tuple[StrEnum, ...]] = {
    "PARSE_QUEUE": TO_PARSE,
    "READ_QUEUE": TO_READ,
    "TEXT_QUEUE": TO_INDEX_TEXT,
    "GENERATE_QUEUE": TO_GENERATE,
    "QUESTION_QUEUE": TO_INDEX_QUESTIONS,
    "ENDING_QUEUE": OPEN_DOCUMENTS,
}

# A row without attempts. The token is deleted, too, so that settlements of the last claim are rejected.
UNCLAIMED = "attempts = 0, lost_leases = 0, lease_token = NULL, leased_by = NULL"


def is_queued(states: Collection[StrEnum], alias: str = "") -> str:
    """Return the SQL condition that a row is in the queue of these states."""
    return f"{is_in(states, alias)} AND {alias}.lane >= 0" if alias else f"{is_in(states)} AND lane >= 0"


def is_in_generation(alias: str = "") -> str:
    """Return the SQL condition that a chunk waits for its questions or is being generated, for lookups of a content."""
    return f"{is_in(TO_GENERATE, alias)} AND {alias}.version > 0" if alias else f"{is_in(TO_GENERATE)} AND version > 0"


def _build(sources: tuple[BuildState | None, ...], target: BuildState) -> Transition:
    return Transition("collections", sources, (target,))


def _document(sources: tuple[DocumentState | None, ...], *targets: DocumentState) -> Transition:
    return Transition("documents", sources, targets)


def _page(sources: tuple[PageState | None, ...], *targets: PageState) -> Transition:
    return Transition("pages", sources, targets)


def _chunk(sources: tuple[ChunkState | None, ...], *targets: ChunkState) -> Transition:
    return Transition("chunks", sources, targets)


def _accepted(sources: tuple[AcceptedState | None, ...], *targets: AcceptedState) -> Transition:
    return Transition("accepted_questions", sources, targets)


def _job(sources: tuple[JobState | None, ...], *targets: JobState) -> Transition:
    return Transition("jobs", sources, targets)


def _listing(sources: tuple[JobState | None, ...], *targets: JobState) -> Transition:
    return Transition("syncs", sources, targets)


def _batch(sources: tuple[BatchState | None, ...], *targets: BatchState) -> Transition:
    return Transition("batches", sources, targets)


MAKE_COLLECTION = _build((None,), BuildState.LIVE)
START_BUILD = _build((None,), BuildState.FILLING)
PAUSE_FILL = _build((BuildState.FILLING,), BuildState.PAUSED)
RESUME_FILL = _build((BuildState.PAUSED,), BuildState.FILLING)
FINISH_FILL = _build((BuildState.FILLING,), BuildState.FOLLOWING)
SWITCH_FROM = _build((BuildState.LIVE,), BuildState.FOLLOWING)
SWITCH_TO = _build((BuildState.FOLLOWING,), BuildState.LIVE)
DROP_BUILD = _build(FOLLOWERS, BuildState.DROPPING)
ERASE_BUILD = _build((BuildState.LIVE, *FOLLOWERS), BuildState.DROPPING)

SUBMIT = _document((None,), DocumentState.QUEUED)
CLAIM_DOCUMENT = _document(TO_PARSE, DocumentState.PARSING)
RELEASE_DOCUMENT = _document((DocumentState.PARSING,), DocumentState.QUEUED)
FAIL_PARSING = _document((DocumentState.PARSING,), DocumentState.FAILED, DocumentState.QUEUED)
SETTLE_PARSED = _document((DocumentState.PARSING,), DocumentState.INDEXING)
PARSE_PAGES = _document((DocumentState.PARSING,), DocumentState.READING)
PAGES_READ = _document((DocumentState.READING,), DocumentState.QUEUED)
SHOW = _document((DocumentState.INDEXING,), DocumentState.SEARCHABLE)
FINISH = _document((DocumentState.SEARCHABLE,), DocumentState.DEGRADED, DocumentState.READY)
INDEX_AGAIN = _document(
    (DocumentState.SEARCHABLE, DocumentState.READY, DocumentState.DEGRADED), DocumentState.SEARCHABLE
)
REVIVE_DOCUMENT = _document((DocumentState.FAILED,), DocumentState.QUEUED)
REOPEN = _document((DocumentState.DEGRADED,), DocumentState.SEARCHABLE)
DISCARD_DOCUMENT = _document(
    (DocumentState.QUEUED, DocumentState.READING, DocumentState.FAILED),
    DocumentState.DELETING,
    DocumentState.SEARCHABLE,
    DocumentState.DEGRADED,
    DocumentState.READY,
)
DISCARD_LAST = _document((DocumentState.DEGRADED,), DocumentState.READY)
REPLACE = _document(EXISTING_DOCUMENTS, DocumentState.QUEUED)
REINDEX = _document(FINAL_DOCUMENTS, DocumentState.QUEUED)
DELETE = _document(EXISTING_DOCUMENTS, DocumentState.DELETING)

INSERT_PAGE = _page((None,), PageState.READ, PageState.WAITING)
SETTLE_READ = _page((PageState.WAITING,), PageState.READ)
FAIL_READING = _page((PageState.WAITING,), PageState.DEAD, PageState.WAITING)
DISCARD_PAGE = _page((PageState.DEAD,), PageState.DISCARDED)

INSERT_CHUNK = _chunk((None,), ChunkState.PARSED)
SETTLE_GENERATED = _chunk((ChunkState.GENERATING,), ChunkState.GENERATED)
FAIL_GENERATING = _chunk((ChunkState.GENERATING,), ChunkState.GENERATED, ChunkState.GENERATING)
SETTLE_TEXT = _chunk(TO_INDEX_TEXT, ChunkState.GENERATING)
SETTLE_INDEXED = _chunk(TO_INDEX, ChunkState.INDEXED, ChunkState.DEAD)
END_INDEXING = _chunk(TO_INDEX, ChunkState.DEAD)
INDEX_CHUNK_AGAIN = _chunk((ChunkState.INDEXED, ChunkState.DEAD), ChunkState.GENERATED)
REVIVE_CHUNK = _chunk((ChunkState.DEAD,), ChunkState.PARSED)
DISCARD_CHUNK = _chunk((ChunkState.DEAD,), ChunkState.DISCARDED)

ACCEPT = _accepted((None, AcceptedState.REMOVING, AcceptedState.REFUSED), AcceptedState.WAITING)
SETTLE_ACCEPTED = _accepted((AcceptedState.WAITING,), AcceptedState.REFUSED, AcceptedState.INDEXED)
MARK_WAITING = _accepted((AcceptedState.INDEXED,), AcceptedState.WAITING)
RETRACT = _accepted((AcceptedState.WAITING, AcceptedState.INDEXED, AcceptedState.REFUSED), AcceptedState.REMOVING)
DELETE_LATE = _accepted((None,), AcceptedState.REMOVING)

OPEN_JOB = _job((None,), JobState.RUNNING)
PAUSE_JOB = _job((JobState.RUNNING,), JobState.PAUSED)
RESUME_JOB = _job((JobState.PAUSED,), JobState.RUNNING)
CANCEL_JOB = _job((JobState.RUNNING, JobState.PAUSED), JobState.CANCELLING)
FINISH_JOB = _job(
    (JobState.RUNNING, JobState.PAUSED, JobState.CANCELLING),
    JobState.CANCELLED,
    JobState.FAILED,
    JobState.DONE_WITH_ERRORS,
    JobState.DONE,
)
LOOK_UP_AGAIN = _job((JobState.DONE, JobState.FAILED, JobState.CANCELLED), JobState.RUNNING)

START_LISTING = _listing((None,), JobState.RUNNING)
LIST_AGAIN = _listing((JobState.DONE,), JobState.RUNNING)
END_LISTING = _listing((JobState.RUNNING,), JobState.CANCELLED, JobState.FAILED, JobState.DONE)

PLAN_BATCH = _batch((None,), BatchState.PLANNING)
PROBE = _batch((None,), BatchState.PLANNED)
DIVIDE_BATCH = _batch((None,), BatchState.PLANNED)
SEAL_BATCH = _batch((BatchState.PLANNING,), BatchState.PLANNED)
UPLOAD_BATCH = _batch((BatchState.PLANNED,), BatchState.CREATING)
UPLOAD_AGAIN = _batch((BatchState.CREATING,), BatchState.PLANNED)
START_BATCH = _batch((BatchState.CREATING,), BatchState.RUNNING)
END_BATCH = _batch(
    (BatchState.PLANNING, BatchState.PLANNED, BatchState.CREATING, BatchState.RUNNING), BatchState.COLLECTING
)
FINISH_BATCH = _batch((BatchState.COLLECTING,), BatchState.FAILED, BatchState.DONE)

# Placeholders of the SQL files (`shared.ledger.postgres.statements`): conditions, which take the alias of a table, the
# states, and the expressions of each transition.
FRAGMENTS: Mapping[str, str | Callable[..., str]] = {
    "exists": exists,
    "has_failed": has_failed,
    "is_live": is_live,
    "is_follower": partial(build_is_in, FOLLOWERS),
    "is_dropping": is_dropping,
    "TO_PARSE": partial(is_in, TO_PARSE),
    "TO_READ": partial(is_in, TO_READ),
    "TO_GENERATE": partial(is_in, TO_GENERATE),
    "TO_INDEX": partial(is_in, TO_INDEX),
    "TO_INDEX_TEXT": partial(is_in, TO_INDEX_TEXT),
    "TO_INDEX_QUESTIONS": partial(is_in, TO_INDEX_QUESTIONS),
    "OPEN_CHUNKS": partial(is_in, OPEN_CHUNKS),
    "OPEN_DOCUMENTS": partial(is_in, OPEN_DOCUMENTS),
    "UNFINISHED_DOCUMENTS": partial(is_in, UNFINISHED_DOCUMENTS),
    "FINAL_DOCUMENTS": partial(is_in, FINAL_DOCUMENTS),
    "OPEN_BATCHES": partial(is_in, OPEN_BATCHES),
    **{name: partial(is_queued, states) for name, states in QUEUES.items()},
    "IN_GENERATION": is_in_generation,
    "UNCLAIMED": UNCLAIMED,
    **{
        f"{kind.__name__}.{state.name}": f"'{state}'"
        for kind in (
            BuildState,
            DocumentState,
            PageState,
            ChunkState,
            AcceptedState,
            JobKind,
            JobState,
            PauseReason,
            BatchState,
        )
        for state in kind
    },
    **{
        f"{name}.{expression}": getattr(transition, expression)
        for name, transition in tuple(globals().items())
        if isinstance(transition, Transition)
        for expression in ("applies", "sets", "target")
    },
    **columns.FRAGMENTS,
    **lanes.FRAGMENTS,
}
