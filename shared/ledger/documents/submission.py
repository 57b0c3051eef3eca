"""Submission: insert documents, or start their next versions, in every build of their collection."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import orjson

from shared.domain.access.persons import named_readers, stored_readers
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.documents import Document, NewDocument, Progress
from shared.ledger.documents import build_sync, descriptions, shown_documents, versions
from shared.ledger.documents.open_jobs import hold_load
from shared.ledger.documents.shown_documents import document_of, progress_of
from shared.ledger.model import states
from shared.ledger.model.collections import being_erased, collection_of
from shared.ledger.model.lanes import lane_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, TransactionConflict, again_after_collision

SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    shown=shown_documents.COLUMNS,
    content=versions.CONTENT,
    next_version=versions.NEXT,
    due_again=versions.DUE_AGAIN,
    is_reference="starts_with(v.upload, 'ref:')",
)


@dataclass(frozen=True, slots=True)
class Submission:
    """The result of a submission.

    `accepted` is False if the newest version already has this content: its bytes are not needed again.
    `described` is the row whose points do not have its new readers yet; None if it has no new ones.
    """

    document: Document
    accepted: bool
    described: UUID | None = None


async def submit(database: Database, documents: Sequence[NewDocument]) -> list[Submission]:
    """Insert documents of one collection, or start their next versions; see `Documents.submit_many`."""
    # A single new document needs one statement; a batch (see `Uploads.store_pack`) and a load need a transaction.
    if len(documents) == 1 and documents[0].job_id is None and (alone := await _insert_alone(database, documents[0])):
        return [alone]
    while True:
        try:
            return await _submit(database, documents)
        except _BuildReplaced as error:
            documents = [dataclasses.replace(new, collection=error.live) for new in documents]


@again_after_collision
async def _submit(database: Database, documents: Sequence[NewDocument]) -> list[Submission]:
    collection = documents[0].collection
    job_id, number = documents[0].job_id, 0
    async with database.begin() as connection:
        if job_id is not None:
            number = await hold_load(connection, collection, job_id)
        return await submit_within(connection, documents, number)


async def submit_within(connection: Connection, documents: Sequence[NewDocument], job_number: int) -> list[Submission]:
    """Insert documents of one collection, or start their next versions, in the transaction of the caller.

    Args:
        connection: transaction.
        documents: documents of the build that the caller believes to be live.
        job_number: number of their job within the tenant; 0 without a job.

    Raises:
        Conflict: the collection is being erased.
    """
    collection = documents[0].collection
    written, changes = await _write(connection, documents, job_number)
    builds = await build_sync.builds_of(connection, collection.tenant, collection.name)
    if not builds:
        raise being_erased(f"the collection '{collection.name}'")
    live, *others = builds
    if live["id"] != collection.id:
        raise _BuildReplaced(collection_of(live))
    accepted = sorted({row["id"] for row, is_new in written if is_new})
    for change in changes:
        await change.apply(connection, change.documents)
    for build in others if accepted else ():
        await build_sync.follow(connection, build["id"], accepted)
    for build in others:
        for change in changes:
            await change.apply(connection, await build_sync.lock_copies(connection, build["id"], change.documents))
    progress = await progress_of(connection, [row["id"] for row, is_new in written if not is_new])
    readers = {document: change.readers for change in changes for document in change.documents}
    return [_submission(row, collection.name, progress, readers, is_new=is_new) for row, is_new in written]


def _submission(
    row: Row, collection: str, progress: Mapping[UUID, Progress], readers: Mapping[UUID, Sequence[str]], *, is_new: bool
) -> Submission:
    document, changed = document_of(row, collection, progress.get(row["id"])), readers.get(row["id"])
    if changed is None:
        return Submission(document, accepted=is_new)
    document = dataclasses.replace(document, readable_by=named_readers(changed))
    return Submission(document, accepted=is_new, described=row["id"])


async def replace_references(connection: Connection, unchanged: Sequence[NewDocument]) -> None:
    """Point unchanged documents of a collection, whose bytes are references, to the bytes of a newer submission.

    Their source may have been removed and added again, or have other versions of the same bytes.
    """
    if not unchanged:
        return
    collection = unchanged[0].collection
    rows = [
        {"external_id": new.external_id, "upload": new.upload, "content_hash": f"\\x{new.content_hash.hex()}"}
        for new in unchanged
    ]
    parameters = {"tenant": collection.tenant, "name": collection.name, "rows": orjson.dumps(rows).decode()}
    await connection.execute(SQL.replace_references, parameters)


async def _insert_alone(database: Database, new: NewDocument) -> Submission | None:
    """Insert a new document by one statement; return None if it is not new, or if other builds follow its build."""
    inserted = await database.rows(SQL.insert_alone, _new_rows([uuid4()], [new]))
    return Submission(document_of(inserted[0], new.collection.name), accepted=True) if inserted else None


@dataclass(frozen=True, slots=True)
class _ReadersChange:
    """Documents of one build that were submitted with other readers than before.

    The live version of a document with a new one stays until that is complete: meanwhile only readers of both see it.
    `are_replaced`: whether the submission started a new version, which already has these readers.
    """

    readers: tuple[str, ...]
    documents: Sequence[UUID]
    are_replaced: bool

    async def apply(self, connection: Connection, rows: Sequence[UUID]) -> None:
        """Change the readers of these locked rows of the documents."""
        await descriptions.restrict(connection, rows, self.readers, newest=not self.are_replaced)


class _BuildReplaced(Exception):
    """Another build has replaced the build that was written to."""

    def __init__(self, live: Collection) -> None:
        super().__init__()
        self.live = live


async def _write(
    connection: Connection, documents: Sequence[NewDocument], job_number: int = 0
) -> tuple[list[tuple[Row, bool]], list[_ReadersChange]]:
    """Write documents of one collection and one job.

    Every submission except a single new document inserts its rows here. A writer first inserts and then locks, both in
    the order of external ids, so that two writers of the same documents cannot deadlock.

    Returns:
        Each row, and whether its content is new; and changes of readers, which the caller applies to all builds.
    """
    collection, ids = documents[0].collection, [uuid4() for _ in documents]
    found = await connection.execute(SQL.insert, _new_rows(ids, documents, job_number))
    inserted = {row["id"]: row for row in found}
    names = {new.external_id for document_id, new in zip(ids, documents, strict=True) if document_id not in inserted}
    rows = await _lock(connection, collection, names) if names else {}
    written, replaced = list[tuple[Row, bool]](), list[UUID]()
    readers = dict[UUID, tuple[str, ...]]()
    for document_id, new in zip(ids, documents, strict=True):
        row = inserted.get(document_id)
        accepted = row is not None
        if row is None:
            row = rows[new.external_id]
            accepted = row["content_hash"] != new.content_hash
            before = tuple(row["readable_by"])
            if new.readable_by not in {None, before}:
                readers[row["id"]] = stored_readers(new.readable_by)
            if accepted:
                kept = dataclasses.replace(new, readable_by=before if new.readable_by is None else new.readable_by)
                parameters = {"rows": _rows([row["id"]], [kept], job_number)}
                row = rows[new.external_id] = (await connection.execute(SQL.replace, parameters)).one()
                replaced.append(row["id"])
        written.append((row, accepted))
    if replaced:
        await versions.supersede(connection, replaced)
    return written, _grouped(readers, set(replaced))


def _grouped(readers: Mapping[UUID, tuple[str, ...]], replaced: AbstractSet[UUID]) -> list[_ReadersChange]:
    groups = dict[tuple[tuple[str, ...], bool], list[UUID]]()
    for document, names in readers.items():
        groups.setdefault((names, document in replaced), []).append(document)
    return [_ReadersChange(names, sorted(ids), are_replaced) for (names, are_replaced), ids in groups.items()]


async def _lock(connection: Connection, collection: Collection, external_ids: set[str]) -> dict[str, Row]:
    """Lock documents, and return the row of each by its external id.

    Raises:
        TransactionConflict: one of them was deleted meanwhile.
    """
    parameters = {"collection_id": collection.id, "external_ids": list(external_ids)}
    ids = (await connection.execute(SQL.lock_same_names, parameters)).scalars()
    if len(ids) < len(external_ids):
        raise TransactionConflict("a document was deleted meanwhile", component="ledger")
    found = await connection.execute(SQL.get_locked, {"ids": ids})
    return {row["external_id"]: row for row in found}


def _new_rows(ids: Sequence[UUID], documents: Sequence[NewDocument], job_number: int = 0) -> dict[str, Any]:
    collection = documents[0].collection
    return {"tenant": collection.tenant, "collection_id": collection.id, "rows": _rows(ids, documents, job_number)}


def _rows(ids: Sequence[UUID], documents: Sequence[NewDocument], job_number: int) -> str:
    rows = [
        {
            "id": str(document_id),  # the driver has its own UUID class, which orjson cannot encode
            "position": index,  # if two have the same external id, the first one is inserted
            "external_id": new.external_id,
            "lane": lane_of(new.lane, job_number),
            "job_id": None if new.job_id is None else str(new.job_id),
            "filename": new.filename,
            "title": new.title,
            "media_type": new.media_type,
            "metadata": dict(new.metadata),
            "readable_by": stored_readers(new.readable_by),
            "ready_questions": new.ready_questions,
            "upload": new.upload,
            "size_bytes": new.size_bytes,
            "content_hash": f"\\x{new.content_hash.hex()}",
            "traceparent": new.traceparent,
        }
        for index, (document_id, new) in enumerate(zip(ids, documents, strict=True))
    ]
    return orjson.dumps(rows).decode()  # 20,000 questions take 10 ms
