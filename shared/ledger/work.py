"""The flow of work: claims under a lease, and settlements that a stale claim cannot make.

Times are PostgreSQL's own: a worker's clock decides nothing. Every settlement names the fencing token of its claim, and
every one may be applied twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import RowMapping, exc, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.doorbell import QUEUES, Queue
from shared.ledger.collections import options_of
from shared.ledger.database import Database
from shared.ledger.records import (
    AskedChunk,
    ClaimedDocument,
    Finishable,
    Lease,
    NewChunk,
    PendingChunk,
    Sweep,
)
from shared.llm import Usage
from shared.parsing.questions import ReadyQuestion
from shared.retry import Dead, Decision, Retry


@dataclass(frozen=True, slots=True)
class Paid:
    """Questions that a model wrote for a chunk; the ledger keeps them under the chunk's content key."""

    chunk: PendingChunk
    model: str
    questions: tuple[str, ...]
    usage: Usage
    calls: int


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that failed, and what follows; `usage` was spent all the same."""

    lease: Lease
    decision: Decision
    usage: Usage = Usage()
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Indexed:
    """A chunk whose points Qdrant has confirmed; `questions` are `{"text", "kept", "reason"}`."""

    chunk: AskedChunk
    questions: Sequence[dict[str, Any]]
    kept: int
    error: str | None = None


class Work:
    """Claims and settlements of one worker.

    Args:
        database: the ledger.
        worker: a name that a person can find the process by.
        lease: how long a claim holds without being extended.
    """

    def __init__(self, database: Database, *, worker: str, lease: timedelta) -> None:
        self._database = database
        self._worker = worker
        self.lease = lease

    # Documents that wait to be parsed

    async def claim_documents(self, limit: int) -> list[ClaimedDocument]:
        async with self._database.begin() as connection:
            rows = (await connection.execute(_CLAIM_DOCUMENTS, self._claim(limit))).mappings().all()
        return [_claimed_document(row) for row in rows]

    async def settle_parsed(
        self, document: ClaimedDocument, title: str | None, media_type: str, chunks: Sequence[NewChunk]
    ) -> bool:
        """Write a document's chunks and let it go on; return whether the claim still held."""
        lease = document.lease
        parameters = {
            "id": lease.id,
            "token": lease.token,
            "title": title,
            "media_type": media_type,
            "state": "indexing" if all(c.given_questions is not None for c in chunks) else "asking",
        }
        async with self._database.begin() as connection:
            row = (await connection.execute(_SETTLE_PARSED, parameters)).mappings().one_or_none()
            if row is None:
                return False
            await connection.execute(_INSERT_CHUNKS, _chunk_arrays(document, row["lane"], chunks))
        return True

    async def settle_failed_documents(self, failures: Sequence[Failed]) -> None:
        """Record failed attempts at parsing: another attempt later, or the state `failed` with its reason."""
        async with self._database.begin() as connection:
            await connection.execute(_FAIL_DOCUMENTS, _failure_arrays(failures))

    # Chunks whose questions are to be written

    async def claim_pending(self, limit: int) -> list[PendingChunk]:
        """Claim chunks to be asked. Those whose content is paid for already go on without being returned."""
        try:
            async with self._database.begin() as connection:
                rows = (await connection.execute(_CLAIM_PENDING, self._claim(limit))).mappings().all()
                keys = [row["content_key"] for row in rows]
                paid = (
                    set((await connection.execute(_PAID, {"keys": keys, "worker": self._worker})).scalars())
                    if keys
                    else set()
                )
        except exc.IntegrityError:
            # Another worker leased the same content between our look and our claim: what is left is for the next look.
            return []
        return [_pending(row) for row in rows if row["content_key"] not in paid]

    async def settle_asked(self, outcomes: Sequence[Paid | Failed]) -> None:
        """Commit what was paid for, before anything else is done with it, and record the failures."""
        paid = [o for o in outcomes if isinstance(o, Paid)]
        failed = [o for o in outcomes if isinstance(o, Failed)]
        async with self._database.begin() as connection:
            if paid:
                await connection.execute(_INSERT_COMPLETIONS, _completion_arrays(paid))
                await connection.execute(_SETTLE_PAID, _paid_arrays(paid))
                await connection.execute(_SETTLE_TWINS, {"keys": [p.chunk.content_key for p in paid]})
            if failed:
                await connection.execute(_FAIL_PENDING, _failure_arrays(failed))
            documents = sorted({o.chunk.document_id for o in paid})
            if documents:
                await connection.execute(_ASKED_DOCUMENTS, {"ids": documents})

    # Chunks whose questions are to be indexed

    async def claim_asked(self, limit: int) -> list[AskedChunk]:
        async with self._database.begin() as connection:
            rows = (await connection.execute(_CLAIM_ASKED, self._claim(limit))).mappings().all()
        return [_asked(row) for row in rows]

    async def settle_indexed(self, outcomes: Sequence[Indexed]) -> set[Lease]:
        """Record chunks as indexed; return the leases that were still held: the points of the others are stale."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_SETTLE_INDEXED, _indexed_arrays(outcomes))).all()
        held = {(row.id, row.generation) for row in rows}
        return {o.chunk.lease for o in outcomes if (o.chunk.lease.id, o.chunk.lease.generation) in held}

    async def settle_failed_asked(self, failures: Sequence[Failed]) -> set[UUID]:
        """Record failed attempts at indexing; return the documents that they belong to."""
        async with self._database.begin() as connection:
            return set((await connection.execute(_FAIL_ASKED, _failure_arrays(failures))).scalars())

    # Documents whose chunks have all ended

    async def finishable(self, document_ids: Sequence[UUID] | None = None, *, limit: int = 100) -> list[Finishable]:
        """Return documents with no open chunk: all of them, or those among `document_ids`."""
        ids = None if document_ids is None else list(document_ids)
        async with self._database.begin() as connection:
            rows = (await connection.execute(_FINISHABLE, {"ids": ids, "limit": limit})).mappings().all()
        return [Finishable(**row) for row in rows]

    async def finish(self, documents: Sequence[Finishable]) -> None:
        """Make these generations the live ones; what is older is forgotten, and swept once no lease can still be held."""
        async with self._database.begin() as connection:
            parameters = {
                "ids": [d.id for d in documents],
                "generations": [d.generation for d in documents],
            }
            await connection.execute(_FINISH, parameters)
            replacing = [d for d in documents if d.generation > 1 and d.generation != d.live_generation]
            if replacing:
                await connection.execute(
                    _FORGET, {"ids": [d.id for d in replacing], "generations": [d.generation for d in replacing]}
                )
                await self._insert_sweeps(connection, replacing)

    # Documents that were deleted, and points that a late writer left behind

    async def deleted(self, limit: int = 100) -> list[Finishable]:
        async with self._database.begin() as connection:
            rows = (await connection.execute(_DELETED, {"limit": limit})).mappings().all()
        return [Finishable(**row) for row in rows]

    async def forget(self, documents: Sequence[Finishable]) -> list[str]:
        """Remove deleted documents whose points are gone; return the uploads that nobody needs any more."""
        async with self._database.begin() as connection:
            await self._insert_sweeps(connection, documents)
            rows = await connection.execute(_FORGET_DELETED, {"ids": [d.id for d in documents]})
            return list(rows.scalars())

    async def due_sweeps(self, limit: int = 100) -> list[Sweep]:
        async with self._database.begin() as connection:
            rows = (await connection.execute(_DUE_SWEEPS, {"limit": limit})).mappings().all()
        return [Sweep(**row) for row in rows]

    async def settle_sweeps(self, sweeps: Sequence[Sweep]) -> None:
        async with self._database.begin() as connection:
            await connection.execute(text("DELETE FROM sweeps WHERE id = ANY(:ids)"), {"ids": [s.id for s in sweeps]})

    async def newest_generations(self, document_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return the generation below which a document's points are stale; a document that is gone is missing."""
        statement = text("SELECT id, generation FROM documents WHERE id = ANY(:ids) AND state <> 'deleting'")
        async with self._database.begin() as connection:
            return {row.id: row.generation for row in await connection.execute(statement, {"ids": list(document_ids)})}

    # Leases

    async def extend(self, table: str, leases: Sequence[Lease]) -> None:
        """Hold claims for another lease from now on; those that were lost stay lost."""
        async with self._database.begin() as connection:
            await connection.execute(_EXTEND[table], _lease_arrays(leases) | {"lease": self.lease})

    async def give_back(self, table: str, leases: Sequence[Lease]) -> None:
        """End claims without an attempt: the rows are due at once."""
        async with self._database.begin() as connection:
            await connection.execute(_GIVE_BACK[table], _lease_arrays(leases))

    async def due(self) -> list[Queue]:
        """Return the queues on which anything is due."""
        async with self._database.begin() as connection:
            row = (await connection.execute(_DUE)).mappings().one()
        return [queue for queue in QUEUES if row[queue]]

    def _claim(self, limit: int) -> dict[str, Any]:
        return {"limit": limit, "worker": self._worker, "lease": self.lease}

    async def _insert_sweeps(self, connection: AsyncConnection, documents: Sequence[Finishable]) -> None:
        parameters = {
            "index_names": [d.index_name for d in documents],
            "tenants": [d.tenant for d in documents],
            "ids": [d.id for d in documents],
            "generations": [d.generation for d in documents],
            "after": self.lease * 2,
        }
        await connection.execute(_INSERT_SWEEPS, parameters)


_CLAIM_DOCUMENTS = text("""
    WITH due AS (
        SELECT id FROM documents
        WHERE state IN ('queued', 'parsing') AND due_at <= now()
        ORDER BY lane, due_at LIMIT :limit
        FOR UPDATE SKIP LOCKED
    )
    UPDATE documents d
    SET state = 'parsing', due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker,
        kills = d.kills + (d.leased_by IS NOT NULL)::int, updated_at = now()
    FROM due, collections c
    WHERE d.id = due.id AND c.id = d.collection_id
    RETURNING d.id, d.generation, d.lease_token, d.tenant, d.collection_id, c.options, d.upload, d.filename, d.title,
              d.media_type, d.given_questions, d.attempts, d.kills, d.live_generation
""")

_SETTLE_PARSED = text("""
    UPDATE documents
    SET state = :state, title = coalesce(title, :title), media_type = coalesce(media_type, :media_type), leased_by = NULL,
        attempts = 0, kills = 0, error = NULL, due_at = now(), updated_at = now()
    WHERE id = :id AND lease_token = :token AND state = 'parsing'
    RETURNING lane
""")

_INSERT_CHUNKS = text("""
    INSERT INTO chunks (id, generation, document_id, tenant, lane, ordinal, text, heading_path, span_start, span_end,
                        page, content_key, state, given_questions, pending)
    SELECT v.id, :generation, :document_id, :tenant, :lane, v.ordinal, v.text,
           ARRAY(SELECT jsonb_array_elements_text(v.headings)), v.span_start, v.span_end, v.page, v.content_key,
           CASE WHEN v.given IS NULL THEN 'pending' ELSE 'asked' END,
           CASE WHEN v.given IS NULL THEN NULL ELSE ARRAY(SELECT jsonb_array_elements_text(v.given)) END,
           CAST(:live AS int) IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM chunks o WHERE o.id = v.id AND o.generation = CAST(:live AS int))
    FROM unnest(CAST(:ids AS uuid[]), CAST(:ordinals AS int[]), CAST(:texts AS text[]), CAST(:headings AS jsonb[]),
                CAST(:starts AS int[]), CAST(:ends AS int[]), CAST(:pages AS int[]), CAST(:keys AS bytea[]),
                CAST(:given AS jsonb[]))
         AS v(id, ordinal, text, headings, span_start, span_end, page, content_key, given)
    ON CONFLICT DO NOTHING
""")

# Content that another worker is paying for right now is left alone, and within one claim each content comes once.
_CLAIM_PENDING = text("""
    WITH due AS (
        SELECT id, generation, content_key FROM chunks c
        WHERE state = 'pending' AND due_at <= now()
          AND NOT EXISTS (
              SELECT 1 FROM chunks o
              WHERE o.content_key = c.content_key AND o.state = 'pending' AND o.leased_by IS NOT NULL
                AND (o.id, o.generation) <> (c.id, c.generation))
        ORDER BY lane, due_at LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ), once AS (
        SELECT DISTINCT ON (content_key) id, generation FROM due ORDER BY content_key, id
    )
    UPDATE chunks c
    SET due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker,
        kills = c.kills + (c.leased_by IS NOT NULL)::int
    FROM once, documents d JOIN collections l ON l.id = d.collection_id
    WHERE c.id = once.id AND c.generation = once.generation AND d.id = c.document_id
    RETURNING c.id, c.generation, c.lease_token, c.document_id, c.tenant, l.options, c.text, d.title, c.heading_path,
              c.content_key, c.attempts, c.kills
""")

_PAID = text("""
    UPDATE chunks c
    SET state = 'asked', leased_by = NULL, due_at = now(), attempts = 0, kills = 0, error = NULL
    FROM completions p
    WHERE c.content_key = p.content_key AND c.content_key = ANY(CAST(:keys AS bytea[])) AND c.state = 'pending'
      AND (c.leased_by IS NULL OR c.leased_by = :worker)
    RETURNING c.content_key
""")

_INSERT_COMPLETIONS = text("""
    INSERT INTO completions (content_key, tenant, model, questions, prompt_tokens, completion_tokens, calls)
    SELECT v.key, v.tenant, v.model, ARRAY(SELECT jsonb_array_elements_text(v.questions)), v.prompt, v.completion, v.calls
    FROM unnest(CAST(:keys AS bytea[]), CAST(:tenants AS text[]), CAST(:models AS text[]), CAST(:questions AS jsonb[]),
                CAST(:prompts AS int[]), CAST(:completions AS int[]), CAST(:calls AS int[]))
         AS v(key, tenant, model, questions, prompt, completion, calls)
    ON CONFLICT DO NOTHING
""")

_SETTLE_PAID = text("""
    UPDATE chunks c
    SET state = 'asked', leased_by = NULL, due_at = now(), attempts = 0, kills = 0, error = NULL,
        prompt_tokens = c.prompt_tokens + v.prompt, completion_tokens = c.completion_tokens + v.completion,
        calls = c.calls + v.calls
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:tokens AS bigint[]), CAST(:prompts AS int[]),
                CAST(:completions AS int[]), CAST(:calls AS int[]))
         AS v(id, generation, token, prompt, completion, calls)
    WHERE c.id = v.id AND c.generation = v.generation AND c.lease_token = v.token AND c.state = 'pending'
""")

_SETTLE_TWINS = text("""
    UPDATE chunks SET state = 'asked', leased_by = NULL, due_at = now(), attempts = 0, kills = 0, error = NULL
    WHERE content_key = ANY(CAST(:keys AS bytea[])) AND state = 'pending'
""")

_ASKED_DOCUMENTS = text("""
    WITH asked AS (
        SELECT d.id FROM documents d
        WHERE d.id = ANY(CAST(:ids AS uuid[])) AND d.state = 'asking'
          AND NOT EXISTS (SELECT 1 FROM chunks c
                          WHERE c.document_id = d.id AND c.generation = d.generation AND c.state = 'pending')
        ORDER BY d.id FOR UPDATE
    )
    UPDATE documents d SET state = 'indexing', updated_at = now() FROM asked WHERE d.id = asked.id AND d.state = 'asking'
""")

_CLAIM_ASKED = text("""
    WITH due AS (
        SELECT id, generation FROM chunks
        WHERE state = 'asked' AND due_at <= now()
        ORDER BY lane, due_at LIMIT :limit
        FOR UPDATE SKIP LOCKED
    )
    UPDATE chunks c
    SET due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker,
        kills = c.kills + (c.leased_by IS NOT NULL)::int
    FROM due, documents d JOIN collections l ON l.id = d.collection_id
    WHERE c.id = due.id AND c.generation = due.generation AND d.id = c.document_id
    RETURNING c.id, c.generation, c.lease_token, c.document_id, c.tenant, d.collection_id, l.index_name,
              l.embedding_model, d.external_id, d.filename, d.title, d.metadata, c.ordinal, c.text, c.heading_path,
              c.span_start, c.span_end, c.page, c.pending, c.given_questions IS NOT NULL AS given,
              coalesce(c.given_questions,
                       (SELECT p.questions FROM completions p WHERE p.content_key = c.content_key AND c.error IS NULL),
                       '{}') AS questions,
              c.error, c.attempts, c.kills, d.created_at
""")

_SETTLE_INDEXED = text("""
    UPDATE chunks c
    SET state = CASE WHEN v.error IS NULL THEN 'indexed' ELSE 'dead' END, error = v.error, questions = v.questions,
        questions_kept = v.kept, leased_by = NULL, attempts = 0, kills = 0
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:tokens AS bigint[]), CAST(:errors AS text[]),
                CAST(:questions AS jsonb[]), CAST(:kept AS int[]))
         AS v(id, generation, token, error, questions, kept)
    WHERE c.id = v.id AND c.generation = v.generation AND c.lease_token = v.token AND c.state = 'asked'
    RETURNING c.id, c.generation
""")

_HISTORY = """history || jsonb_build_object('at', now(), 'attempt', t.attempts + 1, 'error', v.error)"""

_FAILURES = """
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:tokens AS bigint[]), CAST(:errors AS text[]),
                CAST(:dead AS boolean[]), CAST(:after AS interval[]), CAST(:burned AS int[]), CAST(:prompts AS int[]),
                CAST(:completions AS int[]), CAST(:calls AS int[]))
         AS v(id, generation, token, error, dead, after, burned, prompt, completion, calls)
    WHERE t.id = v.id AND t.generation = v.generation AND t.lease_token = v.token
"""

_FAIL_DOCUMENTS = text(f"""
    UPDATE documents t
    SET state = CASE WHEN v.dead THEN 'failed' ELSE 'queued' END, error = v.error, attempts = t.attempts + v.burned,
        history = t.{_HISTORY}, due_at = now() + v.after, leased_by = NULL, updated_at = now()
    {_FAILURES} AND t.state = 'parsing'
""")

# A chunk that cannot be asked goes on to be indexed by its text; it ends dead there, with the reason kept here.
_FAIL_PENDING = text(f"""
    UPDATE chunks t
    SET state = CASE WHEN v.dead THEN 'asked' ELSE 'pending' END, error = v.error,
        attempts = CASE WHEN v.dead THEN 0 ELSE t.attempts + v.burned END, history = t.{_HISTORY},
        due_at = now() + v.after, leased_by = NULL, kills = 0, prompt_tokens = t.prompt_tokens + v.prompt,
        completion_tokens = t.completion_tokens + v.completion, calls = t.calls + v.calls
    {_FAILURES} AND t.state = 'pending'
""")

_FAIL_ASKED = text(f"""
    UPDATE chunks t
    SET state = CASE WHEN v.dead THEN 'dead' ELSE 'asked' END,
        error = CASE WHEN v.dead THEN v.error ELSE t.error END, attempts = t.attempts + v.burned, history = t.{_HISTORY},
        due_at = now() + v.after, leased_by = NULL, kills = 0
    {_FAILURES} AND t.state = 'asked'
    RETURNING t.document_id
""")

_FINISHABLE = text("""
    SELECT d.id, d.tenant, l.index_name, d.generation, d.live_generation
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.state IN ('asking', 'indexing')
      AND (CAST(:ids AS uuid[]) IS NULL OR d.id = ANY(CAST(:ids AS uuid[])))
      AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.generation = d.generation
                                               AND c.state IN ('pending', 'asked'))
    LIMIT :limit
""")

_FINISH = text("""
    WITH ended AS (
        SELECT d.id, v.generation,
               EXISTS (SELECT 1 FROM chunks c
                       WHERE c.document_id = d.id AND c.generation = d.generation AND c.state = 'dead') AS degraded
        FROM documents d
        JOIN unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS v(id, generation)
          ON d.id = v.id AND d.generation = v.generation
        WHERE d.state IN ('asking', 'indexing')
        ORDER BY d.id FOR UPDATE OF d
    )
    UPDATE documents d
    SET state = CASE WHEN ended.degraded THEN 'degraded' ELSE 'ready' END, live_generation = d.generation,
        updated_at = now()
    FROM ended WHERE d.id = ended.id
""")

_FORGET = text("""
    DELETE FROM chunks c
    USING unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS v(id, generation)
    WHERE c.document_id = v.id AND c.generation < v.generation
""")

_INSERT_SWEEPS = text("""
    INSERT INTO sweeps (index_name, tenant, document_id, below_generation, due_at)
    SELECT v.index_name, v.tenant, v.id, v.generation, now() + :after
    FROM unnest(CAST(:index_names AS text[]), CAST(:tenants AS text[]), CAST(:ids AS uuid[]),
                CAST(:generations AS int[])) AS v(index_name, tenant, id, generation)
""")

_DELETED = text("""
    SELECT d.id, d.tenant, l.index_name, d.generation, d.live_generation
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.state = 'deleting' AND d.due_at <= now() LIMIT :limit
""")

_FORGET_DELETED = text(
    "DELETE FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = 'deleting' RETURNING upload"
)

_DUE_SWEEPS = text("""
    SELECT id, index_name, tenant, document_id, below_generation FROM sweeps WHERE due_at <= now() ORDER BY due_at LIMIT :limit
""")

_LEASES = """
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:tokens AS bigint[])) AS v(id, generation, token)
    WHERE t.id = v.id AND t.generation = v.generation AND t.lease_token = v.token AND t.leased_by IS NOT NULL
"""
_TABLES = ("documents", "chunks")
_EXTEND = {name: text(f"UPDATE {name} t SET due_at = now() + :lease {_LEASES}") for name in _TABLES}
_GIVE_BACK = {
    "documents": text(f"UPDATE documents t SET due_at = now(), leased_by = NULL, state = 'queued' {_LEASES}"),
    "chunks": text(f"UPDATE chunks t SET due_at = now(), leased_by = NULL {_LEASES}"),
}

_DUE = text("""
    SELECT EXISTS (SELECT 1 FROM documents WHERE state IN ('queued', 'parsing') AND due_at <= now()) AS parse,
           EXISTS (SELECT 1 FROM chunks WHERE state = 'pending' AND due_at <= now()) AS ask,
           EXISTS (SELECT 1 FROM chunks WHERE state = 'asked' AND due_at <= now())
           OR EXISTS (SELECT 1 FROM documents WHERE state = 'deleting' AND due_at <= now())
           OR EXISTS (SELECT 1 FROM sweeps WHERE due_at <= now())
           OR EXISTS (SELECT 1 FROM documents d WHERE d.state IN ('asking', 'indexing')
                      AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id
                                      AND c.generation = d.generation AND c.state IN ('pending', 'asked'))) AS index
""")


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _lease(row: RowMapping) -> Lease:
    return Lease(id=row["id"], generation=row["generation"], token=row["lease_token"])


def _claimed_document(row: RowMapping) -> ClaimedDocument:
    given = row["given_questions"]
    return ClaimedDocument(
        lease=_lease(row),
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        options=options_of(row["options"]),
        upload=row["upload"],
        filename=row["filename"],
        title=row["title"],
        media_type=row["media_type"],
        given_questions=None if given is None else tuple(ReadyQuestion(**q) for q in given),
        attempts=row["attempts"],
        kills=row["kills"],
        live_generation=row["live_generation"],
    )


def _pending(row: RowMapping) -> PendingChunk:
    return PendingChunk(
        lease=_lease(row),
        document_id=row["document_id"],
        tenant=row["tenant"],
        options=options_of(row["options"]),
        text=row["text"],
        title=row["title"],
        heading_path=tuple(row["heading_path"]),
        content_key=row["content_key"],
        attempts=row["attempts"],
        kills=row["kills"],
    )


def _asked(row: RowMapping) -> AskedChunk:
    values = dict(row)
    lease = Lease(values.pop("id"), values.pop("generation"), values.pop("lease_token"))
    span = (values.pop("span_start"), values.pop("span_end"))
    values["heading_path"] = tuple(values["heading_path"])
    values["questions"] = tuple(values["questions"])
    return AskedChunk(lease=lease, span=span, **values)


def _chunk_arrays(document: ClaimedDocument, lane: int, chunks: Sequence[NewChunk]) -> dict[str, Any]:
    return {
        "document_id": document.lease.id,
        "generation": document.lease.generation,
        "tenant": document.tenant,
        "lane": lane,
        "live": document.live_generation,
        "ids": [c.id for c in chunks],
        "ordinals": [c.ordinal for c in chunks],
        "texts": [c.text for c in chunks],
        "headings": [_json(c.heading_path) for c in chunks],
        "starts": [c.span[0] for c in chunks],
        "ends": [c.span[1] for c in chunks],
        "pages": [c.page for c in chunks],
        "keys": [c.content_key for c in chunks],
        "given": [None if c.given_questions is None else _json(c.given_questions) for c in chunks],
    }


def _completion_arrays(paid: Sequence[Paid]) -> dict[str, Any]:
    return {
        "keys": [p.chunk.content_key for p in paid],
        "tenants": [p.chunk.tenant for p in paid],
        "models": [p.model for p in paid],
        "questions": [_json(p.questions) for p in paid],
        "prompts": [p.usage.prompt_tokens for p in paid],
        "completions": [p.usage.completion_tokens for p in paid],
        "calls": [p.calls for p in paid],
    }


def _lease_arrays(leases: Sequence[Lease]) -> dict[str, Any]:
    return {
        "ids": [lease.id for lease in leases],
        "generations": [lease.generation for lease in leases],
        "tokens": [lease.token for lease in leases],
    }


def _paid_arrays(paid: Sequence[Paid]) -> dict[str, Any]:
    return _lease_arrays([p.chunk.lease for p in paid]) | {
        "prompts": [p.usage.prompt_tokens for p in paid],
        "completions": [p.usage.completion_tokens for p in paid],
        "calls": [p.calls for p in paid],
    }


def _indexed_arrays(outcomes: Sequence[Indexed]) -> dict[str, Any]:
    return _lease_arrays([o.chunk.lease for o in outcomes]) | {
        "errors": [o.error for o in outcomes],
        "questions": [_json(o.questions) for o in outcomes],
        "kept": [o.kept for o in outcomes],
    }


def _failure_arrays(failures: Sequence[Failed]) -> dict[str, Any]:
    return _lease_arrays([f.lease for f in failures]) | {
        "errors": [f.decision.reason for f in failures],
        "dead": [isinstance(f.decision, Dead) for f in failures],
        "after": [f.decision.after if isinstance(f.decision, Retry) else timedelta() for f in failures],
        "burned": [int(f.decision.burns_attempt) if isinstance(f.decision, Retry) else 1 for f in failures],
        "prompts": [f.usage.prompt_tokens for f in failures],
        "completions": [f.usage.completion_tokens for f in failures],
        "calls": [f.calls for f in failures],
    }
