"""A claim reads a few rows, however many wait: a plan that is kept must not read whole tables."""

from datetime import timedelta
from typing import Any

import pytest

from shared.domain.stages.indexing import IndexOutcome
from shared.ledger.postgres import plans
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from tests.integration.test_claims import chunks_due
from tests.integration.test_ledger import paid
from tests.support.planted import guards
from tests.support.tables import analyze

WAITING = 20_000  # documents, and chunks in each state
READ = 500  # rows and index entries that a claim of eight may read

# Copy a document: each copy waits, or has a chunk that waits in the state.
COPY = """
    WITH copied AS (
        INSERT INTO documents (id, public_id, tenant, collection_id, external_id, version, state, due_at, lane)
        SELECT gen_random_uuid(), gen_random_uuid(), d.tenant, d.collection_id, 'copy ' || n, d.version,
               CASE :state WHEN 'queued' THEN 'queued' ELSE 'indexing' END, now() - interval '1 min', d.lane
        FROM documents d, generate_series(1, :waiting) n
        RETURNING id, version, tenant
    ), versions AS (
        INSERT INTO document_versions (document_id, version, filename, media_type, upload, size_bytes, content_hash)
        SELECT c.id, c.version, v.filename, v.media_type, v.upload, v.size_bytes, v.content_hash
        FROM copied c, document_versions v
    ), contents AS (
        INSERT INTO chunk_contents (chunk_id, version, content, content_key)
        SELECT d.id, d.version, c.content, decode(md5(d.id::text) || md5(d.id::text), 'hex')
        FROM copied d, chunk_contents c WHERE :state <> 'queued'
    )
    INSERT INTO chunks (id, version, document_id, tenant, ordinal, content_key, embedding_model, lane, state, due_at)
    SELECT d.id, d.version, d.id, d.tenant, 0, decode(md5(d.id::text) || md5(d.id::text), 'hex'), c.embedding_model,
           c.lane, :state, now() - interval '1 min'
    FROM copied d, chunks c WHERE :state <> 'queued'
"""
TRIGGERS = "DO 'BEGIN ALTER TABLE documents {0} TRIGGER USER; ALTER TABLE chunks {0} TRIGGER USER; END'"
TABLES = "('documents', 'chunks_open', 'chunks_ended')"
ROWS_READ = f"""
    SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN {TABLES})
         + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN {TABLES}) AS rows
"""


@pytest.fixture
async def database(services, settings):
    """Yield a pool with one connection, which keeps the plans of claims."""
    database = Database(settings.database_url.get_secret_value(), pool_size=1)
    yield database
    await database.aclose()


async def rows_read(database):
    """Return the number of rows and index entries that were read until now."""
    await database.rows(Statement("SELECT pg_stat_force_next_flush()"))
    (row,) = await database.rows(Statement(ROWS_READ))
    return int(row["rows"])


async def copy(services, state):
    """Copy a document, with a chunk in a state."""
    await change(services, COPY, state=state, waiting=WAITING)


async def set_states(services, state):
    """Make all chunks due in a state."""
    await change(services, "UPDATE chunks SET state = :state, due_at = now() - interval '1 min'", state=state)


async def defer(services, state):
    await change(services, "UPDATE chunks SET due_at = now() + interval '1 hour' WHERE state = :state", state=state)


async def change(services, statement, **parameters):
    """Execute a statement without triggers, which refuse unknown transitions and count rows."""
    for each in (TRIGGERS.format("DISABLE"), statement, TRIGGERS.format("ENABLE")):
        async with services.database.begin() as connection:
            await connection.execute(Statement(each), parameters if each is statement else {})


@guards(
    "shared/ledger/work/claims_parse.sql",
    "WHERE w.id = ANY(ARRAY(SELECT id FROM due)) AND c.id",
    "WHERE w.id IN (SELECT id FROM due) AND c.id",
    means="a claim of documents reads the whole table",
    case="queued",
)
@guards(
    "shared/ledger/work/claims_index.sql",
    "    FROM due WHERE w.id = ANY(ARRAY(SELECT id FROM due)) AND (w",
    "    FROM due WHERE (w",
    means="a claim to index reads the whole table",
    case="generated",
)
@pytest.mark.parametrize("state", ["queued", "parsed", "generating", "generated"])
async def test_claim_reads_few_rows_of_many(services, settings, database, state):
    await chunks_due(services, "default", 1)
    await copy(services, state)
    async with services.database.begin() as connection:
        await analyze(connection)
    worker: dict[str, Any] = {"worker": "one", "lease": timedelta(minutes=1)}
    index = IndexWork(database, embeddings=[settings.embedding_model], **worker)
    claims = {
        "queued": ParseWork(database, **worker).claim,
        "parsed": index.claim,
        "generating": GenerateWork(database, **worker).claim,
        "generated": index.claim,
    }

    read = []
    for _ in range(3):
        before = await rows_read(database)
        claimed = await claims[state](8)
        read.append(await rows_read(database) - before)
        assert len(claimed.chunks if state == "generating" else claimed) == 8

    assert min(read) < READ  # during a claim, another connection may report its reads


@guards(
    "shared/ledger/postgres/migrations/schema.sql",
    "ON chunks_open (tenant, lane, due_at) WHERE state = 'generating' AND lane >= 0;",
    "ON chunks_open (tenant, lane, due_at) WHERE state = 'generating';",
    means="a lookup of a content reads the whole queue, if the queue was short when the plan was made",
    case="generating",
)
@guards(
    "shared/ledger/postgres/migrations/schema.sql",
    "ON chunks_open (content_key) WHERE state = 'generating' AND version > 0;",
    "ON chunks_open (content_key) WHERE state = 'generating';",
    means="a settlement reads the whole queue, if the queue was short when the plan was made",
    case="generating",
)
@pytest.mark.parametrize("state", ["parsed", "generating", "generated"])
async def test_plans_of_short_queue_suit_long_one(services, settings, database, monkeypatch, state):
    """A table at most triples while a plan is kept, but a queue in it may grow from one row to all of them."""
    before = "generated" if state == "parsed" else "parsed"
    monkeypatch.setattr(plans, "_SHORTEST_SECONDS", 3600.0)
    monkeypatch.setattr(plans, "_LONGEST_SECONDS", 3600.0)
    worker: dict[str, Any] = {"worker": "one", "lease": timedelta(minutes=1)}
    generate = GenerateWork(database, **worker)
    index = IndexWork(database, embeddings=[settings.embedding_model], **worker)

    async def step():
        """Claim chunks, extend the claims, and settle them; return the number of chunks."""
        if state == "generating":
            claimed = await generate.claim(8)
            await generate.extend([chunk.lease for chunk in claimed.chunks])
            await generate.settle([paid(chunk) for chunk in claimed.chunks])
            return len(claimed.chunks) + claimed.paid_already
        chunks = [chunk for chunk in await index.claim(8) if chunk.text_only == (state == "parsed")]
        await index.extend([chunk.lease for chunk in chunks])
        await index.settle([IndexOutcome(chunk, [], 0) for chunk in chunks])
        return len(chunks)

    await chunks_due(services, "default", 1)
    await set_states(services, state)
    await copy(services, before)
    async with services.database.begin() as connection:
        await analyze(connection)
    await defer(services, before)
    assert await step() == 1
    await set_states(services, state)

    read = []
    for _ in range(3):
        rows = await rows_read(database)
        assert await step() == 8
        read.append(await rows_read(database) - rows)

    assert min(read) < READ
