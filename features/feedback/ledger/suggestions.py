"""Suggested questions: generated questions of a collection that the documents answer.

The questions change once a day, so that a visitor can find one again. Documents are taken from all parts of the
collection by their times of creation, at most one question from each.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from uuid import UUID

from features.feedback.domain import Suggestion
from shared.domain.corpus.questions import plain
from shared.ledger.model import states
from shared.ledger.model.rows.questions import QUESTIONS, disabled_of, has_disabled, searchable_questions
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database

_PARTS = 8  # parts of the collection
_PER_PART = 6  # documents of each part, of which a day's choice is taken
_CHUNKS = 12  # chunks of a document, the first ones with questions
_SHORTEST, _LONGEST = 12, 140  # characters of a question that fits on a button
_ENDS = ("?", "\uff1f", "\u061f")

SQL = statements.load(
    __file__, states.FRAGMENTS, questions=QUESTIONS, disabled_of=disabled_of, has_disabled=has_disabled
)


class Suggestions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def for_day(
        self, collection_id: UUID, day: date, principals: Sequence[str] | None = None
    ) -> list[Suggestion]:
        """Return the suggestions of a build for a day, from different parts first, at most one for each document.

        The same day has the same suggestions as long as the documents stay the same. With principals, only the
        documents that these read count, so that the number of suggestions does not depend on others.
        """
        seed = f"{day.isoformat()} {collection_id}"
        of_build = {"collection": collection_id, "principals": None if principals is None else list(principals)}
        (span,) = await self._database.rows(SQL.span, of_build)
        if span["first"] is None:
            return []
        times = spread(span["first"], span["last"], seed)
        listed = await self._database.rows(SQL.documents, of_build | {"times": times, "limit": _PER_PART})
        documents = in_turns(listed, seed)
        parameters = {
            "ids": [row["id"] for row in documents],
            "versions": [row["live_version"] for row in documents],
            "limit": _CHUNKS,
        }
        chunks = defaultdict[UUID, list[Row]](list)
        for row in await self._database.rows(SQL.chunks, parameters):
            chunks[row["document_id"]].append(row)
        return _chosen(documents, chunks, seed)


def spread(first: datetime, last: datetime, seed: str) -> list[datetime]:
    """Return a time in each of the equal parts of a span, then its start, so that a small collection is complete."""
    times = [first + (last - first) * ((part + _share(f"{seed} {part}")) / _PARTS) for part in range(_PARTS)]
    return [*sorted(times, key=lambda time: _share(f"{seed} {time}")), first]


def in_turns(listed: Sequence[Row], seed: str) -> list[Row]:
    """Order documents so that each part contributes one before a part contributes its second; each document once.

    Args:
        listed: documents with the numbers of their parts, in order of the parts.
        seed: text that selects the documents of each part.
    """
    parts = defaultdict[int, list[Row]](list)
    for row in listed:
        parts[row["part"]].append(row)
    for rows in parts.values():
        rows.sort(key=lambda row: _share(f"{seed} {row['public_id']}"))
    ordered = [rows[turn] for turn in range(_PER_PART) for rows in parts.values() if turn < len(rows)]
    return list({row["id"]: row for row in ordered}.values())


def _chosen(documents: Sequence[Row], chunks: Mapping[UUID, Sequence[Row]], seed: str) -> list[Suggestion]:
    """Return a suggestion for each document that has a question which no document before it suggests."""
    found: dict[str, Suggestion] = {}
    for document in documents:
        suitable = [
            Suggestion(question, document["public_id"], chunk["chunk_id"])
            for chunk in chunks[document["id"]]
            for question in searchable_questions(chunk)
            if _SHORTEST <= len(question) <= _LONGEST and question.endswith(_ENDS) and plain(question) not in found
        ]
        if suitable:
            suggestion = min(suitable, key=lambda each: _share(f"{seed} {each.question}"))
            found[plain(suggestion.question)] = suggestion
    return list(found.values())


def _share(text: str) -> float:
    """Return a hash of the text as a number in [0, 1)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48
