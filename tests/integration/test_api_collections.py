"""Collections over HTTP."""

import pytest

from shared.domain.corpus.collections import CollectionOptions
from shared.domain.errors import Unavailable
from shared.http.schemas.collections import CollectionView
from shared.ingest.generate.prompts import (
    CONTEXT_PROMPT_VERSION,
    CONTEXT_SYSTEM,
    LIST_SYSTEM,
    LIST_TEMPLATE,
    PROMPT_VERSION,
)
from shared.ledger.builds.builds import Builds
from shared.ledger.model.collections import Collections
from tests.support.api import calling, ready, work
from tests.support.planted import guards


async def put(client, name, **options):
    reply = await client.put(f"/v1/collections/{name}", json=options)
    assert reply.status_code in {200, 201}, reply.text
    return reply.status_code, CollectionView.model_validate_json(reply.content)


async def test_put_creates_collection_then_replaces_its_options(client, services):
    status, made = await put(client, "a", questions_per_chunk=7, prompt="Ask about {text}", chunk_max_chars=900)
    assert (status, made.options.questions_per_chunk, made.documents, made.points) == (201, 7, {}, 0)

    status, changed = await put(client, "a", questions_per_chunk="auto", chunk_overlap_chars=0)

    assert status == 200
    assert changed.created_at == made.created_at
    stored = await services.ledger[Collections].get("default", "a")
    assert stored.options == CollectionOptions(questions_per_chunk="auto", chunk_overlap_chars=0)
    shown = CollectionView.model_validate_json((await client.get("/v1/collections/a")).content)
    assert shown == changed.model_copy(update={"points_age_seconds": shown.points_age_seconds})


async def test_options_in_force_are_own_or_settings(client, settings):
    await put(client, "a", questions_per_chunk=7, prompt="Ask about {text}", context=True)
    shown = (await client.get("/v1/collections/a")).json()

    own, defaults = shown["effective"], shown["defaults"]
    assert (own["questions_per_chunk"], own["prompt"]) == (7, "Ask about {text}")
    assert (own["prompt_version"], own["instructions"]) == (CONTEXT_PROMPT_VERSION, CONTEXT_SYSTEM)
    assert (defaults["questions_per_chunk"], defaults["prompt"]) == (settings.questions_per_chunk, LIST_TEMPLATE)
    assert (defaults["prompt_version"], defaults["instructions"]) == (PROMPT_VERSION, LIST_SYSTEM)
    assert own["chunk_max_chars"] == defaults["chunk_max_chars"] == settings.chunk_max_chars
    (listed,) = (await client.get("/v1/collections")).json()["items"]
    assert listed == shown | {"effective": None, "defaults": None, "points_age_seconds": listed["points_age_seconds"]}


@guards(
    "shared/ledger/builds/builds.sql",
    "live_until = NULL, description = :description WHERE",
    "live_until = NULL WHERE",
    means="a switch to another build removes the description of the collection",
)
async def test_description_stays_until_it_is_changed(client, services):
    await put(client, "a", description="Rules for staff")
    _, changed = await put(client, "a", questions_per_chunk=7)
    assert changed.description == "Rules for staff"
    await client.post("/v1/collections/a/builds", json={"questions_per_chunk": 5})
    while await services.ledger[Builds].fill():
        pass
    assert (await client.post("/v1/collections/a/builds/2/switch", json={"force": True})).status_code == 200

    shown = (await client.get("/v1/collections/a")).json()
    assert (shown["description"], shown["options"]["questions_per_chunk"]) == ("Rules for staff", 5)
    assert shown["builds"] == [{"build": 1, "state": "following"}, {"build": 2, "state": "live"}]
    _, changed = await put(client, "a", description="")
    assert changed.description is None


async def test_upload_keeps_existing_collection_options(client, services):
    await put(client, "a", questions_per_chunk=7)
    await client.post("/v1/documents", json={"text": "a", "collection": "a"})

    assert (await client.get("/v1/collections/a")).json()["options"]["questions_per_chunk"] == 7


async def test_rejected_request_creates_no_collection(client):
    for name, options, field in (
        ("a", {"questions_per_chunk": 21}, "questions_per_chunk"),
        ("a", {"prompt": "{colour}"}, "prompt"),
        ("a", {"chunk_max_chars": 300, "chunk_overlap_chars": 200}, "chunk_overlap_chars"),
        ("a", {"model": "x"}, "model"),
        ("A", {}, "name"),
        ("a%00", {}, "name"),
        ("a" * 64, {}, "name"),
    ):
        reply = await client.put(f"/v1/collections/{name}", json=options)

        assert (reply.status_code, reply.json()["field"]) == (422, field), (name, options)
        assert (await client.get("/v1/collections")).json()["items"] == [], (name, options)


async def test_collection_view_counts_documents_by_state_and_points(client, once):
    await once(ready, ("alpha beta gamma", "a"))
    await client.post("/v1/documents", json={"text": "more"})

    shown = (await client.get("/v1/collections/default")).json()

    document = (await client.get("/v1/documents", params={"state": "ready"})).json()["items"][0]
    assert shown["documents"] == {"ready": 1, "queued": 1}
    assert shown["points"] == document["questions"] + document["chunks"]["indexed"]
    assert shown["chunks"] == document["chunks"]["indexed"]


@pytest.mark.parametrize("change", ["another document", "an edit"])
async def test_point_count_includes_document_that_just_finished(client, services, once, change):
    await once(ready, ("alpha beta gamma", "a"))
    before = (await client.get("/v1/collections/default")).json()
    texts = "\n\n".join(f"# Part {number}\n\n{'A sentence of many words. ' * 100}" for number in range(3))
    name = "b" if change == "another document" else "a"

    await client.post("/v1/documents", json={"text": texts, "external_id": name, "questions": ["How many words?"]})
    await work(services, "parse", "index")

    shown = (await client.get("/v1/collections/default")).json()
    collection = await services.ledger[Collections].get("default", "default")
    assert shown["points"] == await services.index.count_points(collection.location) > before["points"]
    assert shown["points"] == await services.ledger[Collections].confirmed_points(collection.id)
    assert shown["points_age_seconds"] >= 0


async def test_point_count_is_never_below_confirmed_points(services, settings, once, monkeypatch):
    await once(ready, ("alpha beta gamma", "a"))
    monkeypatch.setattr("shared.vectors.sizes._REST_AFTER_CHANGE", 1e9)  # counts are not repeated
    async with calling(settings, services) as client:
        shown = (await client.get("/v1/collections/default")).json()

        assert shown["points"] > 1
        collection = await services.ledger[Collections].get("default", "default")
        assert shown["points"] == await services.index.count_points(collection.location)
        (document,) = (await client.get("/v1/documents")).json()["items"]
        await client.delete(f"/v1/documents/{document['id']}")
        assert await services.ledger[Collections].confirmed_points(collection.id) == 0


GERMAN = "Alle haben dreißig Tage Urlaub im Jahr und zahlen nichts dafür, auch im Jahr {}."
ENGLISH = "Everybody who works here has thirty days of leave in the year {}, and nobody has to pay for them."


@guards(
    "shared/http/language_notices.py",
    "if share >= _SHARE else None",
    "",
    means="A few foreign texts are a reason to change the embedding model.",
)
@guards(
    "shared/http/language_notices.py",
    'bool(set(collection.languages) - {"en"})',
    '"en" not in collection.languages',
    means="Foreign texts next to one English text are no reason to change the embedding model.",
)
async def test_english_only_model_warns_about_other_languages(client, services, monkeypatch):
    texts = {"german": [GERMAN] * 4 + [ENGLISH], "english": [ENGLISH] * 6 + [GERMAN]}
    for name, each in texts.items():
        for number, text in enumerate(each):
            body = {"text": text.format(2020 + number), "collection": name, "questions": []}
            await client.post("/v1/documents", json=body)
    await work(services, "parse", "index")
    before = {each: (await client.get(f"/v1/collections/{each}")).json() for each in texts}
    monkeypatch.setattr("shared.http.language_notices._ENGLISH_ONLY", ("scripted-",))
    after = {each: (await client.get(f"/v1/collections/{each}")).json() for each in texts}

    assert {each: view["languages"] for each, view in after.items()} == {each: ["de", "en"] for each in texts}
    assert [view["notice"] for view in (*before.values(), after["english"])] == [None] * 3
    assert after["german"]["notice"] == (
        "The embedding model scripted-embedding knows only English, but 80% of the texts are in other languages"
        " (German): they are found by their words, hardly by their meaning. To change to a multilingual model, name"
        " it in FOREASK_EMBEDDINGS, and run: foreask migrate german --embedding NAME"
    )


async def test_point_count_is_null_during_qdrant_outage(client, library, monkeypatch):
    await library.collection("a")

    async def unavailable(*_):
        raise Unavailable("unavailable", component="qdrant")

    monkeypatch.setattr("shared.vectors.reads.Reads._count", unavailable)

    assert (await client.get("/v1/collections/a")).json()["points"] is None


async def test_collection_list_is_paged_by_name(client):
    for name in "cab":
        await put(client, name)
    first = (await client.get("/v1/collections", params={"limit": 2})).json()
    rest = (await client.get("/v1/collections", params={"cursor": first["next_cursor"]})).json()

    assert [c["name"] for c in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["next_cursor"] is None
    assert (await client.get("/v1/collections", params={"cursor": "WzFd"})).status_code == 400


async def test_missing_collection_returns_404(client):
    reply = await client.get("/v1/collections/nowhere")

    assert reply.status_code == 404
    assert "nowhere" in reply.json()["detail"]


async def test_reindex_restarts_documents_without_new_model_calls(client, services, provider, once):
    await once(ready, ("alpha beta gamma", "a"))

    reply = await client.post("/v1/collections/default/reindex")

    assert (reply.status_code, reply.json()["documents"]) == (202, 1)
    await work(services)
    (document,) = (await client.get("/v1/documents")).json()["items"]
    assert (document["state"], document["version"], document["live_version"]) == ("ready", 2, 2)
    assert provider.stats()["calls"] == 0


async def test_missing_collection_cannot_be_reindexed(client):
    assert (await client.post("/v1/collections/nowhere/reindex")).status_code == 404
