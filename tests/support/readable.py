"""Documents with readers, persons, and a model of their rights: for tests that no reply reveals hidden documents.

Each version of a document has a secret in each of its fields: a random word that occurs nowhere else. A reply to a
person may contain only secrets of versions that the person reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from urllib.parse import quote
from uuid import UUID

import httpx

from shared.domain.access.persons import stored_readers
from shared.domain.corpus.collections import CollectionOptions
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.statements import Statement
from shared.services.all import AllServices
from tests.support.api import KEYS, calling, with_keys, work

GROUPS = (
    "legal",
    "hr",
    "board",
    "sales",
    "everyone",  # a group with the name of a reader
    "unset",
    "user:p1",
    "Zoë & Söhne",
    "a,b",
    "group:hr",
    "LEGAL",
    "100%",
)
QUESTION = "When does the harbour open?"
COLLECTIONS = ("default", "handbook")
_LETTERS = "bcdfghjkmnpqrstvwxz"
_FIELDS = ("text", "title", "filename", "external_id", "metadata", "question", "picture")
Readers = tuple[str, ...] | None  # None: the document names none

_OF_LIVE = "JOIN collections l ON l.id = d.collection_id AND l.build_state = 'live' WHERE d.public_id = :id"
_CHUNKS = Statement(
    "SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version"
    f" {_OF_LIVE} ORDER BY c.ordinal"
)
_VERSIONS = Statement(
    "SELECT v.version FROM document_versions v JOIN documents d ON d.id = v.document_id AND NOT v.obsolete"
    f" {_OF_LIVE} ORDER BY v.version"
)
_PICTURES = (
    Statement("INSERT INTO page_texts (key, tenant, text, words, confidence) VALUES (:key, :tenant, '', 0, 90)"),
    Statement("INSERT INTO page_pictures (key, picture) VALUES (:key, :picture)"),
    Statement(
        "INSERT INTO pages (id, document_id, version, number, tenant, lane, key, languages, state)"
        " SELECT gen_random_uuid(), d.id, CAST(:version AS int), 1, d.tenant, 0, CAST(:key AS bytea), 'eng', 'read'"
        f" FROM documents d {_OF_LIVE}"
    ),
)


@dataclass(frozen=True)
class Someone:
    """A person."""

    user: str
    groups: frozenset[str]

    def reads(self, readers: Readers) -> bool:
        if readers is None or "everyone" in readers:
            return True
        return f"user:{self.user}" in readers or any(f"group:{group}" in readers for group in self.groups)

    @property
    def headers(self) -> dict[str, str]:
        groups = ",".join(quote(group, safe="") for group in sorted(self.groups))
        return {"x-foreask-user": quote(self.user, safe=""), "x-foreask-groups": groups}


@dataclass(frozen=True)
class Edition:
    """A version of a document: its secrets by field, and who reads it."""

    secrets: Mapping[str, str]
    readers: Readers

    def __post_init__(self) -> None:
        assert self.readers is None or list(self.readers) == sorted(self.readers)


@dataclass
class Stored:
    """A document.

    Args:
        live: the version that queries see.
        newest: the newest version; the live one unless an edit is being processed.
        indexed: the readers of the live version in Qdrant, which may be older.
        document_id: its public id.
        chunk_ids: the chunks of the live version.
    """

    name: str
    collection: str
    live: Edition
    newest: Edition
    indexed: Readers
    document_id: str = ""
    chunk_ids: list[str] = field(default_factory=list)

    def shown_to(self, person: Someone) -> list[Edition]:
        """Return the versions that a person may read."""
        return [edition for edition in (self.live, self.newest) if person.reads(edition.readers)]

    def is_found_by(self, person: Someone) -> bool:
        """Return whether queries of a person find it. No person gains a document before Qdrant is updated."""
        return person.reads(self.live.readers) and person.reads(self.indexed)

    def ids_hidden_from(self, person: Someone) -> list[str]:
        """Return the ids of the document and of its chunks that no reply to a person may contain."""
        document = [] if self.shown_to(person) else [self.document_id]
        return document if person.reads(self.live.readers) else [*document, *self.chunk_ids]

    def is_listed_for(self, person: Someone) -> bool:
        return person.reads(self.newest.readers)


@dataclass(frozen=True)
class Plan:
    """A document to store.

    Args:
        readers: its readers at first.
        edited_by: readers of its second version; empty without one. Queries see it if `is_finished`.
        is_finished: whether its second version was processed.
        changed_to: readers that only the ledger has: the API was killed before it updated Qdrant. Empty: none.
        is_patched: whether its readers were changed by a request, which also updated Qdrant.
    """

    name: str
    collection: str
    readers: Readers
    edited_by: tuple[Readers, ...] = ()
    is_finished: bool = True
    changed_to: tuple[Readers, ...] = ()
    is_patched: bool = False


def persons(random: Random, number: int = 20) -> list[Someone]:
    return [
        Someone(
            f"p{n}" if n % 5 else f"Ünal {n}, {n} %@example.org", frozenset(random.sample(GROUPS, random.randint(0, 4)))
        )
        for n in range(number)
    ]


def plans(random: Random, people: Sequence[Someone], number: int = 40) -> list[Plan]:
    """Draw documents with random readers and histories."""
    draw = partial(_readers, random, people)
    planned = []
    for n in range(number):
        more = [{}, {}, {}, {"edited_by": (draw(),)}, {"edited_by": (draw(),), "is_finished": False}]
        more += [{"changed_to": (draw(),)}, {"changed_to": (draw(),), "is_patched": True}]
        collection = COLLECTIONS[n % 4 == 3]
        planned.append(Plan(f"d{n}", collection, draw(), **more[n % len(more)]))  # type: ignore[arg-type]
    return planned


def _readers(random: Random, people: Sequence[Someone]) -> Readers:
    users = [f"user:{person.user}" for person in random.sample(people, 3)]
    groups = [f"group:{group}" for group in random.sample(GROUPS, 3)]
    kinds: list[Readers] = [
        None,
        ("everyone",),
        (),
        (users[0],),
        (groups[0],),
        tuple(sorted(groups)),
        tuple(sorted([*users, groups[0]])),
        tuple(sorted(users)),
    ]
    return random.choice(kinds)


def _both(old: Readers, new: Readers) -> Readers:
    """Return the readers of both; only those read the old version during an edit."""
    if old is None or "everyone" in old:
        return new
    if new is None or "everyone" in new:
        return old
    return tuple(sorted(set(old) & set(new)))


@dataclass
class World:
    """Stored documents, by name, and the persons."""

    documents: dict[str, Stored]
    people: list[Someone]

    def hidden_words(self, person: Someone) -> Iterator[tuple[str, str]]:
        """Yield the secrets that no reply to a person may contain, each with its document and field."""
        for stored in self.documents.values():
            shown = {word for edition in stored.shown_to(person) for word in edition.secrets.values()}
            for edition in (stored.live, stored.newest):
                for name, word in edition.secrets.items():
                    if word not in shown:
                        yield f"{stored.name}.{name}", word


def secret_of(name: str, field_name: str, edition: int) -> str:
    return "".join(Random(f"{name} {field_name} {edition}").choices(_LETTERS, k=12))


def _secrets(name: str, edition: int) -> dict[str, str]:
    return {
        each: secret_of(name, each, 0 if each == "external_id" else edition)  # all versions have one external id
        for each in _FIELDS
    }


def body_of(plan: Plan, edition: int) -> dict[str, object]:
    words = _secrets(plan.name, edition)
    readers = plan.readers if edition == 1 else plan.edited_by[0]
    body: dict[str, object] = {
        "text": f"# Hours\n\nThe harbour {words['text']} opens at seven.\n\n# Keys\n\nAda has the key {words['text']}.",
        "title": f"Hours {words['title']}",
        "filename": f"{words['filename']}.md",
        "external_id": words["external_id"],
        "metadata": {"place": words["metadata"], words["metadata"]: 1},
        "questions": [f"When does the harbour {words['question']} open?"],
        "collection": plan.collection,
    }
    return body if readers is None else body | {"readable_by": list(readers)}


async def fill(services: AllServices, planned: tuple[Plan, ...], tenant: str = "alice") -> dict[str, Stored]:
    """Store the documents of a tenant and process them, up to the edits and changes that are not complete."""
    settings = with_keys(services.settings)
    headers = {"authorization": f"Bearer {KEYS[tenant]}"}
    found = {}
    async with calling(settings, services) as client:
        for plan in planned:
            reply = await client.post("/v1/documents", json=body_of(plan, 1), headers=headers)
            document_id = reply.raise_for_status().json()["id"]
            only = Edition(_secrets(plan.name, 1), plan.readers)
            found[plan.name] = Stored(plan.name, plan.collection, only, only, plan.readers, document_id)
        await work(services)
        await _fill_build(services, tenant)
        for finished in (True, False):
            edited = [plan for plan in planned if plan.edited_by and plan.is_finished == finished]
            for plan in edited:
                await _edit(client, plan, found[plan.name], headers)
            if finished:
                await work(services)
        for plan in planned:
            if plan.changed_to:
                await _change(client, services, plan, found[plan.name], tenant)
    for stored in found.values():
        stored.chunk_ids = await _chunks(services, stored)
        await _add_pictures(services, stored, tenant)
    return found


async def _fill_build(services: AllServices, tenant: str) -> None:
    """Fill a second build of a collection, which does not replace the live one."""
    model = services.settings.embedding_model
    builds = services.ledger[Builds]
    await builds.start(tenant, COLLECTIONS[0], options=CollectionOptions(), embedding_model=model)
    while await builds.fill():
        pass
    await work(services)


async def _edit(client: httpx.AsyncClient, plan: Plan, stored: Stored, headers: Mapping[str, str]) -> None:
    (await client.post("/v1/documents", json=body_of(plan, 2), headers=headers)).raise_for_status()
    # An upload that names no readers keeps them.
    readers = stored.live.readers if plan.edited_by[0] is None else plan.edited_by[0]
    stored.newest = Edition(_secrets(plan.name, 2), readers)
    narrowed = Edition(stored.live.secrets, _both(stored.live.readers, readers))
    stored.live = stored.newest if plan.is_finished else narrowed
    stored.indexed = stored.live.readers


async def _change(client: httpx.AsyncClient, services: AllServices, plan: Plan, stored: Stored, tenant: str) -> None:
    readers = plan.changed_to[0]
    if plan.is_patched:
        body = {"readable_by": None if readers is None else list(readers)}
        headers = {"authorization": f"Bearer {KEYS[tenant]}"}
        reply = await client.patch(f"/v1/documents/{stored.document_id}", json=body, headers=headers)
        reply.raise_for_status()
    else:
        await change_in_ledger(services, stored.document_id, readers, tenant)
    stored.live = stored.newest = Edition(stored.live.secrets, readers)
    if plan.is_patched:
        stored.indexed = readers


async def change_in_ledger(services: AllServices, document_id: str, readers: Readers, tenant: str = "alice") -> None:
    """Change the readers of a document as the API does if it is killed before it updates Qdrant."""
    await services.ledger[Documents].describe(tenant, UUID(document_id), readable_by=stored_readers(readers))


async def _chunks(services: AllServices, stored: Stored) -> list[str]:
    async with services.database.begin() as connection:
        return [str(row.id) for row in await connection.execute(_CHUNKS, {"id": stored.document_id})]


async def _add_pictures(services: AllServices, stored: Stored, tenant: str) -> None:
    """Give each version the picture of a scanned page, as if the page had been read."""
    shown = [stored.live] if stored.live is stored.newest else [stored.live, stored.newest]
    async with services.database.begin() as connection:
        listed = await connection.execute(_VERSIONS, {"id": stored.document_id})
        for version, edition in zip(listed.scalars(), shown, strict=True):
            picture = edition.secrets["picture"].encode()
            key = picture_key(edition, tenant)
            values = {"key": key, "tenant": tenant, "picture": picture, "version": version, "id": stored.document_id}
            for statement in _PICTURES:
                await connection.execute(statement, values)


def picture_key(edition: Edition, tenant: str = "alice") -> bytes:
    """Return the key of a version's page, whose hexadecimal form is the tag of its picture."""
    return f"{tenant} {edition.secrets['picture']}".encode()
