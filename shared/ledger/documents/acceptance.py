"""Acceptance: a chunk accepts a user's question, and so do the chunks that stand for it in the other builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.ids import accepted_id
from shared.domain.outcomes import IndexOutcome
from shared.domain.questions import plain
from shared.domain.states import AcceptedState, ChunkState, DocumentState
from shared.domain.work import ChunkToIndex
from shared.ledger.documents.audit import index_again
from shared.ledger.documents.chunk_matching import Divided, counterpart, divided
from shared.ledger.model import states
from shared.ledger.postgres.database import Collided

# No process is deleting the points of a question.
_UNCLAIMED = f"(a.state <> '{AcceptedState.REMOVING}' OR a.due_at <= now())"

# Accept a question, again if it was retracted or rejected. Return no row if it is accepted already, or if its points
# are being deleted, because that deletion would delete new points, too.
_ACCEPT = text(f"""
    INSERT INTO accepted_questions AS a
        (id, tenant, collection_id, document_id, chunk_id, question, query_id, state)
    VALUES (:id, :tenant, :collection, :document, :chunk, :question, :query, {states.ACCEPT.target()})
    ON CONFLICT (id) DO UPDATE
    SET {states.ACCEPT.sets()}, question = excluded.question, query_id = excluded.query_id, created_at = now()
    WHERE {states.ACCEPT.applies("a")} AND {_UNCLAIMED}
    RETURNING id
""")

# Return whether a question's points are being deleted.
_IN_REMOVAL = text(f"SELECT NOT ({_UNCLAIMED}) FROM accepted_questions a WHERE id = :id")

# Lock a document in the builds that follow its live one.
_LOCK_FOLLOWERS = text(f"""
    SELECT o.id FROM documents d JOIN documents o ON o.public_id = d.public_id AND o.id <> d.id
    JOIN collections b ON b.id = o.collection_id
    WHERE d.id = :document AND {states.exists("o")} AND {states.build_is_in(states.FOLLOWERS, "b")}
    ORDER BY b.build FOR UPDATE OF o
""")

# Find the live documents followed by these documents, if either has accepted questions.
_SOURCES = text(f"""
    SELECT o.id, o.version, o.collection_id, o.tenant, d.id AS source, d.live_version AS shown
    FROM documents o JOIN collections b ON b.id = o.collection_id
    JOIN collections l ON l.tenant = b.tenant AND l.name = b.name
    JOIN documents d ON d.collection_id = l.id AND d.external_id = o.external_id
    WHERE o.id = ANY(CAST(:ids AS uuid[])) AND {states.exists("o")} AND {states.build_is_in(states.FOLLOWERS, "b")}
      AND {states.is_live("l")} AND {states.exists("d")} AND d.live_version IS NOT NULL
      AND EXISTS (SELECT 1 FROM accepted_questions a WHERE a.document_id IN (o.id, d.id))
""")

# Find the documents of other builds that follow these of live ones, and have accepted questions.
_FOLLOWING = text(f"""
    SELECT d.id, d.version, d.collection_id, d.tenant, o.id AS source, coalesce(o.live_version, o.version) AS shown
    FROM documents d JOIN collections l ON l.id = d.collection_id
    JOIN collections b ON b.tenant = l.tenant AND b.name = l.name
    JOIN documents o ON o.collection_id = b.id AND o.external_id = d.external_id
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {states.is_live("l")} AND {states.exists("d")}
      AND {states.build_is_in(states.FOLLOWERS, "b")} AND {states.exists("o")}
      AND EXISTS (SELECT 1 FROM accepted_questions a WHERE a.document_id = o.id)
""")

# List the accepted questions of documents, the oldest first.
_ACCEPTED = text(f"""
    SELECT id, document_id, chunk_id, question, query_id FROM accepted_questions
    WHERE document_id = ANY(CAST(:ids AS uuid[])) AND {states.TAKE_BACK.applies()} ORDER BY created_at, id
""")

# Delete questions of documents whose chunk is in no version any more.
_DELETE_WITHOUT_CHUNK = text("""
    DELETE FROM accepted_questions a
    WHERE a.document_id = ANY(CAST(:ids AS uuid[]))
      AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = a.chunk_id)
""")

# Retract questions.
_TAKE_BACK = text(f"""
    UPDATE accepted_questions SET {states.TAKE_BACK.sets()}
    WHERE id = ANY(CAST(:ids AS uuid[])) AND {states.TAKE_BACK.applies()}
""")

# Find indexed chunks of live versions with a question whose point is not written yet.
_CHUNKS_WITH_WAITING = text(f"""
    SELECT DISTINCT c.id
    FROM accepted_questions a
    JOIN documents d ON d.id = a.document_id
    JOIN chunks c ON c.id = a.chunk_id AND c.version = d.live_version
    WHERE a.document_id = ANY(CAST(:ids AS uuid[])) AND a.state = '{AcceptedState.WAITING}'
      AND c.state = '{ChunkState.INDEXED}'
""")

# Prevent versions of documents from starting, failing or finishing until the transaction ends.
_HOLD = text("SELECT 1 FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR SHARE")

# Record the questions whose points are written and the questions that the embedding model rejected. A question that was
# retracted meanwhile stays retracted. A question keeps waiting while the next version of its document is processed:
# that version may have been written without the question, and may be discarded.
_SETTLE = text(f"""
    UPDATE accepted_questions a SET {states.SETTLE_ACCEPTED.sets("v.refused")}
    FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[]), CAST(:refused AS boolean[])) AS v(id, version, refused)
    JOIN accepted_questions w ON w.id = v.id JOIN documents d ON d.id = w.document_id
    WHERE a.id = v.id AND {states.SETTLE_ACCEPTED.applies("a")}
      AND (v.refused
           OR d.live_version = v.version AND (d.version = v.version OR d.state = '{DocumentState.FAILED}'))
""")

# Write the questions of dead chunks again when the chunks are retried.
_WAIT_AGAIN = text(f"""
    UPDATE accepted_questions a SET {states.WAIT_AGAIN.sets()}
    FROM chunks c
    WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND c.state = '{ChunkState.DEAD}' AND a.chunk_id = c.id
      AND {states.WAIT_AGAIN.applies("a")}
""")

# Delete points that a late writer may have written after their questions were retracted and deleted, or during their
# deletion; that deletion's claim ends.
_TAKE_BACK_LATE = text(f"""
    INSERT INTO accepted_questions AS a (id, tenant, collection_id, document_id, chunk_id, question, state)
    SELECT v.id, d.tenant, d.collection_id, d.id, c.id, v.question, {states.TAKE_BACK_LATE.target()}
    FROM unnest(CAST(:ids AS uuid[]), CAST(:questions AS text[]), CAST(:chunks AS uuid[]), CAST(:versions AS int[]))
         AS v(id, question, chunk_id, version)
    JOIN chunks c ON c.id = v.chunk_id AND c.version = v.version
    JOIN documents d ON d.id = c.document_id
    ON CONFLICT (id) DO UPDATE SET due_at = now() WHERE a.state = '{AcceptedState.REMOVING}'
""")


async def accept(connection: AsyncConnection, question: Mapping[str, Any]) -> bool:
    """Accept a question; return False if it is accepted already.

    Raises:
        Collided: it was retracted and its points are being deleted, which usually takes milliseconds.
    """
    if (await connection.execute(_ACCEPT, question)).one_or_none() is not None:
        return True
    if (await connection.execute(_IN_REMOVAL, {"id": question["id"]})).scalar_one_or_none():
        raise Collided(
            "the question was taken back, and is being removed at this moment",
            component="ledger",
            retry_after=timedelta(seconds=2),
        )
    return False


async def delete_without_chunk(connection: AsyncConnection, documents: Sequence[UUID]) -> None:
    """Delete the questions of chunks that no version of these documents contains any more.

    Their points are deleted already.
    """
    await connection.execute(_DELETE_WITHOUT_CHUNK, {"ids": list(documents)})


async def lock_followers(connection: AsyncConnection, document: UUID) -> Sequence[UUID]:
    """Lock the rows that a locked document of the live build has in the others; return their ids."""
    return (await connection.execute(_LOCK_FOLLOWERS, {"document": document})).scalars().all()


async def mirror(connection: AsyncConnection, documents: Sequence[UUID]) -> None:
    """Copy the live build's accepted questions to locked documents of another build.

    A document without chunks gets them when it is finished.

    Raises:
        Collided: a question was retracted and is being deleted.
    """
    for of_source, of_target in await _copy(connection, _SOURCES, documents):
        known = {plain(question.question) for question in of_source}
        gone = [question.id for question in of_target if plain(question.question) not in known]
        if gone:
            await connection.execute(_TAKE_BACK, {"ids": gone})


async def adopt(connection: AsyncConnection, documents: Sequence[UUID]) -> None:
    """Copy questions accepted before a switch to locked documents of live builds that had no chunks then.

    A retraction applies to every build at once, so questions of any other build are valid.

    Raises:
        Collided: a question was retracted and is being deleted.
    """
    await _copy(connection, _FOLLOWING, documents)


async def index_waiting(connection: AsyncConnection, documents: Sequence[UUID]) -> set[UUID]:
    """Index chunks of locked documents with waiting questions again; return the chunks that are due.

    Documents in progress are skipped, because the same happens when they finish. Dead chunks are skipped, because their
    questions are written when they are retried.
    """
    chunks = (await connection.execute(_CHUNKS_WITH_WAITING, {"ids": list(documents)})).scalars().all()
    return await index_again(connection, documents, chunks) if chunks else set()


async def hold_documents(connection: AsyncConnection, outcomes: Sequence[IndexOutcome]) -> None:
    """Lock the documents of chunks with accepted questions until these are settled.

    A process that ends a version indexes chunks with waiting questions again, so it must see these outcomes.
    """
    if ids := sorted({o.chunk.document_id for o in outcomes if o.accepted}):
        await connection.execute(_HOLD, {"ids": ids})


async def settle_accepted(connection: AsyncConnection, outcomes: Sequence[IndexOutcome]) -> None:
    """Record the questions of indexed chunks: as indexed if the live version contains them now, or as rejected."""
    settled = [(question.id, o.chunk.lease.version, state) for o in outcomes for question, state in o.accepted]
    parameters = {
        "ids": [identity for identity, _, _ in settled],
        "versions": [version for _, version, _ in settled],
        "refused": [state == AcceptedState.REFUSED for _, _, state in settled],
    }
    if settled:
        await connection.execute(_SETTLE, parameters)


async def wait_again(connection: AsyncConnection, chunks: Sequence[UUID]) -> None:
    """Let the questions of dead chunks wait until the chunks are retried."""
    await connection.execute(_WAIT_AGAIN, {"chunks": list(chunks)})


async def take_back_late(connection: AsyncConnection, chunks: Sequence[ChunkToIndex]) -> None:
    """Delete the points of questions that were retracted while a worker wrote them under a lost lease."""
    late = [(chunk, question) for chunk in chunks for question in chunk.accepted]
    parameters = {
        "ids": [question.id for _, question in late],
        "questions": [question.question for _, question in late],
        "chunks": [chunk.lease.id for chunk, _ in late],
        "versions": [chunk.lease.version for chunk, _ in late],
    }
    if late:
        await connection.execute(_TAKE_BACK_LATE, parameters)


async def _copy(
    connection: AsyncConnection, pairs: TextClause, documents: Sequence[UUID]
) -> list[tuple[list[Row[Any]], list[Row[Any]]]]:
    """Copy accepted questions from sources to documents; return the questions that both had before."""
    targets = (await connection.execute(pairs, {"ids": list(documents)})).all()
    if not targets:
        return []
    rows = [id_ for target in targets for id_ in (target.id, target.source)]
    accepted = (await connection.execute(_ACCEPTED, {"ids": rows})).all()
    versions = [(t.id, t.version) for t in targets] + [(t.source, t.shown) for t in targets]
    divisions = await divided(connection, versions)
    copied = []
    for target in targets:
        of_source = [question for question in accepted if question.document_id == target.source]
        of_target = [question for question in accepted if question.document_id == target.id]
        there = {question.id for question in of_target}
        if target.source in divisions and target.id in divisions:
            for question in _counterparts(target, of_source, divisions):
                if question["id"] not in there:
                    await accept(connection, question)
        copied.append((of_source, of_target))
    return copied


def _counterparts(
    target: Row[Any], of_source: Sequence[Row[Any]], divisions: Mapping[UUID, Divided]
) -> Iterator[dict[str, Any]]:
    """Yield the questions of a document's source for the chunks that stand for the source's."""
    for question in of_source:
        chunk = counterpart(question.chunk_id, divisions[target.source], divisions[target.id])
        if chunk is not None:
            yield {
                "id": accepted_id(chunk, question.question),
                "tenant": target.tenant,
                "collection": target.collection_id,
                "document": target.id,
                "chunk": chunk,
                "question": question.question,
                "query": question.query_id,
            }
