"""Descriptions: changes of a document's title, metadata, readers and disabled questions without its content.

The change applies to the live and the newest version in each build, and a mark records that the points are outdated. A
process that claims the mark updates Qdrant and removes the mark. Only one process updates a document's points at a
time, because the slower of two might write outdated values. A worker that has claimed chunks of the document has read
the old description: its claims end, so that the next claim writes the new one. Points that it writes anyway are
replaced like the points of any late writer. Queries of persons also ask the ledger who reads a found document: until
Qdrant is updated, no person finds it by readers that it had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from shared.domain.corpus.documents import DescribedVersion, Description, Version
from shared.domain.corpus.ids import question_point_id
from shared.domain.corpus.questions import plain
from shared.ledger.model import states
from shared.ledger.model.collection_options import options_of
from shared.ledger.model.decoding import decoded
from shared.ledger.model.rows.encoding import as_json
from shared.ledger.model.rows.questions import QUESTIONS, disabled_of, disabled_of_chunk, passed_questions
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database

_AGAIN_AFTER = timedelta(seconds=10)
_CLAIM = timedelta(seconds=90)  # longer than any request to Qdrant takes

SQL = statements.load(__file__, states.FRAGMENTS, questions=QUESTIONS, disabled_of=disabled_of)


async def change(
    connection: Connection,
    documents: Sequence[UUID],
    *,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    readable_by: Sequence[str] | None = None,
) -> None:
    """Change the description of locked documents; None keeps the old value.

    Args:
        connection: transaction.
        documents: the documents' rows, in all builds.
        title: the new title.
        metadata: the new metadata.
        readable_by: the new readers, as they are stored.
    """
    parameters = {
        "ids": list(documents),
        "title": title,
        "metadata": None if metadata is None else as_json(metadata),
        "readable_by": None if readable_by is None else list(readable_by),
    }
    await connection.execute(SQL.describe, parameters)
    await mark(connection, documents)
    if title is not None:
        await connection.execute(SQL.end_parsing, parameters)
        await connection.execute(SQL.retitle_chunks, parameters)


async def restrict(
    connection: Connection, documents: Sequence[UUID], readers: Sequence[str], *, newest: bool = False
) -> None:
    """Remove all readers of locked documents who are not among these, and add none.

    Args:
        connection: transaction.
        documents: the documents' rows, in all builds.
        readers: readers, as they are stored.
        newest: whether all of these readers read the newest versions from now on.
    """
    parameters = {"ids": list(documents), "readable_by": list(readers)}
    await connection.execute(SQL.restrict, parameters)
    if newest:
        await connection.execute(SQL.open_newest, parameters)
    await mark(connection, documents)


async def mark(connection: Connection, documents: Sequence[UUID]) -> None:
    """Record that the points of documents are outdated, and end the claims of workers that write such points."""
    parameters = {"ids": list(documents)}
    await connection.execute(SQL.mark, parameters)
    await connection.execute(SQL.end_indexing, parameters)


class Descriptions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, limit: int, documents: Sequence[UUID] | None = None) -> list[Description]:
        """Claim documents with outdated points, from all documents or from these."""
        ids = None if documents is None else list(documents)
        parameters = {"limit": limit, "ids": ids, "claim": _CLAIM}
        async with self._database.begin() as connection:
            claimed = (await connection.execute(SQL.claim_due, parameters)).all()
            of_claimed = {"ids": [row["id"] for row in claimed if row["token"]]}
            chunks = (await connection.execute(SQL.chunks, of_claimed)).all() if of_claimed["ids"] else []
        disabled = _disabled_points(chunks)
        found: dict[UUID, Description] = {}
        for one in decoded("describe", partial(_of_one_version, disabled), claimed):
            before = found.get(one.document_id)
            found[one.document_id] = replace(one, versions=before.versions + one.versions) if before else one
        return list(found.values())

    async def are_due(self, documents: Sequence[UUID]) -> bool:
        """Return whether the points of one of these documents are outdated, or are being updated."""
        async with self._database.begin() as connection:
            return bool((await connection.execute(SQL.are_due, {"ids": list(documents)})).scalar_one())

    async def settle(self, done: Sequence[Description]) -> None:
        """Record that points are up to date; documents that changed again are due."""
        parameters = {"ids": [d.document_id for d in done], "changes": [d.changes for d in done]}
        async with self._database.begin() as connection:
            await connection.execute(SQL.settle, parameters)

    async def postpone(self, refused: Sequence[Description]) -> None:
        """Postpone documents."""
        parameters = {"ids": [d.document_id for d in refused], "after": _AGAIN_AFTER}
        async with self._database.begin() as connection:
            await connection.execute(SQL.postpone, parameters)


def _disabled_points(chunks: Sequence[Row]) -> Mapping[Version, list[str]]:
    """Return the ids of the points of disabled questions, by the documents' versions."""
    points: dict[Version, list[str]] = defaultdict(list)
    for row in chunks:
        if disabled := disabled_of_chunk(row):
            points[row["document_id"], row["version"]] += [
                question_point_id(row["id"], row["version"], ordinal)
                for ordinal, question in enumerate(passed_questions(row))
                if plain(question) in disabled
            ]
    return points


def _of_one_version(disabled: Mapping[Version, Sequence[str]], row: Row) -> Description:
    return Description(
        document_id=row["id"],
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        index_name=row["index_name"],
        changes=row["description_changes"],
        filterable=options_of(row["options"]).filterable,
        versions=(
            DescribedVersion(
                row["version"],
                row["title"],
                row["metadata"],
                tuple(row["readable_by"]),
                tuple(disabled.get((row["id"], row["version"]), ())),
            ),
        ),
        token=row["token"] or 0,
    )
