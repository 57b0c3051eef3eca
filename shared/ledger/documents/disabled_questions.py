"""Changes of disabled questions: an editor excludes a question of a chunk from searches, and includes it again.

The change is recorded like a new description of the document (see `descriptions`): a process moves the points of the
question to a group that no search reads, and later claims write them there. They keep their vectors, so neither
direction costs a call. A text that is embedded with its questions is indexed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.disabled_questions import ChunkText
from shared.domain.corpus.questions import plain
from shared.domain.errors import NotFound
from shared.ledger.documents import descriptions, shown_chunks
from shared.ledger.documents.repeated_indexing import index_again
from shared.ledger.model import states
from shared.ledger.model.collection_options import options_of
from shared.ledger.model.rows.questions import QUESTIONS, disabled_of, disabled_questions, passed_questions
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision

SQL = statements.load(__file__, states.FRAGMENTS, questions=QUESTIONS, disabled_of=disabled_of)


class DisabledQuestions:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def change(
        self, tenant: str, chunk_id: UUID, question: str, *, disabled: bool, by: str | None
    ) -> Sequence[UUID]:
        """Disable or enable a passed question of a chunk, for its text in every version and build of the document.

        Args:
            tenant: owner of the document.
            chunk_id: a chunk of the live build.
            question: its generated or ready-made question; case, spacing and final punctuation are ignored.
            disabled: whether searches exclude it from now on.
            by: name of the key that changes it; None without keys.

        Returns:
            The rows of its document in all builds, whose points are outdated; none if nothing changed.

        Raises:
            NotFound: the tenant has no such chunk, or the chunk has no such question.
        """
        async with self._database.begin() as connection:
            found = await shown_chunks.find(connection, tenant, chunk_id)
            if found is None:
                raise shown_chunks.no_chunk(chunk_id)
            rows = (await connection.execute(SQL.lock, {"tenant": tenant, "id": found.document_id})).all()
            ids = [row.id for row in rows]
            chunks = (await connection.execute(SQL.chunks, {"ids": ids})).all()
            chosen = [row for row in chunks if row["id"] == chunk_id and _has(row, question)]
            if not chosen:
                raise NotFound("The chunk has no such generated or ready-made question.", field="question")
            if not await _change(connection, tenant, chosen, question, disabled=disabled, by=by):
                return []
            await descriptions.mark(connection, ids)
            await _embed_again(connection, rows, chunks, _text(chosen[-1]))
        return ids


async def _change(
    connection: Connection, tenant: str, chosen: Sequence[Row], question: str, *, disabled: bool, by: str | None
) -> bool:
    """Insert a record, or delete all records that apply to the chunk; return whether that is a change."""
    row = chosen[-1]
    records = [record for record in disabled_questions(row) if record.question == plain(question)]
    known = [record for record in records if any(record.of.is_in(_text(each)) for each in chosen)]
    if disabled == bool(known):
        return False
    parameters = {"document": row["public_id"], "question": plain(question)}
    if disabled:
        text = _text(row)
        record = {"tenant": tenant, "collection": row["collection"], "by": by}
        location = {"hash": text.text_hash, "upload": text.upload, "start": text.span[0], "end": text.span[1]}
        await connection.execute(SQL.disable, parameters | record | location)
    else:
        await connection.execute(SQL.enable, parameters | {"hashes": [each.of.text_hash for each in known]})
    return True


async def _embed_again(connection: Connection, builds: Sequence[Row], chunks: Sequence[Row], text: ChunkText) -> None:
    """Index the chunks again whose texts are embedded with their questions."""
    prepending = [row.id for row in builds if options_of(row.options).prepend_questions]
    same = {row["id"] for row in chunks if row["document_id"] in prepending and text.is_in(_text(row))}
    if same:
        await index_again(connection, prepending, sorted(same))


def _text(row: Row) -> ChunkText:
    return ChunkText.of(ChunkContent.from_json(row["content"]), row["upload"])


def _has(row: Row, question: str) -> bool:
    return plain(question) in map(plain, passed_questions(row))
