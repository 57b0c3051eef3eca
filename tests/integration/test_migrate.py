"""A collection goes to another embedding model, over HTTP and from the command line."""

import time
from pathlib import Path

import httpx
import orjson
import pytest
from pydantic import TypeAdapter
from sqlalchemy import text

from api.access.collection_cache import CollectionCache
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.feedback.query_log import QueryLog
from shared.ledger.model.collections import Collections
from shared.providers.batching import BatchingEmbedder
from shared.services import build
from shared.settings import Embedding
from shared.vectors.index import Index
from tests.integration.test_builds import cleaned
from tests.support.api import application, calling, serving, work
from tests.support.pages import commands_of, foreask_beside, settings_of

PAGE = "migrate.md"
BUILDS = "/v1/collections/default/builds"
DOCUMENTS = 32


@pytest.fixture
async def both(settings, services, provider):
    """Services with two embeddings beside the usual one: the page describes one of them."""
    (described,) = settings_of(PAGE, "How do I migrate a collection?").values()
    described = described.replace("http://…/v1", provider.url)
    named = {"other": Embedding(model="scripted-other", dimensions=512)}
    named |= TypeAdapter(dict[str, Embedding]).validate_json(described)
    async with build("all", settings.model_copy(update={"embeddings": named})) as built:
        built.ledger.collections._index_names.prefix = services.ledger.collections._index_names.prefix
        yield built


@pytest.fixture
async def server(both, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with serving(both.settings, both) as http:
        monkeypatch.setenv("FOREASK_URL", str(http.base_url))
        yield http


@pytest.fixture
async def filled(server, both):
    """A collection with documents, each with a question of its own."""
    for number in range(DOCUMENTS):
        await upload(server, number, f"The keeper wrote of alpha{number}.")
    await work(both)
    return server


async def upload(server, number, text, collection="default"):
    questions = [f"Which beta{number} was recorded?"]
    body = {"collection": collection, "external_id": f"{number}.md", "text": text, "questions": questions}
    (await server.post("/v1/documents", json=body)).raise_for_status()


async def do_all(both):
    while await both.ledger.builds.fill():
        pass
    await work(both)


async def found(server, question, collection="default"):
    body = {"question": question, "top_k": 1, "collection": collection}
    reply = (await server.post("/v1/retrieve", json=body)).raise_for_status()
    return [(chunk["external_id"], chunk["text"]) for chunk in reply.json()["chunks"]]


@pytest.fixture
def foreask(both, filled, capsys, monkeypatch):
    """Run a command beside workers and the scheduler; return its exit code and what it said."""
    return foreask_beside(lambda: do_all(both), capsys, monkeypatch)


def label(path):
    lines = [{"question": f"Which beta{n} was it?", "external_ids": [f"{n}.md"]} for n in range(DOCUMENTS)]
    Path(path).write_bytes(b"\n".join(map(orjson.dumps, lines)))


async def test_build_lifecycle_works_over_http(filled, both, provider):
    provider.reset()
    begun = (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status().json()
    assert (begun["build"], begun["state"], begun["embedding_model"]) == (2, "filling", "other")
    assert (await filled.post(f"{BUILDS}/2/gate", json={})).status_code == 409  # it is not filled
    assert (await filled.post(BUILDS, json={"chunk_max_chars": 900})).status_code == 409
    await do_all(both)
    assert (await filled.post(f"{BUILDS}/2/switch", json={})).status_code == 409  # no gate was tried

    report = (await filled.post(f"{BUILDS}/2/gate", json={})).raise_for_status().json()
    assert (report["open"], report["reasons"]) == (True, [])
    (await filled.post(f"{BUILDS}/2/switch", json={})).raise_for_status()
    listed = (await filled.get(BUILDS)).json()["items"]
    assert [(b["build"], b["state"], b["copied"]) for b in listed] == [
        (1, "following", DOCUMENTS),
        (2, "live", DOCUMENTS),
    ]
    assert await found(filled, "Which beta7 was it?") == [("7.md", "The keeper wrote of alpha7.")]
    assert (await filled.get("/v1/collections/default")).json()["embedding_model"] == "other"

    await upload(filled, 7, "Nobody wrote of it.")
    await work(both)
    (await filled.post(f"{BUILDS}/1/switch", json={})).raise_for_status()
    assert await found(filled, "Which beta7 was it?") == [("7.md", "Nobody wrote of it.")]
    assert (await filled.delete(f"{BUILDS}/1")).status_code == 409
    assert (await filled.delete(f"{BUILDS}/2")).json()["state"] == "dropping"
    assert provider.stats()["calls"] == 0


async def test_gate_streams_its_progress(filled, both):
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    await do_all(both)
    async with filled.stream("POST", f"{BUILDS}/2/gate", json={}, headers={"accept": "text/event-stream"}) as reply:
        names = [line.removeprefix("event: ") async for line in reply.aiter_lines() if line.startswith("event")]

    assert names[0] == "progress"
    assert names[-1] == "done"


@pytest.mark.parametrize(
    ("body", "status"),
    [({"embedding": "nobody"}, 422), ({"filterable": {"year": "integer"}}, 422), ({"chunk_max_chars": 1}, 422)],
)
async def test_impossible_build_options_are_rejected(filled, body, status):
    assert (await filled.post(BUILDS, json=body)).status_code == status
    assert len((await filled.get(BUILDS)).json()["items"]) == 1


async def test_paused_build_resumes(filled, both):
    (await filled.post(BUILDS, json={"chunk_max_chars": 900})).raise_for_status()
    assert (await filled.post(f"{BUILDS}/2/pause")).json()["state"] == "paused"
    await do_all(both)
    assert (await filled.get(f"{BUILDS}/2")).json()["copied"] == 0
    assert (await filled.post(f"{BUILDS}/2/resume")).json()["state"] == "filling"
    await do_all(both)
    shown = (await filled.get(f"{BUILDS}/2")).json()
    assert (shown["state"], shown["documents"]) == ("following", {"ready": DOCUMENTS})
    assert (await filled.get(f"{BUILDS}/3")).status_code == 404


async def test_single_command_migrates_collection(foreask, filled, provider):
    label("labelled.jsonl")
    provider.reset()
    code, said = await foreask("foreask migrate default --embedding other --gate labelled.jsonl --yes")

    assert code in (0, None), said
    assert "0 calls of the language model" in said
    assert "open: no reason against the build" in said
    assert "default is answered by build 2" in said
    assert provider.stats()["calls"] == 0
    assert await found(filled, "Which beta7 was it?") == [("7.md", "The keeper wrote of alpha7.")]

    code, said = await foreask("foreask builds list default")
    assert (code in (0, None), "following" in said, "live" in said) == (True, True, True)
    assert "build 1 again" in (await foreask("foreask builds rollback default"))[1]
    assert "build 2 of default is being deleted" in (await foreask("foreask builds drop default 2"))[1]


async def test_closed_gate_keeps_live_build_and_explains(foreask, filled, both):
    await foreask("foreask builds list default")
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    await do_all(both)
    async with both.database.begin() as connection:
        await connection.exec_driver_sql(
            "DELETE FROM documents WHERE external_id = '3.md' AND collection_id IN"
            " (SELECT id FROM collections WHERE build = 2)"
        )
    code, said = await foreask("foreask builds gate default 2")

    assert code == 4
    assert "closed: Documents that the build lacks: 1." in said
    assert (await filled.get(f"{BUILDS}/1")).json()["state"] == "live"


async def test_repeated_command_follows_running_migration(foreask, filled):
    assert "Say what the new build has otherwise" in (await foreask("foreask migrate default"))[1]
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    code, said = await foreask("foreask migrate default")
    assert code in (0, None), said
    assert "default is answered by build 2" in said


# --- the page ---


@pytest.fixture
async def handbook(filled, both):
    """The collection of the page, with labelled questions."""
    for number in range(DOCUMENTS):
        await upload(filled, number, f"The keeper wrote of alpha{number}.", "handbook")
    await work(both)
    label("labelled.jsonl")


async def states(server):
    """The builds of the collection of the page, and what each is."""
    builds = (await server.get("/v1/collections/handbook/builds")).raise_for_status().json()["items"]
    return {each["build"]: each["state"] for each in builds}


async def test_documented_page_migration_and_rollback_work(foreask, filled, handbook, provider):
    (migrate,) = commands_of(PAGE, "How do I migrate a collection?")[:1]
    rollback, drop = commands_of(PAGE, "How do I go back?")
    provider.reset()

    code, said = await foreask(f"{migrate} --yes")
    assert code == 0, said
    assert await states(filled) == {1: "following", 2: "live"}
    assert (await filled.get("/v1/collections/handbook")).json()["embedding_model"] == "e5"
    assert provider.stats()["calls"] == 0

    assert (await foreask(rollback))[0] == 0
    assert await states(filled) == {1: "live", 2: "following"}
    assert await found(filled, "Which beta7 was it?", "handbook") == [("7.md", "The keeper wrote of alpha7.")]
    assert "The build 1 is live" in (await foreask(drop))[1]
    await filled.post("/v1/collections/handbook/builds/2/switch", json={})
    assert (await foreask(drop))[0] == 0
    assert await states(filled) == {1: "dropping", 2: "live"}


async def test_documented_page_stop_and_manual_gate_work(foreask, filled, handbook):
    (await filled.post("/v1/collections/handbook/builds", json={"embedding": "e5"})).raise_for_status()
    listed, pause, resume, gate, switch, drop = commands_of(PAGE, "How do I stop a migration")[:6]

    async def nothing():
        return

    assert "filling" in (await foreask(listed, nothing))[1]
    assert (await foreask(pause, nothing))[0] == 0
    assert await states(filled) == {1: "live", 2: "paused"}
    assert (await foreask(resume, nothing))[0] == 0
    code, said = await foreask("foreask migrate handbook --despite")  # as the page says: it follows the build again
    assert code == 0, said
    (await filled.post("/v1/collections/handbook/builds/1/switch", json={})).raise_for_status()
    for command in (gate, switch):
        code, said = await foreask(command)
        assert code == 0, said
    assert await states(filled) == {1: "following", 2: "live"}
    (await filled.post("/v1/collections/handbook/builds/1/switch", json={})).raise_for_status()
    assert (await foreask(drop))[0] == 0
    assert await states(filled) == {1: "live", 2: "dropping"}


# --- one build answers a query ---


def once(monkeypatch, owner, name, action, *, after=False):
    """Do something before or after the next call of a method of the product."""
    original, due = getattr(owner, name), [action]

    async def method(*arguments, **named):
        if after:
            result = await original(*arguments, **named)
        if due:
            await due.pop()()
        return result if after else await original(*arguments, **named)

    monkeypatch.setattr(owner, name, method)


async def answering(both):
    """The number of the build in which the newest query was answered, by its log and by the chunks that it returned."""
    statement = """
        SELECT l.build, b.build FROM (SELECT * FROM queries ORDER BY created_at DESC LIMIT 1) q
        JOIN collections l ON l.id = q.collection_id
        JOIN chunks c ON c.id = ANY(q.chunk_ids) JOIN documents d ON d.id = c.document_id
        JOIN collections b ON b.id = d.collection_id"""
    async with both.database.begin() as connection:
        ((logged, found),) = {tuple(row) for row in await connection.execute(text(statement))}
    assert logged == found
    return found


@pytest.fixture
async def two(filled, both):
    """A collection of two builds with vectors of different sizes; the first one is live."""
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    await do_all(both)
    return filled


ANSWER = [("7.md", "The keeper wrote of alpha7.")]


async def test_query_uses_one_build_during_switches(two, both, monkeypatch):
    live = 1
    moments = (
        (Collections, "find", True),
        (BatchingEmbedder, "embed", False),
        (Index, "search", False),
        (Index, "chunk_payloads", False),
        (QueryLog, "append", False),
    )
    for owner, name, after in moments:
        other = 3 - live

        async def switch(number=other):
            (await two.post(f"{BUILDS}/{number}/switch", json={"despite": True})).raise_for_status()

        await two.delete("/v1/collections/default/calibration")  # the API asks the ledger again
        with monkeypatch.context() as patch:
            once(patch, owner, name, switch, after=after)
            assert await found(two, "Which beta7 was it?") == ANSWER, name
        assert await answering(both) == live, name
        assert await found(two, "Which beta7 was it?") == ANSWER, name
        assert await answering(both) == other, name
        live = other


async def test_stale_api_cache_serves_old_build_until_ttl(two, both):
    app = application(both.settings, both)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as another,
    ):
        assert await found(another, "Which beta7 was it?") == ANSWER
        (await two.post(f"{BUILDS}/2/switch", json={"despite": True})).raise_for_status()
        await upload(two, 7, "Nobody wrote of it.")
        await work(both)
        (await two.delete(f"{BUILDS}/1")).raise_for_status()
        await both.cleaner.clean()

        assert await found(another, "Which beta7 was it?") == [("7.md", "Nobody wrote of it.")]
        assert await answering(both) == 1
        app.state.api.collection_cache._now = lambda: time.monotonic() + 5
        async with both.database.begin() as connection:
            await connection.execute(text("UPDATE collections SET live_until = live_until - interval '61 seconds'"))
        while await both.ledger.builds.delete_documents():
            pass
        assert await found(another, "Which beta7 was it?") == [("7.md", "Nobody wrote of it.")]
        assert await answering(both) == 2


async def test_query_over_dropped_build_is_repeated_on_live(two, both, monkeypatch):
    async def drop():
        (await two.post(f"{BUILDS}/2/switch", json={"despite": True})).raise_for_status()
        (await two.delete(f"{BUILDS}/1")).raise_for_status()
        later = "UPDATE collections SET live_until = live_until - interval '61 seconds' RETURNING 1"
        await both.database.rows(text(later))
        await cleaned(both)

    monkeypatch.setattr("api.routes.queries._LONG_SECONDS", 0.0)
    (document,) = (await two.get("/v1/documents", params={"external_id": "7.md"})).json()["items"]
    once(monkeypatch, BatchingEmbedder, "embed", drop)
    body = {"question": "Which beta7 was it?", "document_ids": [document["id"]]}
    reply = (await two.post("/v1/retrieve", json=body)).raise_for_status().json()

    assert [chunk["external_id"] for chunk in reply["chunks"]] == ["7.md"]
    assert await answering(both) == 2


async def test_calibration_overtaken_by_switch_restores_no_build(two, both, monkeypatch):
    async def switch():
        (await two.post(f"{BUILDS}/2/switch", json={"despite": True})).raise_for_status()

    once(monkeypatch, Calibrations, "save", switch)
    (await two.post("/v1/collections/default/calibration", json={})).raise_for_status()

    assert await found(two, "Which beta7 was it?") == ANSWER
    assert await answering(both) == 2


async def test_server_without_embedding_refuses_switch(two, services, settings):
    async with calling(settings, services) as another:
        reply = await another.post(f"{BUILDS}/2/switch", json={"despite": True})

    assert (reply.status_code, "'other'" in reply.json()["detail"]) == (409, True)
    assert await found(two, "Which beta7 was it?") == ANSWER


async def test_late_ledger_reply_does_not_extend_cache(services, library, monkeypatch):
    now = [100.0]
    await library.collection()
    cache = CollectionCache(
        services.ledger.collections, services.embeddings, services.settings.embedding_model, lambda: now[0]
    )

    async def late():
        now[0] += 60

    once(monkeypatch, Collections, "find", late, after=True)
    await cache.find("default", "default")

    assert cache._cached("default", "default") is None
