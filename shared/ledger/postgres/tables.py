"""The ledger's tables. A row is either done, leased, or due: `due_at` says when it may next be claimed.

A claim moves `due_at` to the end of its lease and draws a fencing token; a settlement names that token and is refused
when another claim has drawn a newer one. So a row whose worker died becomes due by itself, and "neither done nor
leased" is one comparison with one index.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Sequence,
    SmallInteger,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL, TSVECTOR

from shared.domain.builds import BuildState
from shared.domain.records import AcceptedState, ChunkState, DocumentState
from shared.ledger.model import states

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

fencing = Sequence("fencing", metadata=metadata)


def _now() -> Column[object]:
    return Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now())


def _lane() -> Column[object]:
    return Column("lane", SmallInteger, nullable=False, server_default="0")  # 0 interactive, 1 bulk


def _lease_columns() -> list[Column[object]]:
    """The columns of the rows that workers claim."""
    return [
        Column("due_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
        Column("attempts", Integer, nullable=False, server_default="0"),
        Column("lost_leases", Integer, nullable=False, server_default="0"),  # leases that ended without a settlement
        Column("lease_token", BigInteger),
        Column("leased_by", Text),
        Column("error", Text),
        Column("history", JSONB, nullable=False, server_default=text("'[]'::jsonb")),  # failed attempts, oldest first
    ]


# One row: whose ledger this is. The store of uploads has the same id.
deployment = Table(
    "deployment",
    metadata,
    Column("id", Uuid, primary_key=True, server_default=text("gen_random_uuid()")),
    Column("scheduler", Text),  # the process that was elected
    Column("scheduler_until", DateTime(timezone=True)),  # the end of its lease
)

# The workers and schedulers that run, by what they said of themselves last.
workers = Table(
    "workers",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("role", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("in_work", Integer, nullable=False),
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
)

# The builds of collections: each has options, an embedding model and documents of its own. Queries see the live one.
collections = Table(
    "collections",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("build", Integer, nullable=False, server_default="1"),  # its number within the name
    Column("build_state", Text, nullable=False, server_default=BuildState.LIVE),
    Column("followed", Boolean, nullable=False, server_default=text("false")),  # a live one, by others
    Column("filled_until", Text),  # the external id to which its fill has come; null where it is whole
    Column("live_until", DateTime(timezone=True)),  # when another build took its place; null: none has
    Column("gate", JSONB),  # the last report of its gate; null: none was tried
    Column("emptied_at", DateTime(timezone=True)),  # when the last document went of a build that is being dropped
    Column("options", JSONB, nullable=False),
    Column("embedding_model", Text, nullable=False),  # the name of its embedding
    Column("index_name", Text, nullable=False),  # the collection in Qdrant, which others share
    Column("calibration", JSONB),  # its channels' weights and their measurements; null while equal
    Column("calibration_due_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("calibrating_until", DateTime(timezone=True)),  # the end of a worker's claim; null while there is none
    Column("reindexed_until", Text),  # the external id to which a reindex has come; null while there is none
    Column("languages", ARRAY(Text), nullable=False, server_default="{}"),  # of its texts, as far as they are known
    _now(),
    Index("uq_collections_build", "tenant", "name", "build", unique=True),
    Index("uq_collections_live", "tenant", "name", unique=True, postgresql_where=text(states.is_live())),
)

# The documents of builds. A document has a row in each build of its collection, and all have its one public id.
documents = Table(
    "documents",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("public_id", Uuid, nullable=False),  # the document's id for its owner: that of its first row
    Column("tenant", Text, nullable=False),
    Column("collection_id", Uuid, ForeignKey("collections.id", ondelete="CASCADE"), nullable=False),
    Column("external_id", Text, nullable=False),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("live_version", Integer),  # the version that queries see; null: none yet
    Column("discarded_version", Integer),  # the newest that was discarded: no version gets its number again
    _lane(),
    Column("state", Text, nullable=False),
    *_lease_columns(),
    _now(),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("description_changes", Integer, nullable=False, server_default="0"),  # of its title or metadata
    # When its points may be told the last one; while a process tells them, the end of its claim; null: they have it.
    Column("description_due_at", DateTime(timezone=True)),
    Index(
        "ix_documents_description_due",
        "description_due_at",
        postgresql_where=text("description_due_at IS NOT NULL"),
    ),
    Index(
        "uq_documents_external_id",
        "collection_id",
        "external_id",
        unique=True,
        postgresql_where=text(states.exists()),
    ),
    Index(
        "uq_documents_public_id",
        "public_id",
        "collection_id",
        unique=True,
        postgresql_where=text(states.exists()),
    ),
    Index(
        "ix_documents_due",
        "tenant",
        "lane",
        "due_at",
        postgresql_where=text(states.is_in(states.TO_PARSE)),
    ),
    # Of open documents `due_at` says when the scheduler looks whether a dead worker left them unfinished.
    Index("ix_documents_open", "due_at", postgresql_where=text(states.is_in(states.OPEN_DOCUMENTS))),
    Index("ix_documents_deleting", "due_at", postgresql_where=text(f"state = '{DocumentState.DELETING}'")),
    Index(
        "ix_documents_suspects",
        "state",
        "due_at",
        postgresql_where=text(f"lost_leases > 0 AND {states.is_in(states.TO_PARSE)}"),
    ),
    Index("ix_documents_leased", "tenant", postgresql_where=text("leased_by IS NOT NULL")),
    Index("ix_documents_list", "collection_id", "state", "created_at", "public_id"),
    Index("ix_documents_changed", "tenant", "updated_at"),
    Index(
        "ix_documents_failed",
        "tenant",
        "updated_at",
        "public_id",
        postgresql_where=text(f"state = '{DocumentState.FAILED}'"),
    ),
)

# What an owner handed in, for each version that is live, newest or still to be removed. A version goes in slices: from
# the moment when it is obsolete nobody works on it, then go its chunks, then its row and its bytes.
document_versions = Table(
    "document_versions",
    metadata,
    Column("document_id", Uuid, ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("obsolete", Boolean, nullable=False, server_default=text("false")),  # neither live nor newest
    Column("filename", Text),
    Column("title", Text),
    Column("media_type", Text),
    Column("metadata", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("ready_questions", JSONB(none_as_null=True)),  # ready-made questions: no call is made for this document
    Column("upload", Text, nullable=False),  # the object that has the bytes, or PACK#OFFSET,LENGTH
    Column("size_bytes", BigInteger, nullable=False),
    Column("content_hash", LargeBinary, nullable=False),
    Column("traceparent", Text),  # the span of the request that handed it in; NULL where traces were off
    # Of the external id, the title and the filename, and "/" with the tenant. A trigger writes it; it is in migration
    # 0001 alone.
    Column("words", TSVECTOR),
    Index("ix_document_versions_words", "words", postgresql_using="gin"),
    Index("ix_document_versions_stored_in", text("split_part(upload, '#', 1)")),
    Index("ix_document_versions_obsolete", "document_id", postgresql_where=text("obsolete")),
)

# The work on chunks. A row is written again at each claim and settlement, so it has nothing that is long. The columns
# that change stand together: of a row that stays in its page PostgreSQL logs the bytes between the first change and the
# last. Half of each page is kept free for that. By `python -m bench wal` the life of a chunk writes 7.4 KB of log
# and leaves 0.8 KB here, with full pages 8.7 and 1.3, and 18.9 and 14.4 with the text in this row too. Vacuum does not
# wait for a fifth of the rows: of ten million that would be two million dead ones.
chunks = Table(
    "chunks",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("document_id", Uuid, ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("content_key", LargeBinary, nullable=False),
    Column("embedding_model", Text, nullable=False),  # its collection's: a worker takes what it serves
    Column("ready_made", Boolean, nullable=False, server_default="false"),  # its questions came with its document
    _lane(),
    Column("state", Text, nullable=False),
    # Points of questions: since its first claim to be indexed with them.
    Column("may_have_points", Boolean, nullable=False, server_default="false"),
    Column("points_token", BigInteger),  # of the claim that wrote the points which Qdrant has confirmed
    Column("questions_passed", Integer, nullable=False, server_default="0"),
    Column("prompt_tokens", Integer, nullable=False, server_default="0"),
    Column("completion_tokens", Integer, nullable=False, server_default="0"),
    Column("calls", Integer, nullable=False, server_default="0"),
    *_lease_columns(),
    Column("settled_at", DateTime(timezone=True)),  # when it ended, indexed or dead
    Index("ix_chunks_document", "document_id", "version", "ordinal"),
    Index("ix_chunks_to_generate", "tenant", "lane", "due_at", postgresql_where=text(states.is_in(states.TO_GENERATE))),
    Index(
        "ix_chunks_to_index_text",
        "tenant",
        "lane",
        "embedding_model",
        "due_at",
        postgresql_where=text(states.is_in(states.TO_INDEX_TEXT)),
    ),
    Index(
        "ix_chunks_to_index_questions",
        "tenant",
        "lane",
        "embedding_model",
        "due_at",
        postgresql_where=text(states.is_in(states.TO_INDEX_QUESTIONS)),
    ),
    Index(
        "ix_chunks_in_indexing",
        "tenant",
        postgresql_where=text(f"{states.is_in(states.TO_INDEX)} AND leased_by IS NOT NULL"),
    ),
    Index(
        "ix_chunks_suspects",
        "state",
        "due_at",
        postgresql_where=text(f"lost_leases > 0 AND {states.is_in(states.OPEN_CHUNKS)}"),
    ),
    Index(
        "ix_chunks_dead", "tenant", "settled_at", "id", "version", postgresql_where=text(f"state = '{ChunkState.DEAD}'")
    ),
    Index("ix_chunks_generating_key", "content_key", postgresql_where=text(states.is_in(states.TO_GENERATE))),
    # Two workers never pay for the same content at the same time.
    Index(
        "uq_chunks_leased_key",
        "content_key",
        unique=True,
        postgresql_where=text(f"{states.is_in(states.TO_GENERATE)} AND leased_by IS NOT NULL"),
    ),
    postgresql_with={"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.02},
)

# What chunks say: written once, with the chunk, and deleted by the statement that deletes the chunk. There is no
# foreign key: it would look for the chunk of each row, one by one.
chunk_contents = Table(
    "chunk_contents",
    metadata,
    Column("chunk_id", Uuid, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("content", JSONB, nullable=False),  # a ChunkContent; no statement reads a part of it
    Column("ready_questions", ARRAY(Text)),
    Column("content_key", LargeBinary, nullable=False),  # the chunk's: what is paid for under it is in use
    Index("ix_chunk_contents_content_key", "content_key"),  # here, since the chunk's row is written seven times
)

# The verdicts on the questions of chunks: written when a chunk has been indexed with them. Reason i says why question i
# was dropped; it is null where the question passed. Questions that stand in a completion are not written once more.
chunk_questions = Table(
    "chunk_questions",
    metadata,
    Column("chunk_id", Uuid, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("content_key", LargeBinary),  # of the completion that has the questions
    Column("questions", ARRAY(Text)),  # where no completion has exactly these
    Column("reasons", ARRAY(Text), nullable=False),
    Column("similarities", ARRAY(REAL)),  # of each question and the text; null where its vector was not looked at
)

completions = Table(
    "completions",
    metadata,
    Column("content_key", LargeBinary, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("questions", ARRAY(Text), nullable=False),
    Column("unused_since", DateTime(timezone=True)),  # when no chunk was first seen to have the key; null: one had it
    _now(),
    Index("ix_completions_tenant", "tenant", "content_key"),
)

# Replies that were paid for while a content's questions are not whole: whoever needs that content goes on with them.
paid_replies = Table(
    "paid_replies",
    metadata,
    Column("content_key", LargeBinary, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("replies", JSONB, nullable=False),  # in the order of their calls
    Column("written_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# What attempts have cost: a row for each one whose calls were billed, whatever became of it. No foreign keys: the rows
# outlive what they paid for. A row goes when no settlement can write it again.
spent = Table(
    "spent",
    metadata,
    Column("token", BigInteger, primary_key=True, autoincrement=False),  # of the attempt's lease
    Column("tenant", Text, nullable=False),
    Column("collection_id", Uuid, nullable=False),
    Column("document_id", Uuid),
    Column("kind", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# What rows of `spent` have added: each goes into `spent_by_day` soon.
# Triggers write them; they are in migration 0001 alone.
spent_changes = Table(
    "spent_changes",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("collection_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("day", Date, nullable=False, server_default=text("(now() AT TIME ZONE 'UTC')::date")),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("calls", BigInteger, nullable=False),
)

# The sums of what was spent, by the day in UTC.
spent_by_day = Table(
    "spent_by_day",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("collection_id", Uuid, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Index("ix_spent_by_day_day", "day"),
)

# The estimate with which the last load of a collection began, and what had been billed for the collection by then.
estimates = Table(
    "estimates",
    metadata,
    Column("collection_id", Uuid, ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True),
    Column("estimate", JSONB, nullable=False),
    Column("spent", JSONB, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# Calls that were under way when their chunk's version was given up: whoever needs the same content waits for the reply.
abandoned_calls = Table(
    "abandoned_calls",
    metadata,
    Column("lease_token", BigInteger, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("content_key", LargeBinary, nullable=False),
    Column("due_at", DateTime(timezone=True), nullable=False),  # the end of the lease
    Index("ix_abandoned_calls_content_key", "content_key"),
)

# Who may call the API, beside those whom the settings name. A key that was revoked stays for a while: the log has its
# name.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Text, nullable=False),  # empty: the operator's
    Column("name", Text, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("filter", JSONB),  # a condition on metadata that its queries carry; null: none
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("last_used_at", DateTime(timezone=True)),
    _now(),
    Index("uq_api_keys_sha256", "sha256", unique=True),
    Index("uq_api_keys_name", "tenant", "name", unique=True, postgresql_where=text("revoked_at IS NULL")),
    Index("ix_api_keys_list", "tenant", "created_at", "id"),
)

# Users' questions and the chunks that they were shown, for as long as feedback may come. No foreign key: a query must
# not wait for its collection's row, and time alone removes the rows.
queries = Table(
    "queries",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("collection_id", Uuid, nullable=False),
    Column("question", Text, nullable=False),
    Column("chunk_ids", ARRAY(Uuid), nullable=False),
    Column("best_score", REAL),  # null: no chunk was returned
    Column("found", Boolean, nullable=False, server_default="true"),  # whether the chunks, or the answer, said anything
    Column("helpful", Boolean),  # by its last feedback; null: there was none
    _now(),
    Index("ix_queries_created_at", "created_at"),
    Index("ix_queries_collection_id", "collection_id", "created_at"),
)

# Users' questions that chunks accepted. A chunk goes with the last version that has its text; no foreign key can say
# that.
accepted_questions = Table(
    "accepted_questions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("collection_id", Uuid, nullable=False),
    Column("document_id", Uuid, ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
    Column("chunk_id", Uuid, nullable=False),
    Column("question", Text, nullable=False),
    Column("query_id", Uuid),
    Column("state", Text, nullable=False),
    # When its points may be removed; while a process removes them, the end of that claim.
    Column("due_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    _now(),
    Index("ix_accepted_questions_document_id", "document_id"),
    Index("ix_accepted_questions_chunk_id", "chunk_id"),
    Index("ix_accepted_questions_list", "collection_id", "created_at", "id"),
    Index("ix_accepted_questions_removing", "due_at", postgresql_where=text(f"state = '{AcceptedState.REMOVING}'")),
)

# Documents whose points are to become what the ledger says: a version is to be shown, or a late writer may have left
# points behind.
sweeps = Table(
    "sweeps",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("collection_id", Uuid, nullable=False),  # its place stands here: a dropped build's row is gone
    Column("tenant", Text, nullable=False),
    Column("index_name", Text, nullable=False),
    Column("document_id", Uuid, nullable=False),
    Column("below_version", Integer, nullable=False),
    Column("chunk_id", Uuid),  # null: the whole document
    Column("again", Boolean, nullable=False, server_default="false"),  # once more, when no lease can hold any more
    Column("due_at", DateTime(timezone=True), nullable=False),
    Index("ix_sweeps_due_at", "due_at"),
    Index("ix_sweeps_document_id", "document_id"),
)

# Objects of the store of uploads that no version names any more, and packs that have bytes of deleted documents: they
# are to be removed, or written anew without these bytes.
outdated_objects = Table(
    "outdated_objects",
    metadata,
    Column("name", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("due_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# What owners have erased: a tenant, a collection or a document. A row stays when all is gone, as the record of it.
erasures = Table(
    "erasures",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("collection", Text),  # its name; null: the whole tenant, or a document
    Column("document_id", Uuid),  # the id that its owner knew
    Column("collection_ids", ARRAY(Uuid), nullable=False, server_default=text("'{}'")),  # of all builds
    Column("document_ids", ARRAY(Uuid), nullable=False, server_default=text("'{}'")),  # of its rows in all builds
    Column("deleted", JSONB, nullable=False, server_default=text("'{}'::jsonb")),  # rows by table, where counted
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("finished_at", DateTime(timezone=True)),  # null: it is under way
    Column("last_token", BigInteger),  # claims with smaller fencing tokens bring nothing back
    Index("ix_erasures_open", "tenant", postgresql_where=text("finished_at IS NULL")),
)

# How many documents and chunks are in each state: sums of changes, and the changes that came since.
# Triggers write the changes; they are in migration 0001 alone.
tallies = Table(
    "tallies",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("counted", Text, primary_key=True),  # documents, chunks
    Column("part", Text, primary_key=True),  # the documents' collection, the chunks' embedding model
    Column("state", Text, primary_key=True),
    Column("rows", BigInteger, nullable=False),
)

tally_changes = Table(
    "tally_changes",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("counted", Text, nullable=False),
    Column("part", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("change", Integer, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("ix_tally_changes_at", "at"),
)

# What ended in each minute of the last day: it falls out of adding changes up.
ended_by_minute = Table(
    "ended_by_minute",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("minute", DateTime(timezone=True), primary_key=True),
    Column("chunks", Integer, nullable=False),
    Column("dead_chunks", Integer, nullable=False),
    Column("documents", Integer, nullable=False),
    Column("failed_documents", Integer, nullable=False),
)

# Questions with what answers them, by which ways of searching a collection are measured. They belong to its name: its
# builds are measured with the same ones.
labelled_sets = Table(
    "labelled_sets",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("collection", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("questions", JSONB, nullable=False),
    Column("changed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

# Runs of an evaluation. One that is running and has not been seen for a while has died with its process.
evaluations = Table(
    "evaluations",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("labelled_set", Text),  # null: the questions came with the request
    Column("questions", Integer, nullable=False),
    Column("phase", Text, nullable=False, server_default="running"),
    Column("strategy", Text),  # that is asked
    Column("done", Integer, nullable=False, server_default="0"),
    Column("total", Integer, nullable=False, server_default="0"),
    Column("error", Text),
    Column("results", JSON),  # keeps the order of strategies and questions
    Column("rows", JSON),  # those of the results, for lists
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("ended_at", DateTime(timezone=True)),
    _now(),
    Index("ix_evaluations_collection", "tenant", "collection", "created_at"),
)

# Addresses of tenants that are told of events. The secret is not hashed: each message is signed with it.
webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("events", ARRAY(Text), nullable=False),  # none: all
    Column("failing_since", DateTime(timezone=True)),  # null: the last attempt succeeded
    Column("disabled_at", DateTime(timezone=True)),  # since when nothing is sent
    _now(),
    Index("ix_webhooks_tenant", "tenant"),
)

# Messages to webhooks: triggers write them in the transaction of their event; they are in migration 0001 alone. No
# foreign key: a document's settlement must not fail because a webhook is deleted just then.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("webhook_id", Uuid, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("collection_id", Uuid),  # of the build that it names, as an erasure knows it
    Column("document_id", Uuid),  # the document's public id
    Column("data", JSONB, nullable=False),
    Column("due_at", DateTime(timezone=True), server_default=func.now()),  # null: delivered, or given up
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("status", Integer),
    Column("response", Text),
    Column("error", Text),
    Column("delivered_at", DateTime(timezone=True)),
    _now(),
    Index("ix_webhook_deliveries_due", "webhook_id", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    Index("ix_webhook_deliveries_list", "webhook_id", "created_at", "id"),
)
