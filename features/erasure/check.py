"""The check of an erasure: leftovers in PostgreSQL, Qdrant, the broker, the upload store and at the provider.

It reads the engines directly, independently of the deletion's own records. Backups are not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from features.erasure.domain import Erasure
from features.erasure.ledger.erasures import Erasures
from features.erasure.ledger.leftover_rows import LeftoverRows
from shared.broker.tenant_keys import TenantKeys
from shared.domain.corpus.index_location import index_location_of
from shared.domain.errors import ForeaskError, InvalidInput, Unreadable
from shared.domain.stages.batches import batch_of_file
from shared.ledger.documents.documents import Documents
from shared.ledger.work.batches import Batches
from shared.services.features import erased_tables
from shared.services.parts import Parts
from shared.storage.uploads import Uploads
from shared.vectors.index import Index

_INPUT_FILES = "input files of ended batches"


@dataclass(frozen=True, slots=True)
class ErasureScope:
    """The scope of an erasure: a document, a collection of a tenant, or a tenant.

    Args:
        tenant: None for a document, whose tenant is looked up.
    """

    tenant: str | None = None
    collection: str | None = None
    document_id: UUID | None = None

    def __post_init__(self) -> None:
        if self.tenant is None and self.document_id is None:
            raise InvalidInput(
                "Name a tenant, a collection of a tenant, or a document: --tenant, --collection, --document."
            )


@dataclass(frozen=True, slots=True)
class Leftover:
    """Leftovers in one part of an engine: rows of a table, points, keys, objects, files.

    `unchecked` is the reason why the part was not checked; None if it was.
    """

    engine: str
    part: str
    count: int
    unchecked: str | None = None


class InputFiles(Protocol):
    """The files at the provider of the language model; `BatchProvider` is one."""

    async def input_files(self) -> list[tuple[str, str]]:
        """Return the ids and names of input files of batches.

        Raises:
            ForeaskError: the provider cannot be reached, or lists no files.
        """
        ...


@dataclass(frozen=True, slots=True)
class ErasureCheck:
    """The parts that are checked; `provider` returns the provider's files, or None without a language model."""

    erasures: Erasures
    rows: LeftoverRows
    documents: Documents
    index: Index
    tenant_keys: TenantKeys
    uploads: Uploads
    batches: Batches
    provider: Callable[[], InputFiles | None]

    async def run(self, scope: ErasureScope) -> list[Leftover]:
        """Check everything; return all checked parts, including parts without leftovers.

        Raises:
            Unavailable: an engine is unavailable.
            OSError: the folder of uploads cannot be read.
        """
        erasures = await self.erasures.in_scope(
            tenant=scope.tenant, collection=scope.collection, document_id=scope.document_id
        )
        tenant = scope.tenant or next((erasure.tenant for erasure in erasures), None)
        collections = {each for erasure in erasures for each in erasure.collection_ids}
        documents = {each for erasure in erasures for each in erasure.document_ids}
        if scope.document_id is not None:
            documents |= {scope.document_id, *await self.rows.document_ids(scope.document_id)}
        elif tenant is not None:
            collections |= set(await self.rows.collection_ids(tenant, scope.collection))
        whole_tenant = scope.collection is None and scope.document_id is None
        rows = await self.rows.rows(tenant, sorted(collections | documents), whole_tenant=whole_tenant)
        if scope.collection is not None and tenant is not None:
            for table, count in (await self.rows.under_name(tenant, scope.collection)).items():
                rows[table] += count
        findings = [Leftover("postgresql", table, count) for table, count in rows.items()]
        findings += await self._points(tenant or "", sorted(collections), sorted(documents), whole_tenant=whole_tenant)
        if whole_tenant and tenant is not None:
            findings.append(Leftover("valkey", "keys", len(await self.tenant_keys.find(tenant))))
        return [*findings, *await self._objects(), await self._provider_files()]

    async def of_erasure(self, erasure: Erasure) -> list[Leftover]:
        """Check the rows and points of an erasure of a collection or of documents.

        Stored objects and files are left out: they are not counted by tenant.

        Raises:
            Unavailable: an engine is unavailable.
        """
        collections = sorted(erasure.collection_ids)
        documents = sorted({*erasure.document_ids, *erasure.public_ids})
        rows = await self.rows.rows(erasure.tenant, [*collections, *documents], whole_tenant=False)
        findings = [Leftover("postgresql", table, count) for table, count in rows.items()]
        return findings + await self._points(erasure.tenant, collections, documents, whole_tenant=False)

    async def _points(
        self, tenant: str, collections: Sequence[UUID], documents: Sequence[UUID], *, whole_tenant: bool
    ) -> list[Leftover]:
        findings = []
        for name in await self.index.names():
            if whole_tenant:
                count = await self.index.count_named(name, "tenant", tenant)
            else:
                count = sum(
                    [await self.index.count_points(index_location_of(name, tenant, each)) for each in collections]
                )
                count += sum([await self.index.count_named(name, "document_id", str(each)) for each in documents])
            findings.append(Leftover("qdrant", name, count))
        return findings

    async def _objects(self) -> list[Leftover]:
        """Count objects that no version names, and packs with bytes that no version names, of any tenant."""
        unnamed = 0
        async for names in self.uploads.pages():
            unnamed += len(set(names) - await self.documents.stored_in_use(names))
        foreign = 0
        for parts in await self.rows.packs():
            try:
                foreign += await self.uploads.foreign_bytes(parts)
            except Unreadable:
                continue  # a deleted pack has no bytes
        return [
            Leftover("uploads", "objects that no version names", unnamed),
            Leftover("uploads", "packs with foreign bytes", foreign),
        ]

    async def _provider_files(self) -> Leftover:
        """Count input files of batches that are not open, of any tenant: they contain texts of chunks."""
        provider = self.provider()
        if provider is None:
            return Leftover("provider", _INPUT_FILES, 0, unchecked="no language model is configured")
        try:
            files = await provider.input_files()
        except ForeaskError as error:
            return Leftover("provider", _INPUT_FILES, 0, unchecked=error.message)
        ids = [batch for _, name in files if (batch := batch_of_file(name)) is not None]
        open_batches = await self.batches.open_among(set(ids))
        left = sum(batch not in open_batches for batch in ids)
        return Leftover("provider", _INPUT_FILES, left)


def erasure_check_of(parts: Parts) -> ErasureCheck:
    return ErasureCheck(
        erasures=parts.ledger[Erasures],
        rows=LeftoverRows(parts.database, erased_tables(parts.features)),
        documents=parts.ledger[Documents],
        index=parts.index,
        tenant_keys=parts.tenant_keys,
        uploads=parts.uploads,
        batches=parts.ledger[Batches],
        provider=lambda: parts.batch_api if parts.settings.llm_model else None,
    )
