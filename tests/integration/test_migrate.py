"""A collection goes to another embedding model, over HTTP and from the command line."""

import asyncio
import sys
from pathlib import Path

import orjson
import pytest

from cli import main
from shared.services import build
from shared.settings import Embedding
from tests.api import serving, work

BUILDS = "/v1/collections/default/builds"
DOCUMENTS = 32


@pytest.fixture
async def both(settings, services, provider):
    """Services with two embeddings."""
    named = {"other": Embedding(model="scripted-other", dimensions=512)}
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


async def upload(server, number, text):
    body = {"external_id": f"{number}.md", "text": text, "questions": [f"Which beta{number} was recorded?"]}
    (await server.post("/v1/documents", json=body)).raise_for_status()


async def do_all(both):
    while await both.ledger.builds.fill():
        pass
    await work(both)


async def found(server, question):
    reply = (await server.post("/v1/retrieve", json={"question": question, "top_k": 1})).raise_for_status()
    return [(chunk["external_id"], chunk["text"]) for chunk in reply.json()["chunks"]]


@pytest.fixture
def foreask(both, filled, capsys, monkeypatch):
    """Run a command beside workers and the scheduler; return its exit code and what it said."""

    async def run(command):
        monkeypatch.setattr(sys, "argv", command.split())
        running = asyncio.create_task(asyncio.to_thread(_exit_code))
        while not running.done():
            await do_all(both)
            await asyncio.sleep(0.05)
        out, err = capsys.readouterr()
        return await running, out + err

    return run


def _exit_code():
    try:
        main.run()
    except SystemExit as ended:
        return ended.code


def label(path):
    lines = [{"question": f"Tell me of beta{n}.", "external_ids": [f"{n}.md"]} for n in range(DOCUMENTS)]
    Path(path).write_bytes(b"\n".join(map(orjson.dumps, lines)))


async def test_a_build_is_begun_tried_switched_to_and_back_over_http(filled, both, provider):
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
    assert await found(filled, "Tell me of beta7.") == [("7.md", "The keeper wrote of alpha7.")]
    assert (await filled.get("/v1/collections/default")).json()["embedding_model"] == "other"

    await upload(filled, 7, "Nobody wrote of it.")
    await work(both)
    (await filled.post(f"{BUILDS}/1/switch", json={})).raise_for_status()
    assert await found(filled, "Tell me of beta7.") == [("7.md", "Nobody wrote of it.")]
    assert (await filled.delete(f"{BUILDS}/1")).status_code == 409
    assert (await filled.delete(f"{BUILDS}/2")).json()["state"] == "dropping"
    assert provider.stats()["calls"] == 0


async def test_the_gate_says_as_events_how_far_it_is(filled, both):
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
async def test_what_no_build_can_have_is_refused(filled, body, status):
    assert (await filled.post(BUILDS, json=body)).status_code == status
    assert len((await filled.get(BUILDS)).json()["items"]) == 1


async def test_a_build_is_paused_and_goes_on(filled, both):
    (await filled.post(BUILDS, json={"chunk_max_chars": 900})).raise_for_status()
    assert (await filled.post(f"{BUILDS}/2/pause")).json()["state"] == "paused"
    await do_all(both)
    assert (await filled.get(f"{BUILDS}/2")).json()["copied"] == 0
    assert (await filled.post(f"{BUILDS}/2/resume")).json()["state"] == "filling"
    await do_all(both)
    shown = (await filled.get(f"{BUILDS}/2")).json()
    assert (shown["state"], shown["documents"]) == ("following", {"ready": DOCUMENTS})
    assert (await filled.get(f"{BUILDS}/3")).status_code == 404


async def test_one_command_migrates_a_collection(foreask, filled, provider):
    label("labelled.jsonl")
    provider.reset()
    code, said = await foreask("foreask migrate default --embedding other --gate labelled.jsonl --yes")

    assert code in (0, None), said
    assert "0 calls of the language model" in said
    assert "open: nothing speaks against the build" in said
    assert "default is answered by build 2" in said
    assert provider.stats()["calls"] == 0
    assert await found(filled, "Tell me of beta7.") == [("7.md", "The keeper wrote of alpha7.")]

    code, said = await foreask("foreask builds list default")
    assert (code in (0, None), "following" in said, "live" in said) == (True, True, True)
    assert "build 1 again" in (await foreask("foreask builds rollback default"))[1]
    assert "build 2 of default is being deleted" in (await foreask("foreask builds drop default 2"))[1]


async def test_a_closed_gate_leaves_the_live_build_and_says_why(foreask, filled, both):
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


async def test_a_command_without_a_change_follows_what_is_under_way(foreask, filled):
    assert "Say what the new build has otherwise" in (await foreask("foreask migrate default"))[1]
    (await filled.post(BUILDS, json={"embedding": "other"})).raise_for_status()
    code, said = await foreask("foreask migrate default")
    assert code in (0, None), said
    assert "default is answered by build 2" in said
