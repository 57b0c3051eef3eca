"""Migration of a collection to another embedding model, over HTTP and on the command line."""

import time
from dataclasses import replace
from pathlib import Path

import httpx
import orjson
import pytest
from pydantic import TypeAdapter

from features.all import FEATURES
from features.builds.gate import MIN_QUESTIONS
from shared.http.access.collection_cache import CollectionCache
from shared.ledger.builds.builds import Builds
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.feedback.query_log import QueryLog
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.query.retrieve.question_vectors import QuestionVectors
from shared.services import build
from shared.settings import Embedding
from shared.vectors.index import Index
from tests.conftest import Library
from tests.integration.test_builds import cleaned
from tests.integration.test_time_left import finish_steadily
from tests.support.api import OfLocalUser, application, calling, running, serving, work
from tests.support.pages import commands_of, foreask_with_background, settings_of
from tests.support.planted import guards

PAGE = "migrate.md"
BUILDS = "/v1/collections/default/builds"
DOCUMENTS = 3


@pytest.fixture
async def two_embeddings(settings, services, provider):
    """Yield services with two more embeddings, one of which is described on the page."""
    (described,) = settings_of(PAGE, "How do I migrate a collection?").values()
    described = described.replace("http://…/v1", provider.url)
    named = {"other": Embedding(model="scripted-other", dimensions=512)}
    named |= TypeAdapter(dict[str, Embedding]).validate_json(described)
    async with build("all", settings.model_copy(update={"embeddings": named}), FEATURES) as built:
        built.ledger[Collections]._index_names.prefix = services.ledger[Collections]._index_names.prefix
        # The processes that parse for all tests are used, because new ones would import their libraries again.
        yield replace(built, parser=replace(built.parser, sandbox=services.parser.sandbox))


@pytest.fixture
async def server(two_embeddings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with serving(two_embeddings.settings, two_embeddings) as http, running(two_embeddings):
        monkeypatch.setenv("FOREASK_URL", str(http.base_url))
        yield http


async def fill(services):
    """Index documents, each with its own question."""
    library = Library(services)
    for number in range(DOCUMENTS):
        text, questions = f"The keeper wrote of alpha{number}.", [f"Which beta{number} was recorded?"]
        await library.add(text, f"{number}.md", questions=questions)
    await work(services, "parse", "index")


@pytest.fixture
async def filled(once, server):
    """Return a client of a collection with documents."""
    await once(fill)
    return server


async def upload(server, number, text, collection="default"):
    questions = [f"Which beta{number} was recorded?"]
    body = {"collection": collection, "external_id": f"{number}.md", "text": text, "questions": questions}
    (await server.post("/v1/documents", json=body)).raise_for_status()


async def process_all(two_embeddings):
    while await two_embeddings.ledger[Builds].fill():
        pass
    await work(two_embeddings)


async def found(server, question, collection="default"):
    body = {"question": question, "top_k": 1, "collection": collection}
    reply = (await server.post("/v1/retrieve", json=body)).raise_for_status()
    return [(chunk["external_id"], chunk["text"]) for chunk in reply.json()["chunks"]]


@pytest.fixture
def foreask(two_embeddings, filled, capsys, monkeypatch):
    """Return a function that runs a command while work is processed; it returns exit code and output."""
    return foreask_with_background(lambda: process_all(two_embeddings), capsys, monkeypatch)


def write_labels(path):
    """Write as many labelled questions as the gate needs to compare the quality of builds."""
    numbers = enumerate(n % DOCUMENTS for n in range(MIN_QUESTIONS))
    lines = [{"question": f"Which beta{n} was it, {each}?", "external_ids": [f"{n}.md"]} for each, n in numbers]
    Path(path).write_bytes(b"\n".join(map(orjson.dumps, lines)))


@guards(
    "features/builds/routes.py",
    "left.whole if is_open else None",
    "None",
    means="a filled build has no time left while its documents are processed",
)
@guards(
    "features/builds/routes.py",
    "left.whole if is_open else None",
    "left.whole",
    means="a build whose documents are finished has the time of other work",
)
@guards(
    "shared/ledger/work/costs.sql",
    "s.collection_id = ANY(CAST(:builds AS uuid[]))",
    "s.job_id = ANY(CAST(:builds AS uuid[]))",
    means="a build shows no costs",
)
async def test_build_shows_options_cost_and_time_left(filled, two_embeddings):
    prompt = "Write {count} other questions: {text}"
    started = (await filled.post(BUILDS, json={"prompt": prompt, "embedding": "other"})).raise_for_status().json()
    while await two_embeddings.ledger[Builds].fill():
        pass
    await work(two_embeddings, "parse")
    await finish_steadily(two_embeddings)
    processing, status = [(await filled.get(path)).json() for path in (f"{BUILDS}/2", "/v1/status")]
    complete = (await filled.get(f"{BUILDS}/1")).json()
    await process_all(two_embeddings)
    settings = two_embeddings.settings
    priced = {name: each.model_copy(update={"price": 1e6}) for name, each in settings.embeddings.items()}
    async with calling(settings.model_copy(update={"embeddings": priced}), two_embeddings) as api:
        live, finished = (await api.get(BUILDS)).json()["items"]

    assert started["effective"]["prompt"] == prompt != live["effective"]["prompt"]
    assert (processing["state"], processing["eta_seconds"] > 0) == ("following", True)
    assert processing["eta_seconds"] == status["eta_seconds"] != complete["eta_seconds"]
    assert (finished["eta_seconds"], live["eta_seconds"], live["cost"]) == (None, None, None)
    assert finished["cost"] > 1


async def test_build_lifecycle_works_over_http(filled, two_embeddings, provider):
    provider.reset()
    started = (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status().json()
    assert (started["build"], started["state"], started["embedding_model"]) == (2, "filling", "other")
    assert (await filled.post(f"{BUILDS}/2/gate", json={})).status_code == 409  # the build is not filled
    assert (await filled.post(BUILDS, json={"chunk_max_chars": 900})).status_code == 409
    await process_all(two_embeddings)
    assert (await filled.post(f"{BUILDS}/2/switch", json={})).status_code == 409  # the gate was not run

    report = (await filled.post(f"{BUILDS}/2/gate", json={})).raise_for_status().json()
    assert (report["open"], report["reasons"]) == (True, [])
    (await filled.post(f"{BUILDS}/2/switch", json={})).raise_for_status()
    listed = (await filled.get(BUILDS)).json()["items"]
    assert [(b["build"], b["state"], b["copied"]) for b in listed] == [
        (1, "following", DOCUMENTS),
        (2, "live", DOCUMENTS),
    ]
    assert await found(filled, "Which beta2 was it?") == [("2.md", "The keeper wrote of alpha2.")]
    assert (await filled.get("/v1/collections/default")).json()["embedding_model"] == "other"

    await upload(filled, 2, "The text was edited.")
    await work(two_embeddings)
    (await filled.post(f"{BUILDS}/1/switch", json={})).raise_for_status()
    assert await found(filled, "Which beta2 was it?") == [("2.md", "The text was edited.")]
    assert (await filled.delete(f"{BUILDS}/1")).status_code == 409
    assert (await filled.delete(f"{BUILDS}/2")).json()["state"] == "dropping"
    assert provider.stats()["calls"] == 0


async def test_gate_streams_its_progress(filled, two_embeddings):
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    await process_all(two_embeddings)
    async with filled.stream("POST", f"{BUILDS}/2/gate", json={}, headers={"accept": "text/event-stream"}) as reply:
        names = [line.removeprefix("event: ") async for line in reply.aiter_lines() if line.startswith("event")]

    assert names[0] == "progress"
    assert names[-1] == "done"


async def test_invalid_build_options_are_rejected(filled):
    for body in ({"embedding": "unknown"}, {"filterable": {"year": "integer"}}, {"chunk_max_chars": 1}):
        assert (await filled.post(BUILDS, json=body)).status_code == 422, body
    assert len((await filled.get(BUILDS)).json()["items"]) == 1


async def test_paused_build_resumes(filled, two_embeddings):
    (await filled.post(BUILDS, json={"chunk_max_chars": 900})).raise_for_status()
    assert (await filled.post(f"{BUILDS}/2/pause")).json()["state"] == "paused"
    await process_all(two_embeddings)
    assert (await filled.get(f"{BUILDS}/2")).json()["copied"] == 0
    assert (await filled.post(f"{BUILDS}/2/resume")).json()["state"] == "filling"
    await process_all(two_embeddings)
    shown = (await filled.get(f"{BUILDS}/2")).json()
    assert (shown["state"], shown["documents"]) == ("following", {"ready": DOCUMENTS})
    assert (await filled.get(f"{BUILDS}/3")).status_code == 404


async def test_single_command_migrates_collection(foreask, filled, provider):
    write_labels("labelled.jsonl")
    provider.reset()
    code, output = await foreask("foreask migrate default --embedding other --gate labelled.jsonl --yes")

    assert code in (0, None), output
    assert "0 calls of the language model" in output
    assert "open: no reason against the build" in output
    assert "default is answered by build 2" in output
    assert provider.stats()["calls"] == 0
    assert await found(filled, "Which beta2 was it?") == [("2.md", "The keeper wrote of alpha2.")]

    code, output = await foreask("foreask builds list default")
    assert (code in (0, None), "following" in output, "live" in output) == (True, True, True)
    assert "build 1 again" in (await foreask("foreask builds rollback default"))[1]
    assert "build 2 of default is being deleted" in (await foreask("foreask builds drop default 2"))[1]


async def test_closed_gate_keeps_live_build_and_explains(foreask, filled, two_embeddings):
    await foreask("foreask builds list default")
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    await process_all(two_embeddings)
    async with two_embeddings.database.begin() as connection:
        await connection.execute_sql(
            "DELETE FROM documents WHERE external_id = '1.md' AND collection_id IN"
            " (SELECT id FROM collections WHERE build = 2)"
        )
    code, output = await foreask("foreask builds gate default 2")

    assert code == 4
    assert "closed: Documents that the build lacks: 1." in output
    assert (await filled.get(f"{BUILDS}/1")).json()["state"] == "live"


async def test_repeated_command_follows_running_migration(foreask, filled):
    assert "Name at least one option to change" in (await foreask("foreask migrate default"))[1]
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    code, output = await foreask("foreask migrate default")
    assert code in (0, None), output
    assert "default is answered by build 2" in output


# --- the page ---


@pytest.fixture
async def handbook(filled, two_embeddings):
    """The collection of the page, with labelled questions."""
    for number in range(DOCUMENTS):
        await upload(filled, number, f"The keeper wrote of alpha{number}.", "handbook")
    await work(two_embeddings)
    write_labels("labelled.jsonl")


async def states(server):
    """Return the states of the builds of the page's collection, by number."""
    builds = (await server.get("/v1/collections/handbook/builds")).raise_for_status().json()["items"]
    return {each["build"]: each["state"] for each in builds}


async def test_documented_commands_migrate_and_roll_back(foreask, filled, handbook, provider):
    (migrate,) = commands_of(PAGE, "How do I migrate a collection?")[:1]
    rollback, drop = commands_of(PAGE, "How do I go back?")
    provider.reset()

    code, output = await foreask(f"{migrate} --yes")
    assert code == 0, output
    assert await states(filled) == {1: "following", 2: "live"}
    assert (await filled.get("/v1/collections/handbook")).json()["embedding_model"] == "e5"
    assert provider.stats()["calls"] == 0

    assert (await foreask(rollback))[0] == 0
    assert await states(filled) == {1: "live", 2: "following"}
    assert await found(filled, "Which beta2 was it?", "handbook") == [("2.md", "The keeper wrote of alpha2.")]
    assert "The build 1 is live" in (await foreask(drop))[1]
    await filled.post("/v1/collections/handbook/builds/2/switch", json={})
    assert (await foreask(drop))[0] == 0
    assert await states(filled) == {1: "dropping", 2: "live"}


async def test_documented_commands_pause_gate_switch_and_drop(foreask, filled, handbook):
    (await filled.post("/v1/collections/handbook/builds", json={"embedding": "e5"})).raise_for_status()
    listed, pause, resume, gate, switch, drop = commands_of(PAGE, "How do I stop a migration")[:6]

    async def nothing():
        return

    assert "filling" in (await foreask(listed, nothing))[1]
    assert (await foreask(pause, nothing))[0] == 0
    assert await states(filled) == {1: "live", 2: "paused"}
    assert (await foreask(resume, nothing))[0] == 0
    code, output = await foreask(
        "foreask migrate handbook --force"
    )  # the command resumes and follows the build, as documented
    assert code == 0, output
    (await filled.post("/v1/collections/handbook/builds/1/switch", json={})).raise_for_status()
    for command in (gate, switch):
        code, output = await foreask(command)
        assert code == 0, output
    assert await states(filled) == {1: "following", 2: "live"}
    (await filled.post("/v1/collections/handbook/builds/1/switch", json={})).raise_for_status()
    assert (await foreask(drop))[0] == 0
    assert await states(filled) == {1: "live", 2: "dropping"}


# --- one build answers a query ---


def once(monkeypatch, owner, name, action, *, after=False):
    """Run an action before or after the next call of a method."""
    original, due = getattr(owner, name), [action]

    async def method(*arguments, **named):
        if after:
            result = await original(*arguments, **named)
        if due:
            await due.pop()()
        return result if after else await original(*arguments, **named)

    monkeypatch.setattr(owner, name, method)


async def answering(two_embeddings):
    """Return the number of the build that answered the newest query, by its log and its chunks."""
    statement = """
        SELECT l.build, b.build FROM (SELECT * FROM queries ORDER BY created_at DESC LIMIT 1) q
        JOIN collections l ON l.id = q.collection_id
        JOIN chunks c ON c.id = ANY(q.chunk_ids) JOIN documents d ON d.id = c.document_id
        JOIN collections b ON b.id = d.collection_id"""
    async with two_embeddings.database.begin() as connection:
        ((logged, found),) = {tuple(row) for row in await connection.execute(Statement(statement))}
    assert logged == found
    return found


@pytest.fixture
async def two_builds(filled, two_embeddings):
    """Return a client of a collection with two builds of different vector sizes; the first is live."""
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    await process_all(two_embeddings)
    return filled


ANSWER = [("2.md", "The keeper wrote of alpha2.")]


@guards(
    "shared/query/retrieve/question_vectors.py",
    "embedder = self._embedders.named(collection.embedding_model)",
    "embedder = self._embedders.named(self._embedders.names[0])",
    means="a query uses a different embedding than its build",
)
@guards(
    "shared/http/queries/searching.py",
    "query_log.record(retrieval,",
    "query_log.record(Retrieval(await collection_cache.get(caller.tenant, body.collection), retrieval.chunks),",
    means="a query is logged in the build that is live at its end",
)
async def test_query_uses_one_build_during_switches(two_builds, two_embeddings, monkeypatch):
    live = 1
    interruptions = (
        (Collections, "find", True),
        (QuestionVectors, "embed", False),
        (Index, "rank", False),
        (Index, "chunk_payloads", False),
        (QueryLog, "append", False),
    )
    for owner, name, after in interruptions:
        other = 3 - live

        async def switch(number=other):
            (await two_builds.post(f"{BUILDS}/{number}/switch", json={"force": True})).raise_for_status()

        await two_builds.delete("/v1/collections/default/calibration")  # the API asks the ledger again
        with monkeypatch.context() as patch:
            once(patch, owner, name, switch, after=after)
            assert await found(two_builds, "Which beta2 was it?") == ANSWER, name
        assert await answering(two_embeddings) == live, name
        assert await found(two_builds, "Which beta2 was it?") == ANSWER, name
        assert await answering(two_embeddings) == other, name
        live = other


async def test_stale_api_cache_serves_old_build_until_ttl(two_builds, two_embeddings):
    app = application(two_embeddings.settings, two_embeddings)
    transport = httpx.ASGITransport(OfLocalUser(app))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as another,
    ):
        assert await found(another, "Which beta2 was it?") == ANSWER
        (await two_builds.post(f"{BUILDS}/2/switch", json={"force": True})).raise_for_status()
        await upload(two_builds, 2, "The text was edited.")
        await work(two_embeddings)
        (await two_builds.delete(f"{BUILDS}/1")).raise_for_status()
        await two_embeddings.cleaner.clean()

        assert await found(another, "Which beta2 was it?") == [("2.md", "The text was edited.")]
        assert await answering(two_embeddings) == 1
        app.state.api.collection_cache._now = lambda: time.monotonic() + 5
        async with two_embeddings.database.begin() as connection:
            await connection.execute(
                Statement("UPDATE collections SET live_until = live_until - interval '61 seconds'")
            )
        while await two_embeddings.ledger[Builds].delete_documents():
            pass
        assert await found(another, "Which beta2 was it?") == [("2.md", "The text was edited.")]
        assert await answering(two_embeddings) == 2


async def test_query_over_dropped_build_is_repeated_on_live(two_builds, two_embeddings, monkeypatch):
    async def drop():
        (await two_builds.post(f"{BUILDS}/2/switch", json={"force": True})).raise_for_status()
        (await two_builds.delete(f"{BUILDS}/1")).raise_for_status()
        statement = "UPDATE collections SET live_until = live_until - interval '61 seconds' RETURNING 1"
        await two_embeddings.database.rows(Statement(statement))
        await cleaned(two_embeddings)

    monkeypatch.setattr("shared.query.retrieve.live._LONG_SECONDS", 0.0)
    (document,) = (await two_builds.get("/v1/documents", params={"external_id": "2.md"})).json()["items"]
    once(monkeypatch, QuestionVectors, "embed", drop)
    body = {"question": "Which beta2 was it?", "document_ids": [document["id"]]}
    reply = (await two_builds.post("/v1/retrieve", json=body)).raise_for_status().json()

    assert [chunk["external_id"] for chunk in reply["chunks"]] == ["2.md"]
    assert await answering(two_embeddings) == 2


async def test_calibration_during_switch_does_not_restore_old_build(two_builds, two_embeddings, monkeypatch):
    async def switch():
        (await two_builds.post(f"{BUILDS}/2/switch", json={"force": True})).raise_for_status()

    monkeypatch.setattr("shared.query.calibrate.calibrator.MIN_PAIRS", DOCUMENTS)
    once(monkeypatch, Calibrations, "save", switch)
    (await two_builds.post("/v1/collections/default/calibration", json={})).raise_for_status()

    assert await found(two_builds, "Which beta2 was it?") == ANSWER
    assert await answering(two_embeddings) == 2


async def test_server_without_embedding_refuses_switch(two_builds, services, settings):
    async with calling(settings, services) as another:
        reply = await another.post(f"{BUILDS}/2/switch", json={"force": True})

    assert (reply.status_code, "'other'" in reply.json()["detail"]) == (409, True)
    assert await found(two_builds, "Which beta2 was it?") == ANSWER


async def test_late_ledger_reply_does_not_extend_cache(services, library, monkeypatch):
    now = [100.0]
    await library.collection()
    cache = CollectionCache(
        services.ledger[Collections], services.embeddings, services.settings.embedding_model, lambda: now[0]
    )

    async def late():
        now[0] += 60

    once(monkeypatch, Collections, "find", late, after=True)
    await cache.get("default", "default")

    assert cache._cached("default", "default") is None
