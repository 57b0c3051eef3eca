"""Commands that erase data and verify the erasure. They need the ledger, the engines and the store, but no server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from features.erasure.check import ErasureScope, Leftover
    from features.erasure.domain import ErasedDocument, Erasure

REMAINS = 1  # exit code
_WITHIN_QUERIES = ("queries_in_gaps", "feedback")  # numbers of logged queries, which are counted as such
_LABELS = {
    "versions": "versions",
    "chunks": "chunks",
    "questions": "questions",
    "accepted_questions": "accepted questions",
    "resolutions": "resolutions of gaps",
    "shared_answers": "shared answers",
    "conversations": "conversations",
    "queries": "logged queries",
    "queries_in_gaps": "of them in gaps",
    "feedback": "of them with feedback",
    "external_id": "external id",
}

erase_app = typer.Typer(help="Erase data with everything derived from it; needs the ledger, but no server.")

Tenant = Annotated[str, typer.Option("--tenant", help="Tenant of the collection.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def register(app: typer.Typer) -> None:
    app.add_typer(erase_app, name="erase")


@erase_app.callback(invoke_without_command=True)
def check(
    context: typer.Context,
    *,
    check: Annotated[bool, typer.Option("--check", help="Print remaining data, and delete nothing.")] = False,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Name of the tenant.")] = None,
    collection: Annotated[str | None, typer.Option("--collection", help="A collection of the tenant.")] = None,
    document: Annotated[UUID | None, typer.Option("--document", help="Id of a document.")] = None,
) -> None:
    """Erase a tenant, a collection or a document with everything derived from it, or print remaining data.

    `--check` searches PostgreSQL, Qdrant, Valkey, the store of uploads and the provider's input files, but no
    backups. It prints the reason if the provider cannot be searched. Its exit code is 1 if data remains.
    """
    if context.invoked_subcommand is not None:
        return
    if not check:
        raise typer.BadParameter("Add tenant, collection or document to erase one, or --check.")
    import asyncio

    from features.erasure.check import ErasureScope

    findings = asyncio.run(_checked(ErasureScope(tenant, collection, document)))
    for finding in findings:
        unchecked = "" if finding.unchecked is None else f"not checked: {finding.unchecked}"
        print(f"{finding.engine:12}{finding.part:40}{unchecked or format(finding.count, ',')!s:>10}")
    left = sum(finding.count for finding in findings)
    print(
        f"{left:,} found. Backups were not checked, nor names of documents in the entries of sources, which are kept."
    )
    if left:
        raise typer.Exit(REMAINS)


@erase_app.command("tenant")
def erase_tenant(name: Annotated[str, typer.Argument(help="Name of the tenant.")], *, yes: Yes = False) -> None:
    """Erase all data of a tenant, including its usage. Until then its uploads are rejected."""
    _confirm(f"Erase all data of {name}?", yes=yes)
    _start(tenant=name)


@erase_app.command("collection")
def erase_collection(
    name: Annotated[str, typer.Argument(help="Name of the collection.")],
    *,
    tenant: Tenant = "default",
    yes: Yes = False,
) -> None:
    """Erase a collection. Until then uploads to it are rejected."""
    _confirm(f"Erase the collection {name} of {tenant}?", yes=yes)
    _start(tenant=tenant, collection=name)


@erase_app.command("document")
def erase_document(
    document_id: Annotated[UUID, typer.Argument(help="Id of the document.")], *, yes: Yes = False
) -> None:
    """Erase a document. The same content can be uploaded again at once, and is then paid for again."""
    _confirm(f"Erase the document {document_id}?", yes=yes)
    _start(document=document_id)


@erase_app.command("person")
def erase_person(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts that name the person: a name, an address, a number.")
    ] = None,
    *,
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant whose data is searched.")] = "default",
    collection: Annotated[
        str | None, typer.Option("--collection", help="Search the documents of this collection only.")
    ] = None,
    documents: Annotated[
        list[UUID] | None, typer.Option("--document", help="Erase this document, too; may be repeated.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Erase the documents and the questions, answers and conversations in which a person is named.

    All of them are listed before the confirmation. Use the page or the API to erase only some of the documents.
    """
    import asyncio

    if not texts and not documents:
        raise typer.BadParameter("Add texts that name the person, or --document.")
    found, records = asyncio.run(_found(tenant, texts or [], collection, documents or []))
    _print_preview(found, records)
    if not found and not any(records.values()):
        return
    _confirm(f"Erase {len(found):,} documents and {_sum_of(records):,} records?", yes=yes)
    erasure = asyncio.run(_started_person(tenant, [document.id for document in found], texts or []))
    print(f"erasure {erasure.id}: the documents are invisible; the scheduler deletes everything in some minutes")


def _print_preview(found: Sequence[ErasedDocument], records: Mapping[str, int]) -> None:
    for document in found:
        numbers = ", ".join(f"{count:,} {_LABELS[kind]}" for kind, count in document.deletes.items() if count)
        title = f" ({document.title})" if document.title else ""
        print(f"{document.id}  {document.collection}: {document.external_id}{title}")
        print(f"    deletes {numbers}")
        for part, excerpt in document.matches.items():
            print(f"    {_LABELS.get(part, part)}: {' '.join(excerpt.split())}")
    for kind, count in records.items():
        if count:
            print(f"{count:,} {_LABELS[kind]}")
    print(
        f"{len(found):,} documents and {_sum_of(records):,} records. Backups, labelled sets, browsers and the"
        " provider's logs are not searched."
    )


def _sum_of(records: Mapping[str, int]) -> int:
    return sum(count for kind, count in records.items() if kind not in _WITHIN_QUERIES)


def _confirm(question: str, *, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True)


def _start(*, tenant: str = "", collection: str | None = None, document: UUID | None = None) -> None:
    import asyncio

    erasure = asyncio.run(_started(tenant, collection, document))
    count = erasure.deleted.get("documents", 0)
    print(f"erasure {erasure.id}: {count:,} documents are being deleted by the scheduler, in a minute at the earliest")


async def _started(tenant: str, collection: str | None, document: UUID | None) -> Erasure:
    from contextlib import AsyncExitStack

    from features.erasure.ledger.erasures import Erasures
    from shared.domain.access.actors import COMMAND_LINE
    from shared.ledger.postgres import actors
    from shared.services.parts import Parts
    from shared.settings import load

    async with AsyncExitStack() as stack:
        erasures: Erasures = Parts(load(), stack).ledger[Erasures]
        with actors.recorded(COMMAND_LINE):
            return await (erasures.start(tenant, collection) if document is None else erasures.start_document(document))


async def _found(
    tenant: str, texts: Sequence[str], collection: str | None, documents: Sequence[UUID]
) -> tuple[list[ErasedDocument], Mapping[str, int]]:
    """Search all pages."""
    from collections import Counter
    from contextlib import AsyncExitStack

    from features.all import FEATURES
    from features.erasure.ledger.previews import Previews
    from features.erasure.texts import require_texts
    from shared.ledger.model.collections import Collections
    from shared.services.features import erased_tables
    from shared.services.parts import Parts
    from shared.settings import load

    require_texts(texts)
    records: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        parts = Parts(load(), stack, features=FEATURES)
        await parts.ledger[Collections].require(tenant, collection)
        previews = Previews(parts.database, erased_tables(parts.features))
        found = {document.id: document for document in await previews.named(tenant, documents)}
        position, more = None, bool(texts)
        while more:
            page = await previews.page(tenant, texts, collection, position)
            found |= {document.id: document for document in page.documents}
            records.update(page.records)
            position, more = page.following, page.following is not None
    return list(found.values()), records


async def _started_person(tenant: str, documents: Sequence[UUID], texts: Sequence[str]) -> Erasure:
    from contextlib import AsyncExitStack

    from features.erasure.ledger.erasures import Erasures
    from shared.domain.access.actors import COMMAND_LINE
    from shared.ledger.postgres import actors
    from shared.services.parts import Parts
    from shared.settings import load

    async with AsyncExitStack() as stack:
        erasures: Erasures = Parts(load(), stack).ledger[Erasures]
        with actors.recorded(COMMAND_LINE):
            return await erasures.start_documents(tenant, documents, texts)


async def _checked(scope: ErasureScope) -> Sequence[Leftover]:
    from contextlib import AsyncExitStack

    from features.all import FEATURES
    from features.erasure.check import erasure_check_of
    from shared.services.parts import Parts
    from shared.settings import load

    async with AsyncExitStack() as stack:
        return await erasure_check_of(Parts(load(), stack, features=FEATURES)).run(scope)
