"""Acceptance: a chunk accepts a user's question, and so do the chunks that stand for it in the other builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.accepted import plain
from shared.domain.ids import accepted_id
from shared.domain.records import AcceptedState
from shared.ledger import states
from shared.ledger.counterparts import Divided, counterpart, divided
from shared.ledger.database import Collided

# Nobody is removing the points of a question.
_UNCLAIMED = f"(a.state <> '{AcceptedState.REMOVING}' OR a.due_at <= now())"

# Accept a question, anew where it was taken back or refused; return no row where it is accepted already, or where its
# points are being removed: the removal would take the new ones along.
_ACCEPT = text(f"""
    INSERT INTO accepted_questions AS a
        (id, tenant, collection_id, document_id, chunk_id, question, query_id, state)
    VALUES (:id, :tenant, :collection, :document, :chunk, :question, :query, {states.ACCEPT.target()})
    ON CONFLICT (id) DO UPDATE
    SET {states.ACCEPT.sets()}, question = excluded.question, query_id = excluded.query_id, created_at = now()
    WHERE {states.ACCEPT.applies("a")} AND {_UNCLAIMED}
    RETURNING id
""")

# Say whether a question's points are being removed.
_IN_REMOVAL = text(f"SELECT NOT ({_UNCLAIMED}) FROM accepted_questions a WHERE id = :id")

# Lock a document in the builds that follow its live one.
_LOCK_FOLLOWERS = text(f"""
    SELECT o.id FROM documents d JOIN documents o ON o.public_id = d.public_id AND o.id <> d.id
    JOIN collections b ON b.id = o.collection_id
    WHERE d.id = :document AND {states.exists("o")} AND {states.build_is_in(states.FOLLOWERS, "b")}
    ORDER BY b.build FOR UPDATE OF o
""")

# Find the live documents of those among these that follow one, where either has accepted questions.
_SOURCES = text(f"""
    SELECT o.id AS follower, o.version AS follower_version, o.collection_id, o.tenant, d.id AS live, d.live_version
    FROM documents o JOIN collections b ON b.id = o.collection_id
    JOIN collections l ON l.tenant = b.tenant AND l.name = b.name
    JOIN documents d ON d.collection_id = l.id AND d.external_id = o.external_id
    WHERE o.id = ANY(CAST(:ids AS uuid[])) AND {states.exists("o")} AND {states.build_is_in(states.FOLLOWERS, "b")}
      AND {states.is_live("l")} AND {states.exists("d")} AND d.live_version IS NOT NULL
      AND EXISTS (SELECT 1 FROM accepted_questions a WHERE a.document_id IN (o.id, d.id))
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

# Take questions back.
_TAKE_BACK = text(f"""
    UPDATE accepted_questions SET {states.TAKE_BACK.sets()}
    WHERE id = ANY(CAST(:ids AS uuid[])) AND {states.TAKE_BACK.applies()}
""")


async def accept(connection: AsyncConnection, question: Mapping[str, Any]) -> bool:
    """Accept a question; return false where it is accepted already.

    Raises:
        Collided: it was taken back, and its points are being removed, which usually takes milliseconds.
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
    """Delete the questions of chunks that no version of these documents has any more; their points are gone."""
    await connection.execute(_DELETE_WITHOUT_CHUNK, {"ids": list(documents)})


async def lock_followers(connection: AsyncConnection, document: UUID) -> Sequence[UUID]:
    """Lock the rows that a locked document of the live build has in the others; return their ids."""
    return (await connection.execute(_LOCK_FOLLOWERS, {"document": document})).scalars().all()


async def mirror(connection: AsyncConnection, documents: Sequence[UUID]) -> None:
    """Make the accepted questions of locked documents those of the live build, where another build has them.

    A document whose chunks are not there yet gets them when it is finished.

    Raises:
        Collided: a question was taken back, and is being removed at this moment.
    """
    sources = (await connection.execute(_SOURCES, {"ids": list(documents)})).all()
    if not sources:
        return
    rows = [id_ for source in sources for id_ in (source.follower, source.live)]
    accepted = (await connection.execute(_ACCEPTED, {"ids": rows})).all()
    versions = [(s.follower, s.follower_version) for s in sources] + [(s.live, s.live_version) for s in sources]
    divisions = await divided(connection, versions)
    for source in sources:
        of_live = [question for question in accepted if question.document_id == source.live]
        of_follower = [question for question in accepted if question.document_id == source.follower]
        if source.live in divisions and source.follower in divisions:
            there = {question.id for question in of_follower}
            for question in _counterparts(source, of_live, divisions):
                if question["id"] not in there:
                    await accept(connection, question)
        known = {plain(question.question) for question in of_live}
        gone = [question.id for question in of_follower if plain(question.question) not in known]
        if gone:
            await connection.execute(_TAKE_BACK, {"ids": gone})


def _counterparts(
    source: Row[Any], of_live: Sequence[Row[Any]], divisions: Mapping[UUID, Divided]
) -> Iterator[dict[str, Any]]:
    """Yield the questions of a live document for the chunks of its follower that stand for its own."""
    for question in of_live:
        chunk = counterpart(question.chunk_id, divisions[source.live], divisions[source.follower])
        if chunk is not None:
            yield {
                "id": accepted_id(chunk, question.question),
                "tenant": source.tenant,
                "collection": source.collection_id,
                "document": source.follower,
                "chunk": chunk,
                "question": question.question,
                "query": question.query_id,
            }
