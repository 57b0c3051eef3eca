"""Accepted questions: users' questions became questions of the chunks that answer them.

An accepted question is written to Qdrant with its chunk, which is indexed again for it, and again in every version with
its text: it has one point per version. Builds that follow the live one get it for their corresponding chunks. It is
`indexed` when the live version has its point and no version in progress can lack it. A retracted question is `removing`
until its points are deleted and no worker can write one any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from shared.domain.corpus.ids import accepted_id
from shared.domain.corpus.questions import plain
from shared.domain.stages.indexing import ChunkToIndex, IndexOutcome
from shared.domain.states import AcceptedState
from shared.ledger.documents.chunk_matching import ChunkedVersion, chunked_versions, counterpart
from shared.ledger.documents.repeated_indexing import index_again
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import TransactionConflict
from shared.ledger.postgres.statements import Statement

SQL = statements.load(__file__, states.FRAGMENTS)


async def accept(connection: Connection, question: Mapping[str, Any]) -> bool:
    """Accept a question; return False if it is accepted already.

    Raises:
        TransactionConflict: it was retracted and its points are being deleted, which usually takes milliseconds.
    """
    if (await connection.execute(SQL.accept, question)).one_or_none() is not None:
        return True
    if (await connection.execute(SQL.is_being_removed, {"id": question["id"]})).scalar_one_or_none():
        raise TransactionConflict(
            "the question was retracted, and its points are being deleted",
            component="ledger",
            retry_after=timedelta(seconds=2),
        )
    return False


async def assign(connection: Connection, question: Mapping[str, Any]) -> bool:
    """Assign an accepted question to the key that accepted it, or to an editor; return whether that is a change."""
    return (await connection.execute(SQL.assign, question)).one_or_none() is not None


async def delete_without_chunk(connection: Connection, documents: Sequence[UUID]) -> None:
    """Delete the questions of chunks that no version of these documents contains any more.

    Their points are deleted already.
    """
    await connection.execute(SQL.delete_without_chunk, {"ids": list(documents)})


async def lock_followers(connection: Connection, document: UUID) -> Sequence[UUID]:
    """Lock the rows that a locked document of the live build has in the others; return their ids."""
    return (await connection.execute(SQL.lock_followers, {"document": document})).scalars()


async def copy_from_live(connection: Connection, documents: Sequence[UUID]) -> None:
    """Copy the live build's accepted questions to locked documents of another build.

    A document without chunks gets them when it is finished.

    Raises:
        TransactionConflict: a question was retracted and is being deleted.
    """
    for of_source, of_target in await _copy(connection, SQL.live_sources, documents):
        current = {plain(question.question) for question in of_source}
        missing = [question.id for question in of_target if plain(question.question) not in current]
        if missing:
            await connection.execute(SQL.retract, {"ids": missing})


async def copy_from_other_builds(connection: Connection, documents: Sequence[UUID]) -> None:
    """Copy questions accepted before a switch to locked documents of live builds that had no chunks then.

    A retraction applies to every build at once, so questions of any other build are valid.

    Raises:
        TransactionConflict: a question was retracted and is being deleted.
    """
    await _copy(connection, SQL.following_documents, documents)


async def reindex_waiting(connection: Connection, documents: Sequence[UUID]) -> set[UUID]:
    """Index chunks of locked documents with waiting questions again; return the chunks that are due.

    Documents in progress are skipped, because the same happens when they finish. Dead chunks are skipped, because their
    questions are written when they are retried.
    """
    chunks = (await connection.execute(SQL.chunks_with_waiting, {"ids": list(documents)})).scalars()
    return await index_again(connection, documents, chunks) if chunks else set()


async def hold_documents(connection: Connection, outcomes: Sequence[IndexOutcome]) -> None:
    """Lock the documents of chunks with accepted questions until these are settled.

    A process that ends a version indexes chunks with waiting questions again, so it must see these outcomes.
    """
    if ids := sorted({o.chunk.document_id for o in outcomes if o.accepted}):
        await connection.execute(SQL.hold, {"ids": ids})


async def settle(connection: Connection, outcomes: Sequence[IndexOutcome]) -> None:
    """Record the questions of indexed chunks: as indexed if the live version contains them now, or as rejected."""
    settled = [(question.id, o.chunk.lease.version, state) for o in outcomes for question, state in o.accepted]
    parameters = {
        "ids": [identity for identity, _, _ in settled],
        "versions": [version for _, version, _ in settled],
        "refused": [state == AcceptedState.REFUSED for _, _, state in settled],
    }
    if settled:
        await connection.execute(SQL.settle, parameters)


async def mark_waiting(connection: Connection, chunks: Sequence[UUID]) -> None:
    """Mark the questions of dead chunks as waiting: they are written when the chunks are retried."""
    if chunks:
        await connection.execute(SQL.mark_waiting, {"chunks": list(chunks)})


async def delete_late_points(connection: Connection, chunks: Sequence[ChunkToIndex]) -> None:
    """Delete the points of questions that were retracted while a worker wrote them under a lost lease."""
    late = [(chunk, question) for chunk in chunks for question in chunk.accepted]
    parameters = {
        "ids": [question.id for _, question in late],
        "questions": [question.question for _, question in late],
        "chunks": [chunk.lease.id for chunk, _ in late],
        "versions": [chunk.lease.version for chunk, _ in late],
    }
    if late:
        await connection.execute(SQL.delete_late_points, parameters)


async def _copy(
    connection: Connection, pairs: Statement, documents: Sequence[UUID]
) -> list[tuple[list[Row], list[Row]]]:
    """Copy accepted questions with their owners to documents; return the questions that both had before."""
    targets = (await connection.execute(pairs, {"ids": list(documents)})).all()
    if not targets:
        return []
    rows = [id_ for target in targets for id_ in (target.id, target.source)]
    accepted = (await connection.execute(SQL.accepted_questions, {"ids": rows})).all()
    versions = [(t.id, t.version) for t in targets] + [(t.source, t.shown) for t in targets]
    divisions = await chunked_versions(connection, versions)
    copied = []
    for target in targets:
        of_source = [question for question in accepted if question.document_id == target.source]
        of_target = [question for question in accepted if question.document_id == target.id]
        present = {question.id for question in of_target}
        if target.source in divisions and target.id in divisions:
            for question in _counterparts(target, of_source, divisions):
                if question["id"] in present:
                    await assign(connection, question)
                else:
                    await accept(connection, question)
        copied.append((of_source, of_target))
    return copied


def _counterparts(
    target: Row, of_source: Sequence[Row], divisions: Mapping[UUID, ChunkedVersion]
) -> Iterator[dict[str, Any]]:
    """Yield the questions of a document's source for the corresponding chunks of the document."""
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
                "accepted_by": question.accepted_by,
            }
