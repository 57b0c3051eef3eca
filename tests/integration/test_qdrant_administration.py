"""The operator's commands about Qdrant, against the embedded engine and with a real server's replies."""

import asyncio
import json

import orjson
import pytest

from cli.commands import qdrant
from embedded.ports import free_port
from shared.domain.errors import Permanent, Unavailable
from shared.ledger.model.collections import Collections
from tests.conftest import Library
from tests.support.api import work
from tests.support.planted import guards
from tests.support.scripted_qdrant import Reply, serving_qdrant

# As the description of Qdrant's API says
REPLIES = {
    ("GET", "aliases"): {"aliases": [{"alias_name": "live", "collection_name": "a"}]},
    ("GET", "cluster"): {
        "peer_id": 1,
        "shard_count": 6,
        "local_shards": [],
        "remote_shards": [],
        "shard_transfers": [],
    },
    ("GET", "snapshots"): [{"name": "old.snapshot", "creation_time": "2026-01-01T00:00:00", "size": 7}],
    ("POST", "snapshots"): {"name": "new.snapshot", "creation_time": "2026-01-02T00:00:00", "size": 1500},
}


def real_server(request):
    result = REPLIES.get((request.method, request.path.partition("?")[0].rpartition("/")[2]))
    if result is None:
        return None
    text = orjson.dumps({"result": result, "status": "ok", "time": 0.1}).decode()
    return Reply(200, text, {"content-type": "application/json"}, is_plain=True)


@pytest.fixture
async def name(services):
    """Return the collection of Qdrant with the points of a document."""
    await Library(services, "alice").add("# Harbour\n\nThe harbour opens at six.", "a.md", questions=["When?"])
    await work(services, "parse", "index")
    return (await services.ledger[Collections].get("alice", "default")).index_name


@pytest.fixture
def command(services, name, monkeypatch, capsys):
    """Return a function that runs a command with these settings, changed, and returns its output."""

    async def run(command, *arguments, **changed):
        prefix = "-".join(name.split("-")[:2])  # of these services
        settings = services.settings.model_copy(update={"qdrant_prefix": prefix} | changed)
        for variable, value in settings.environment().items():
            monkeypatch.setenv(variable, value)
        capsys.readouterr()
        await asyncio.to_thread(command, **dict(arguments))
        return capsys.readouterr().out

    return run


@guards(
    "shared/vectors/administration.py",
    " if name.startswith(prefix)]",
    "]",
    means="collections of another deployment are listed, and copied to snapshots",
)
async def test_list_shows_collections_of_deployment(command, name, settings):
    (listed,) = json.loads(await command(qdrant.list_, ("as_json", True)))

    assert (listed["name"], listed["points"], listed["status"]) == (name, 2, "green")
    assert json.loads(await command(qdrant.list_, ("as_json", True), qdrant_prefix="other")) == []


async def test_list_counts_aliases_shards_and_snapshots(command, name, settings):
    async with serving_qdrant(settings) as server:
        server.rules = (real_server,)
        table = await command(qdrant.list_, ("as_json", False), qdrant_url=server.url)

    heading, row = (line.split("\t") for line in table.splitlines())
    assert dict(zip(heading, row, strict=True)) == {
        "collection": name,
        "status": "green",
        "points": "2",
        "segments": row[3],
        "shards": "6",
        "aliases": "1",
        "snapshots": "1",
    }


@guards(
    "cli/commands/qdrant.py",
    "for url in settings.qdrant_addresses():",
    "for url in settings.qdrant_addresses()[:1]:",
    means="the shards of the other nodes are in no snapshot",
)
async def test_snapshot_is_made_on_every_address(command, name, settings):
    async with serving_qdrant(settings) as first, serving_qdrant(settings) as second:
        first.rules = second.rules = (real_server,)
        printed = await command(qdrant.snapshot, qdrant_url=f"{first.url},{second.url}")

    assert printed.splitlines() == [f"{node.url}  {name}  new.snapshot  1,500 bytes" for node in (first, second)]
    for node in (first, second):
        (made,) = [each.path for each in node.requests if each.method == "POST"]
        assert made.startswith(f"/collections/{name}/snapshots")


async def test_errors_name_address_and_words_of_qdrant(command, name, settings):
    async with serving_qdrant(settings) as server:
        server.rules = (lambda request: Reply(403, "forbidden: no access") if request.method == "POST" else None,)
        with pytest.raises(Permanent, match=f"{server.url} refused with 403: .*forbidden: no access"):
            await command(qdrant.snapshot, qdrant_url=server.url)

    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match=f"does not answer at {nobody}"):
        await command(qdrant.list_, ("as_json", True), qdrant_url=nobody)
