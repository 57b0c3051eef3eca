"""The preview of an erasure: the documents and records in which texts that name a person occur.

A search reads every text, because it must find all of them, so it is divided into pages that take a few seconds each.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from features.erasure.domain import ErasedDocument
from features.erasure.ledger.text_searches import counts_of, require_position
from features.erasure.texts import pattern_of
from shared.domain.errors import NotFound
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.database import Database

DOCUMENTS = "documents"  # the part of a search that precedes the tables of records
_SLICE = 25  # documents of one statement, which reads all their texts
_SECONDS = 2.0
_MOST_FOUND = 100  # documents of a page; one slice may exceed it
_FIRST_BUILD = UUID(int=0)
_EXCERPT = ".{0,60}(?:%s).{0,100}"

SQL = statements.load(__file__, states.FRAGMENTS)


@dataclass(frozen=True, slots=True)
class PreviewPosition:
    """The position of a search.

    Args:
        part: `documents`, or the name of a table of records.
        after: the last examined row of the part; of documents, the build and the external id. None: no row yet.
    """

    part: str
    after: str | tuple[UUID, str] | None = None

    def key(self) -> list[str]:
        """Return the key of a cursor."""
        if isinstance(self.after, tuple):
            return [self.part, *map(str, self.after)]
        return [self.part] if self.after is None else [self.part, self.after]


@dataclass(slots=True)
class PreviewPage:
    """A part of the results.

    Args:
        documents: found documents.
        examined: number of documents whose texts were read.
        records: numbers of records with the texts, by name.
        following: position of the next page; None on the last one.
    """

    documents: list[ErasedDocument] = field(default_factory=list)
    examined: int = 0
    records: Counter[str] = field(default_factory=Counter)
    following: PreviewPosition | None = None


class Previews:
    """Searches for documents and records.

    Args:
        database: the database.
        features: tables of features.
    """

    def __init__(self, database: Database, features: Sequence[ErasedTable]) -> None:
        self._database = database
        self._by_document = {table.name: table.by_document for table in features if table.by_document is not None}
        self._counts = counts_of(features)

    async def named(self, tenant: str, ids: Sequence[UUID]) -> list[ErasedDocument]:
        """Return documents with these public ids.

        Raises:
            NotFound: the tenant does not have one of them.
        """
        async with self._database.begin() as connection:
            found = await self._documents(connection, tenant, ids, {})
        if missing := set(ids) - {document.id for document in found}:
            raise NotFound(f"There is no document {min(missing)}. GET /v1/documents lists the documents.")
        return found

    async def page(
        self, tenant: str, texts: Sequence[str], collection: str | None = None, position: PreviewPosition | None = None
    ) -> PreviewPage:
        """Search for some seconds.

        Args:
            tenant: the tenant.
            texts: texts that name a person, at least one.
            collection: the collection whose documents are searched; None for all. Records are searched in all.
            position: position of the page; None for the first one.

        Raises:
            KeyError: the position names an unknown table.
        """
        parts = [DOCUMENTS, *self._counts]
        position = position or PreviewPosition(DOCUMENTS)
        page, pattern, until = PreviewPage(), pattern_of(texts), time.monotonic() + _SECONDS
        while position is not None:
            if position.part == DOCUMENTS:
                following = await self._examine(page, tenant, pattern, collection, position)
            else:
                following = await self._count(page, tenant, pattern, position)
            if following is not None:
                position = following
            elif position.part == parts[-1]:
                break
            else:
                position = PreviewPosition(parts[parts.index(position.part) + 1])
            if time.monotonic() >= until or len(page.documents) >= _MOST_FOUND:
                page.following = position
                break
        return page

    def read_position(self, key: list[str]) -> PreviewPosition:
        """Read the key of a cursor.

        Raises:
            ValueError: it is not the key of a position.
        """
        part, *after = key
        if part == DOCUMENTS and after:
            build, name = after
            if "\0" in name:
                raise ValueError(name)
            return PreviewPosition(part, (UUID(build), name))
        if part not in {DOCUMENTS, *self._counts} or len(after) > 1:
            raise ValueError(part)
        require_position(part, *after)
        return PreviewPosition(part, *after)

    async def _examine(
        self, page: PreviewPage, tenant: str, pattern: str, collection: str | None, position: PreviewPosition
    ) -> PreviewPosition | None:
        """Read the texts of the next documents; return the position of the last one, None if there are none."""
        build, name = position.after if isinstance(position.after, tuple) else (_FIRST_BUILD, "")
        parameters = {"tenant": tenant, "collection": collection, "build": build, "after": name, "limit": _SLICE}
        async with self._database.begin() as connection:
            rows = (await connection.execute(SQL.next_documents, parameters)).all()
            if not rows:
                return None
            ids = [row["public_id"] for row in rows]
            sought = {"tenant": tenant, "ids": ids, "pattern": pattern, "excerpt": _EXCERPT % pattern}
            parts: dict[UUID, dict[str, str]] = {}
            for row in await connection.execute(SQL.find_texts, sought):
                parts.setdefault(row["public_id"], {})[row["part"]] = row["excerpt"]
            page.documents += await self._documents(connection, tenant, list(parts), parts)
        page.examined += len(rows)
        return PreviewPosition(DOCUMENTS, (rows[-1]["collection_id"], rows[-1]["external_id"]))

    async def _count(
        self, page: PreviewPage, tenant: str, pattern: str, position: PreviewPosition
    ) -> PreviewPosition | None:
        assert not isinstance(position.after, tuple)
        async with self._database.begin() as connection:
            counted = await self._counts[position.part](connection, tenant, pattern, position.after)
        page.records.update(counted.rows)
        return None if counted.after is None else PreviewPosition(position.part, counted.after)

    async def _documents(
        self, connection: Connection, tenant: str, ids: Sequence[UUID], parts: Mapping[UUID, Mapping[str, str]]
    ) -> list[ErasedDocument]:
        if not ids:
            return []
        numbers: dict[UUID, dict[str, int]] = {each: dict.fromkeys(self._by_document, 0) for each in ids}
        for name, statement in self._by_document.items():
            for row in await connection.execute(statement, {"tenant": tenant, "public_ids": ids}):
                numbers[row["public_id"]][name] = row["rows"]
        found = []
        for row in await connection.execute(SQL.documents, {"tenant": tenant, "ids": ids}):
            values = dict(row)
            document_id = values.pop("public_id")
            own = {name: values.pop(name) for name in ("versions", "chunks", "questions", "accepted_questions")}
            matches = parts.get(document_id, {})
            found.append(ErasedDocument(**values, id=document_id, matches=matches, deletes=own | numbers[document_id]))
        return found
