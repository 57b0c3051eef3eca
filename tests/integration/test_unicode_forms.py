"""Metadata and filters are equal if they look equal: both are stored and compared in one form of Unicode."""

import itertools
import json
from unicodedata import normalize

import pytest

from features.sources.source import Item
from features.sources.syncing.fetching import _fields
from shared.ledger.model.collections import Collections
from shared.settings import ApiKey
from tests.support.api import calling, work
from tests.support.planted import guards

WORDS = ("Zürich", "한국어", "Tiếng Việt")
FORMS = ("NFC", "NFD")
KEY = "default-0123456789abcdef0123456789"
QUESTION = {"question": "When does the harbour open?"}
TEXT = "# Harbour\n\nThe harbour opens at six."


def operators(name, value):
    """Return filters that a document with this field and value passes, one for each operator."""
    return {
        "equal": {name: value},
        "any": {name: {"any": ["-", value]}},
        "none": {"not": {name: {"none": [value]}}},
        "text": {name: {"text": value}},
        "exists": {name: {"exists": True}},
        "absent": {"not": {name: None}},
        "nested": {f"{name}s.{name}": value},
        "item": {f"{name}s.list": value},
        "every": {"all": [{name: value}, {"any": [{name: value}, {name: 1}]}]},
    }


CASES = [(word, form, name) for word in WORDS for form in FORMS for name in operators("a", "b")]


def metadata_of(word, form, number):
    """Return metadata of which both names and values have a form."""
    name, value = normalize(form, f"{word}-field"), normalize(form, word)
    return {name: value, f"{name}s": {name: value, "list": ["-", value]}, "form": number}


async def fill(services, *declared):
    """Upload a document for each word and form, to a collection that declares fields in the other form, or none."""
    async with calling(services.settings, services) as client:
        filterable = {normalize("NFD", f"{word}-field"): "keyword" for word in declared}
        await client.put("/v1/collections/default", json={"filterable": filterable})
        for (word, form), number in zip(itertools.product(WORDS, FORMS), itertools.count()):
            body = {
                "text": TEXT + f" {number}",
                "external_id": f"{number}",
                "metadata": metadata_of(word, form, number),
            }
            assert (await client.post("/v1/documents", json=body)).status_code == 202
    await work(services, "parse", "index")


@pytest.fixture(params=[(), WORDS], ids=["undeclared", "declared"])
async def client(services, settings, once, request):
    await once(fill, *request.param)
    async with calling(settings, services) as client:
        yield client


async def found(client, filter_):
    reply = (await client.post("/v1/retrieve", json=QUESTION | {"filter": filter_})).json()
    return {chunk["external_id"] for chunk in reply["chunks"]}, reply["metadata"]["notice"]


@guards(
    "shared/vectors/schema/filters.py",
    "    name, value = composed(name), _composed_texts(value)\n",
    "",
    means="a filter in the decomposed form does not match",
)
@guards(
    "shared/domain/corpus/document_fields.py",
    "stored: dict[str, Any] = composed(metadata)",
    "stored: dict[str, Any] = dict(metadata)",
    means="metadata in the decomposed form do not match",
)
@guards(
    "shared/domain/corpus/filterable.py",
    "name = composed(declared_name)",
    "name = declared_name",
    means="a field that is declared in the decomposed form has no index",
)
async def test_every_operator_matches_both_forms(client, services):
    (collection,) = await services.ledger[Collections].page("default")
    assert all(name == normalize("NFC", name) for name, _ in collection.options.filterable)
    wrong = {}

    for word, form, operator in CASES:
        number = 2 * WORDS.index(word)
        filter_ = operators(normalize(form, f"{word}-field"), normalize(form, word))[operator]
        result = await found(client, filter_)
        if result != ({str(number), str(number + 1)}, None):
            wrong[word, form, operator] = result

    assert not wrong


async def test_stored_metadata_are_composed_everywhere(client):
    shown = (await client.get("/v1/documents")).json()["items"]
    retrieved = (await client.post("/v1/retrieve", json=QUESTION)).json()["chunks"]

    for each in [*shown, *retrieved]:
        written = json.dumps(each["metadata"], ensure_ascii=False)
        assert written == normalize("NFC", written)


@pytest.fixture
async def empty_client(services, settings, provider):
    async with calling(settings, services) as client:
        yield client


async def upload(client, metadata):
    await client.post("/v1/documents", json={"text": TEXT, "metadata": metadata, "external_id": "a"})


async def form(client, metadata):
    files = {"file": ("a.md", TEXT.encode()), "metadata": (None, json.dumps(metadata))}
    await client.post("/v1/documents", files=files)


async def batch(client, metadata):
    line = json.dumps({"text": TEXT, "external_id": "a", "metadata": metadata})
    headers = {"content-type": "application/x-ndjson"}
    await client.post("/v1/documents:batch", content=line.encode() + b"\n", headers=headers)


async def change(client, metadata):
    reply = await client.post("/v1/documents", json={"text": TEXT, "external_id": "a"})
    changed = await client.patch(f"/v1/documents/{reply.json()['id']}", json={"metadata": metadata})
    assert changed.status_code == 200, changed.text


@pytest.mark.parametrize("door", [upload, form, batch, change], ids=lambda door: door.__name__)
async def test_every_door_stores_one_form(empty_client, door):
    await door(empty_client, metadata_of("Zürich", "NFD", 0))

    (document,) = (await empty_client.get("/v1/documents")).json()["items"]
    assert document["metadata"] == metadata_of("Zürich", "NFC", 0)


async def test_entry_of_source_has_one_form(library):
    item = Item(b"A text.", "1", metadata=metadata_of("한국어", "NFD", 0))

    assert _fields(item, await library.collection()).metadata == metadata_of("한국어", "NFC", 0)


async def test_same_document_in_other_form_is_unchanged(empty_client):
    first, second = [
        await empty_client.post(
            "/v1/documents", json={"text": TEXT, "external_id": "a", "metadata": metadata_of("Zürich", each, 0)}
        )
        for each in FORMS
    ]

    assert (first.status_code, second.status_code, second.json()["version"]) == (202, 200, 1)


async def test_field_in_two_forms_is_refused(empty_client):
    metadata = {normalize(each, "größe"): 1 for each in FORMS}

    reply = await empty_client.post("/v1/documents", json={"text": TEXT, "metadata": metadata})

    assert (reply.status_code, reply.json()["field"]) == (422, "metadata")
    assert "The field 'größe' occurs twice" in reply.json()["detail"]


async def test_filter_of_key_matches_both_forms(services, settings, once):
    await once(fill)
    key_filter = {normalize("NFD", "Zürich-field"): normalize("NFD", "Zürich")}
    manager = ApiKey.parse(f"default:{KEY}")
    async with calling(settings.model_copy(update={"api_keys": (manager,)}), services) as client:
        body = {"name": "public", "scopes": ["ask"], "filter": key_filter}
        made = await client.post("/v1/keys", json=body, headers={"authorization": f"Bearer {KEY}"})
        client.headers["authorization"] = f"Bearer {made.json()['key']}"

        assert await found(client, None) == ({"0", "1"}, None)


async def test_external_ids_stay_as_they_were_sent(empty_client):
    for each in FORMS:
        body = {"text": TEXT, "external_id": normalize(each, "Übersicht.md")}
        assert (await empty_client.post("/v1/documents", json=body)).status_code == 202

    listed = (await empty_client.get("/v1/documents")).json()["items"]
    assert {each["external_id"] for each in listed} == {normalize(form, "Übersicht.md") for form in FORMS}
