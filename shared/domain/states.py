"""States of builds, documents, pages, chunks, accepted questions and batches; the ledger defines the transitions."""

from __future__ import annotations

from enum import StrEnum


class DocumentState(StrEnum):
    QUEUED = "queued"
    PARSING = "parsing"
    READING = "reading"  # its pages without texts are being read; afterwards it is parsed again
    INDEXING = "indexing"  # its texts are being written; queries see the version before, or the texts written so far
    SEARCHABLE = "searchable"  # every text is found; questions are being generated
    READY = "ready"
    DEGRADED = "degraded"  # searchable, but some chunks or pages are dead, or its file was not read completely
    FAILED = "failed"
    DELETING = "deleting"  # invisible to callers; its points are being deleted


class PageState(StrEnum):
    WAITING = "waiting"
    READ = "read"
    DEAD = "dead"  # its document continues without its text; `error` has the reason
    DISCARDED = "discarded"  # dead, and discarded by its owner


class ChunkState(StrEnum):
    PARSED = "parsed"  # its text waits to be indexed, with its questions if they exist already
    GENERATING = "generating"  # found by its text; its questions are to be generated
    GENERATED = "generated"  # its questions are paid and wait to be indexed
    INDEXED = "indexed"
    DEAD = "dead"  # indexed by its text only, or not at all; `error` has the reason
    DISCARDED = "discarded"  # dead, and discarded by its owner


class AcceptedState(StrEnum):
    WAITING = "waiting"  # its point is to be written with its chunk
    INDEXED = "indexed"
    REFUSED = "refused"  # the embedding model rejects it
    REMOVING = "removing"  # retracted; its point is being deleted


class BatchState(StrEnum):
    PLANNING = "planning"  # chunks are being added
    PLANNED = "planned"  # its file is to be uploaded
    CREATING = "creating"  # the provider has the file; whether it has the batch is unknown
    RUNNING = "running"  # the provider has the batch
    COLLECTING = "collecting"  # the provider has ended it, or never had it; its lines are being settled
    DONE = "done"
    FAILED = "failed"  # no result was collected; `error` has the reason


class BuildState(StrEnum):
    LIVE = "live"  # queries see it
    FILLING = "filling"  # the live build's documents are being copied to it; it follows concurrent changes
    PAUSED = "paused"  # as filling, but nothing is copied
    FOLLOWING = "following"  # it has every document of the live one, and follows changes
    DROPPING = "dropping"  # its documents are being deleted; then its row is deleted
