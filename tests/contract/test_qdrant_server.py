"""Guarantees of the embedded Qdrant server: status codes, durability, exclusive access to its data, optimization."""

import asyncio
import base64
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from inspect import isawaitable

import httpx
import numpy as np
import orjson
import psutil
import pytest
from qdrant_client import AsyncQdrantClient

from embedded.ports import free_port
from embedded.qdrant import collection as collection_module
from embedded.qdrant import process, schema
from embedded.qdrant import shard as shard_module
from embedded.qdrant.collection import ServedCollection, WriteRecord
from embedded.qdrant.messages import DONE, HEAD, Inbox, RequestKind, packed
from embedded.qdrant.serving import READS_AN_OPERATION, Serving
from embedded.qdrant.shard import Shard
from embedded.qdrant.store import Store
from embedded.supervisor import Supervisor
from shared.vectors.index import Index
from shared.vectors.searches import SEARCH_PARAMS
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually, wait_until

DIMENSIONS = 64


class KillableServer:
    """A server that can be killed and restarted on the same data."""

    def __init__(self, directory):
        self.directory = directory
        self.port = free_port()
        self.supervisor = None

    def start(self):
        child = process.child(self.directory / "data", self.port, self.directory / "qdrant.log")
        self.supervisor = Supervisor([child])
        self.supervisor.start()
        return self

    def kill(self):
        pid = self.supervisor.pids()["qdrant"]
        os.kill(pid, signal.SIGKILL)
        self.supervisor.stop()

    def stop(self):
        self.supervisor.stop()

    @property
    def url(self):
        return process.url(self.port)

    @property
    def key(self):
        return process.key(self.directory / "data")

    @property
    def headers(self):
        return {"api-key": self.key.get_secret_value()}

    def client(self):
        return AsyncQdrantClient(url=self.url, headers=self.headers, timeout=60)


@pytest.fixture
def server(tmp_path):
    server = KillableServer(tmp_path).start()
    yield server
    server.stop()


@pytest.fixture
async def http(server):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        yield http


@pytest.fixture(scope="module")
def lasting_server(tmp_path_factory):
    server = KillableServer(tmp_path_factory.mktemp("lasting")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
async def shared(lasting_server):
    """A client of a server that tests share."""
    async with httpx.AsyncClient(base_url=lasting_server.url, headers=lasting_server.headers, timeout=60) as http:
        yield http


@pytest.fixture(scope="module")
async def two_points(shared):
    """The same client; its server has a collection with two points, which no test changes."""
    await create(shared)
    await upsert(shared, points(1, 2))
    return shared


async def create(http, name="c", **extra):
    body = {"vectors": {"v": {"size": DIMENSIONS, "distance": "Cosine"}}, "sparse_vectors": {"s": {"modifier": "idf"}}}
    assert (await http.put(f"/collections/{name}", json={**body, **extra})).status_code == 200


def vector(number):
    return [1.0 + (number * 7919 % 101) / 10 if i == number % DIMENSIONS else 0.5 for i in range(DIMENSIONS)]


def points(first, count, **payload):
    return [{"id": i, "vector": {"v": vector(i)}, "payload": {"n": i, **payload}} for i in range(first, first + count)]


def in_base64(numbers):
    return base64.b64encode(np.array(numbers, dtype="<f4")).decode()


async def upsert(http, batch, name="c", **extra):
    reply = await http.put(f"/collections/{name}/points?wait=true", json={"points": batch, **extra})
    assert reply.json()["result"]["status"] == "completed"


async def count(http, name="c", condition=None):
    reply = await http.post(f"/collections/{name}/points/count", json={"filter": condition, "exact": True})
    return reply.json()["result"]["count"]


# --- replies ---

SMALL = {"vectors": {"size": 2, "distance": "Dot"}}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/collections/c/snapshots", {}),
        ("GET", "/cluster", None),
        ("GET", "/collections/c/cluster", None),
        ("POST", "/collections/c/points/search/matrix/pairs", {}),
        ("PUT", "/collections/c/points/vectors", {"points": []}),
        ("POST", "/collections/c/points/query", {"query": [1.0], "using": "v"}),
        ("POST", "/collections/c/points/query/groups", {"query": [1.0], "using": "v", "group_by": "n"}),
        ("POST", "/collections/c/points/query/batch", {"searches": [{"query": {"recommend": {"positive": [1]}}}]}),
        ("POST", "/collections/c/points/query/batch", {"searches": [{"query": {"text": "words", "model": "m"}}]}),
        ("POST", "/collections/c/points/query/batch", {"searches": [{"query": 1, "using": "v"}]}),
        ("POST", "/collections/c/points/query/batch", {"searches": [{"prefetch": [{"limit": 1}]}]}),
        ("POST", "/collections/c/points/scroll", {"order_by": "n"}),
        ("POST", "/collections/c/facet", {"key": "n"}),
        ("PUT", "/collections/c/points", {"batch": {"ids": [], "vectors": {}}}),
        ("PUT", "/collections/c/points/payload", {"payload": {}, "points": [1]}),
        ("PATCH", "/collections/c", {"hnsw_config": {"m": 8}}),
        ("GET", "/aliases", None),
        ("POST", "/collections/c/points/count", {"filter": {"must": [{"key": "n", "geo_radius": {}}]}}),
        ("POST", "/collections/c/points/count", {"filter": {"must": [{"telepathy": 1}]}}),
        ("PUT", "/collections/c/index", {"field_name": "n"}),
        ("PUT", "/collections/c/index", {"field_name": "n", "field_schema": "geo"}),
        ("PUT", "/collections/d", {**SMALL, "quantization_config": {"crystal": {}}}),
        ("PUT", "/collections/d", {**SMALL, "shard_number": 2}),
        ("PUT", "/collections/d", {**SMALL, "replication_factor": 2}),
        ("PUT", "/collections/d", {**SMALL, "write_consistency_factor": 2}),
        ("PUT", "/collections/d", {**SMALL, "sharding_method": "custom"}),
        ("POST", "/collections/c/points/query/batch", {"searches": [{"params": {"telepathy": 1}}]}),
    ],
)
async def test_unsupported_feature_is_rejected_with_501_and_name(two_points, method, path, body):
    reply = await two_points.request(method, path, json=body)

    assert reply.status_code == 501
    error = reply.json()["status"]["error"]
    assert error.startswith("Not supported by the embedded engine: ")
    assert "time" in reply.json()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("query/batch", b"{", 400),
        ("query/batch", b"[]", 400),
        ("query/batch", {"searches": [{"query": [1.0], "using": "v"}]}, 400),
        ("query/batch", {"searches": [{"query": [1.0], "using": "nope"}]}, 400),
        ("query/batch", {"searches": [{"query": [0.1] * DIMENSIONS, "using": "v", "limit": -1}]}, 400),
        ("query/batch", {"searches": [{"query": [0.1] * DIMENSIONS, "using": "v", "filter": {"musst": []}}]}, 400),
        ("query/batch", {"searches": [{"using": "v", "filter": {"must": [{"key": "n"}]}}]}, 400),
        ("delete", {}, 400),
        ("payload", {"payload": {"a": 1}, "points": [77]}, 404),
        ("payload", {"payload": 7, "points": [1]}, 400),
    ],
)
async def test_invalid_input_returns_status_of_qdrant_server(two_points, path, body, status):
    content = {"content": body} if isinstance(body, bytes) else {"json": body}

    reply = await two_points.post(f"/collections/c/points/{path}", **content)

    assert reply.status_code == status, reply.text
    assert reply.json()["status"]["error"]


@pytest.mark.parametrize(
    "point",
    [
        {"id": -1, "vector": {}},
        {"id": True, "vector": {}},
        {"id": "no-uuid", "vector": {}},
        {"vector": {}},
        {"id": 1},
        {"id": 1, "vector": {"v": ["a"] * DIMENSIONS}},
        {"id": 1, "vector": {"v": [1.0]}},
        {"id": 1, "vector": {"v": in_base64([1.0])}},
        {"id": 1, "vector": {"v": in_base64([float("nan")] * DIMENSIONS)}},
        {"id": 1, "vector": {"v": in_base64([1.0] * DIMENSIONS)[:-4]}},
        {"id": 1, "vector": {"v": "not base64!"}},
        {"id": 1, "vector": {"s": {"indices": [1, 2], "values": [1.0]}}},
        {"id": 1, "vector": {"s": {"indices": [1, 1], "values": [1.0, 2.0]}}},
        {"id": 1, "vector": {}, "payload": []},
    ],
)
async def test_request_with_malformed_point_is_rejected_completely(two_points, point):
    reply = await two_points.put("/collections/c/points?wait=true", json={"points": [*points(10, 200), point]})

    assert reply.status_code in (400, 422), reply.text
    assert await count(two_points) == 2


async def test_announced_base64_vector_equals_its_numbers(shared):
    await create(shared, "b")
    numbers = {"id": 1, "vector": {"v": vector(1)}}
    await upsert(shared, [numbers, {"id": 2, "vector": {"v": in_base64(vector(1))}}], "b")

    reply = await shared.post("/collections/b/points", json={"ids": [1, 2], "with_vector": True})

    announced = (await shared.get("/collections/b")).json()["result"]["vector_encodings"]
    await shared.delete("/collections/b")
    assert "base64" in announced
    of_numbers, of_base64 = (point["vector"]["v"] for point in reply.json()["result"])
    assert of_numbers == of_base64 == pytest.approx(np.array(vector(1)) / np.linalg.norm(vector(1)))


@pytest.mark.parametrize(
    "quantization",
    [
        {"scalar": {"type": "int8", "memory": "pinned"}},
        {"product": {"compression": "x16"}},
        {"binary": {"encoding": "two_bits", "query_encoding": "scalar8bits"}},
        {"turbo": {"bits": "bits1_5"}},
    ],
    ids=lambda quantization: next(iter(quantization)),
)
async def test_quantization_follows_collection_or_vector_settings(shared, quantization):
    one = {"size": 2, "distance": "Dot", "quantization_config": quantization}
    body = {"vectors": {"v": one}, "quantization_config": quantization}

    assert (await shared.put("/collections/q", json=body)).status_code == 200

    config = (await shared.get("/collections/q")).json()["result"]["config"]
    await shared.delete("/collections/q")
    assert config["quantization_config"] == config["params"]["vectors"]["v"]["quantization_config"] == quantization


@pytest.mark.parametrize(
    "quantization", [{}, {"scalar": {}}, {"product": {"compression": "x3"}}, {"scalar": {"type": "int8"}, "turbo": {}}]
)
async def test_malformed_quantization_is_rejected(shared, quantization):
    reply = await shared.put("/collections/d", json={**SMALL, "quantization_config": quantization})

    assert reply.status_code == 400, reply.text
    assert (await shared.get("/collections/d/exists")).json()["result"] == {"exists": False}


async def test_server_reports_health_and_version(shared):
    assert [(await shared.get(path)).status_code for path in ("/healthz", "/livez", "/readyz")] == [200, 200, 200]
    assert (await shared.get("/")).json()["version"].startswith("1.")


# --- durability ---


async def test_request_with_rebound_host_name_is_refused(shared):
    for host, status in (("qdrant.example.com", 400), ("localhost:6333", 200)):
        assert (await shared.get("/collections", headers={"host": host})).status_code == status


async def test_acknowledged_writes_survive_kill_9(server, tmp_path):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await create(http)
        await http.put("/collections/c/index", json={"field_name": "n", "field_schema": "integer"})
        await upsert(http, points(1, 300))
        await http.post("/collections/c/points/delete?wait=true", json={"points": [1, 2]})
        await http.post("/collections/c/points/payload?wait=true", json={"payload": {"seen": 1}, "points": [3]})

    server.kill()
    server.start()

    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        assert await count(http) == 298
        assert await count(http, condition={"must": [{"key": "seen", "match": {"value": 1}}]}) == 1
        info = (await http.get("/collections/c")).json()["result"]
        assert info["payload_schema"]["n"]["data_type"] == "integer"
        assert info["config"]["params"]["vectors"]["v"]["size"] == DIMENSIONS
        assert info["config"]["params"]["sparse_vectors"] == {"s": {"modifier": "idf"}}


async def test_kill_9_during_load_loses_no_acknowledged_write(server):
    """Queries arrive meanwhile, so that no write is flushed before the kill."""
    answered = []
    search = {"searches": [{"query": vector(5), "using": "v", "limit": 1}]}

    async def load(stream):
        async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
            for first in range(stream, 1_000_000, 200):
                batch = points(first, 100)
                try:
                    await upsert(http, batch)
                except httpx.HTTPError:
                    return
                answered.extend(point["id"] for point in batch)

    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=TIMEOUT_SECONDS) as http:
        await create(http)
    streams = [asyncio.create_task(load(stream)) for stream in (0, 100)]
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        while len(answered) < 2000:
            (await http.post("/collections/c/points/query/batch", json=search)).raise_for_status()
            await asyncio.sleep(0.01)
    server.kill()
    await asyncio.gather(*streams)
    server.start()

    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        reply = await http.post("/collections/c/points", json={"ids": answered, "with_payload": False})
        assert len(reply.json()["result"]) == len(answered)


async def test_collection_that_exists_for_second_creator_accepts_writes(shared):
    async def create_and_count():
        reply = await shared.put("/collections/contended", json={"vectors": VECTORS})
        return reply.status_code, (await shared.post("/collections/contended/points/count", json={})).status_code

    replies = await asyncio.gather(*(create_and_count() for _ in range(4)))

    await shared.delete("/collections/contended")
    assert sorted(replies) == [(200, 200), (409, 200), (409, 200), (409, 200)]


async def test_incomplete_collection_is_removed_at_start(tmp_path):
    half = tmp_path / "collections" / "half"
    (half / "shard-0").mkdir(parents=True)
    store = Store(tmp_path)

    await store.start()

    assert (store.names(), half.exists()) == ([], False)
    await store.create("half", {"vectors": VECTORS})
    await store.close()


def test_second_process_on_same_folder_is_rejected(lasting_server):
    folder = lasting_server.directory / "data"
    command = [
        sys.executable,
        "-m",
        "embedded.qdrant",
        "--data-dir",
        folder,
        "--port",
        "1",
        "--key-file",
        folder / "api-key",
    ]
    second = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert second.returncode == 1
    assert f"in use by process {lasting_server.supervisor.pids()['qdrant']}" in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1


# --- optimizing ---

EAGER = {"optimizers_config": {"indexing_threshold": 100}, "hnsw_config": {"m": 8, "ef_construct": 32}}


async def until_green(http, name="c"):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        info = (await http.get(f"/collections/{name}")).json()["result"]
        if info["status"] == "green":
            return info
        await asyncio.sleep(0.1)
    raise AssertionError(info)


async def nudge(http):
    reply = await http.patch("/collections/c", json={"optimizers_config": {}})
    assert reply.json()["result"] is True


async def test_optimizer_after_start_waits_for_write(server):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await create(http, **EAGER)
        await upsert(http, points(1, 500))
    server.kill()
    server.start()

    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await asyncio.sleep(2)  # longer than the pause after which it would start without a write
        assert (await http.get("/collections/c")).json()["result"]["status"] == "grey"
        await upsert(http, points(1, 1))
        info = await until_green(http)

    assert info["indexed_vectors_count"] >= 500


async def test_restart_resumes_optimization_of_grey_collection_once(server):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await create(http, **EAGER)
        await upsert(http, points(1, 500))
    server.kill()
    server.start()

    index = Index(server.url, api_key=server.key)
    assert await index.nudge("c")
    assert not await index.nudge("nowhere")
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await until_green(http)
    assert not await index.nudge("c")
    await index.aclose()


async def test_large_collection_is_indexed_in_background(http, server):
    await create(http, **EAGER)
    await upsert(http, points(1, 2000))

    assert (await http.get("/collections/c")).json()["result"]["status"] in ("grey", "yellow")
    info = await until_green(http)

    assert info["indexed_vectors_count"] >= 2000
    assert info["points_count"] == 2000
    assert [path.name for path in sorted((server.directory / "data/collections/c").glob("shard-*"))] == ["shard-1"]


async def test_group_graphs_are_built_in_background(http):
    graphs = {"m": 0, "payload_m": 8, "ef_construct": 32, "full_scan_threshold": 10}
    await create(http, optimizers_config=EAGER["optimizers_config"], hnsw_config=graphs)
    group = {"field_name": "group", "field_schema": {"type": "keyword", "is_tenant": True}}
    await http.put("/collections/c/index?wait=true", json=group)
    for first in (1, 501):
        await upsert(http, points(first, 500, group=f"from {first}"))

    info = await until_green(http)

    assert info["indexed_vectors_count"] >= 1000
    where = {"must": [{"key": "group", "match": {"value": "from 501"}}]}
    query = {"searches": [{"query": vector(5), "using": "v", "limit": 20, "filter": where}]}
    (result,) = (await http.post("/collections/c/points/query/batch", json=query)).json()["result"]
    assert len(result["points"]) == 20
    assert all(501 <= point["id"] <= 1000 for point in result["points"])


async def test_small_vector_scores_equal_full_vector_scores(http):
    small = {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}}
    await create(http, **EAGER, quantization_config=small)
    await upsert(http, points(1, 1000))
    await until_green(http)

    body = {"query": vector(5), "using": "v", "limit": 20}
    searches = [body, body | {"params": SEARCH_PARAMS}]
    rough, exact = (await http.post("/collections/c/points/query/batch", json={"searches": searches})).json()["result"]

    def error(result):
        return max(abs(point["score"] - cosine(vector(5), vector(point["id"]))) for point in result["points"])

    assert error(exact) < 1e-6 < error(rough)


def cosine(one, other):
    return float(np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other))


@guards(
    "embedded/qdrant/collection.py",
    "self._replayed_bytes, end]",
    "self._replayed_bytes, self._replayed_bytes]",
    means="writes during an optimization are not repeated",
)
async def test_writes_during_optimization_survive_kill_9(server):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await create(http, **EAGER)
        await upsert(http, points(1, 3000))
        while (await http.get("/collections/c")).json()["result"]["status"] != "yellow":
            await asyncio.sleep(0.02)
        await upsert(http, points(10_000, 100))
        await http.post("/collections/c/points/delete?wait=true", json={"points": [1, 2, 3]})
        await http.post("/collections/c/points/payload?wait=true", json={"payload": {"n": -1}, "points": [10_000]})
        await http.post("/collections/c/points/payload?wait=true", json={"payload": {"n": 0}, "points": [4, 999_999]})
        assert (await http.get("/collections/c")).json()["result"]["status"] == "yellow"
        await until_green(http)
        assert await count(http) == 3097
        assert await count(http, condition={"must": [{"key": "n", "match": {"value": -1}}]}) == 1
        assert await count(http, condition={"must": [{"key": "n", "match": {"value": 0}}]}) == 1

    server.kill()
    server.start()

    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        assert await count(http) == 3097
        assert (await http.get("/collections/c")).json()["result"]["indexed_vectors_count"] >= 2900


async def test_kill_9_during_optimization_loses_nothing(server):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await create(http, **EAGER)
        await upsert(http, points(1, 3000))
        while (await http.get("/collections/c")).json()["result"]["status"] != "yellow":
            await asyncio.sleep(0.02)
        await upsert(http, points(10_000, 50))
    server.kill()
    server.start()

    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        assert await count(http) == 3050
        await nudge(http)
        await until_green(http)
        assert await count(http) == 3050


async def test_stop_during_optimization_is_quick_and_loses_nothing(server):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await create(http, optimizers_config={"indexing_threshold": 100}, hnsw_config={"m": 64, "ef_construct": 1000})
        await upsert(http, points(1, 3000))
        while (await http.get("/collections/c")).json()["result"]["status"] != "yellow":
            await asyncio.sleep(0.02)
        await upsert(http, points(10_000, 50))
        optimizers = await until_optimizing(server)
    started = time.monotonic()
    server.stop()

    assert time.monotonic() - started < 10
    _, running = psutil.wait_procs(optimizers, timeout=30)  # killed: the system reports the exit with a delay
    assert not running
    server.start()
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        assert await count(http) == 3050
        assert [path.name for path in (server.directory / "data/collections/c").glob("shard-*")] == ["shard-0"]


async def until_optimizing(server):
    serving = psutil.Process(server.supervisor.pids()["qdrant"])
    while not (children := serving.children(recursive=True)):
        await asyncio.sleep(0.02)
    return children


@guards(
    "embedded/asgi.py",
    "        self._flush()\n        self._transport.close()",
    "        self._transport.close()",
    means="a reply is lost if its connection is closed",
)
async def test_closing_client_gets_whole_reply(lasting_server):
    reader, writer = await asyncio.open_connection("127.0.0.1", lasting_server.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")

    reply = await reader.read()

    writer.close()
    assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
    assert reply.endswith(b"\r\n\r\nhealthz check passed")


async def test_bulk_load_is_indexed_incrementally(http):
    await create(http, optimizers_config={"indexing_threshold": 100}, hnsw_config={"m": 4, "ef_construct": 4})
    written, segments, deadline = 0, 0, time.monotonic() + 60
    while segments < 3 and time.monotonic() < deadline:
        await upsert(http, points(written, 100))
        written += 100
        segments = (await http.get("/collections/c")).json()["result"]["segments_count"]

    assert segments == 3  # two indexed segments and the one for writes
    assert await count(http) == written


async def written_in_two_segments(collection, first=1):
    for start in (first, first + 500):
        await write(collection, points(start, 500))
        await maintained(collection, lambda start=start: indexed_at_least(collection, start + 400))


def graph_bytes(collection):
    return sum(path.stat().st_size for path in collection._shard_directory().rglob("links*"))


@guards(
    "embedded/qdrant/collection.py",
    "if with_graphs or self._graphless_points < self._optimized_points else",
    "if True else",
    means="graphs are built during a load, and again after it",
)
@guards(
    "embedded/qdrant/collection.py",
    "self._take_over(successor, points, 0 if with_graphs else",
    "self._take_over(successor, points, 0 if True else",
    means="no graphs are built after a load",
)
async def test_graphs_are_built_once_after_load(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    await written_in_two_segments(collection)
    assert (await collection.info())["segments_count"] == 3
    without_graphs = graph_bytes(collection)

    monkeypatch.setattr(collection_module, "CALM_SECONDS", 0.5)
    await maintained(collection, lambda: has_segments(collection, 2))

    info = await collection.info()
    assert info["points_count"] == info["indexed_vectors_count"] == 1000
    assert graph_bytes(collection) > 1.5 * without_graphs
    await write(collection, points(1, 1))
    assert not collection._are_graphs_due(calm=True)


@guards(
    "embedded/qdrant/collection.py",
    "if with_graphs or self._graphless_points < self._optimized_points else",
    "if with_graphs else",
    means="a load removes the graphs of older points",
)
async def test_later_load_leaves_graphs(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    await written_in_two_segments(collection)
    with monkeypatch.context() as calm:
        calm.setattr(collection_module, "CALM_SECONDS", 0.5)
        await maintained(collection, lambda: has_segments(collection, 2))
    before = graph_bytes(collection)

    await write(collection, points(2001, 500))
    await maintained(collection, lambda: has_segments(collection, 3))

    assert graph_bytes(collection) >= before


async def test_long_load_gets_graphs_before_its_end(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(collection_module, "CALM_SECONDS", NEVER)
    monkeypatch.setattr(collection_module, "MOST_GRAPHLESS_POINTS", 1000)

    await written_in_two_segments(collection)

    await maintained(collection, lambda: has_segments(collection, 2))


@guards(
    "embedded/qdrant/collection.py",
    "or (self._awaits_nudge and self._are_graphs_due(calm=True))",
    "or False",
    means="a restart between a load and its graphs leaves searches slow until the next write",
)
async def test_restart_before_graphs_is_grey(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    await written_in_two_segments(collection)
    await collection.close()

    again = await ServedCollection.open(collection.directory, lambda: None)

    try:
        assert (await again.info())["status"] == "grey"
        monkeypatch.setattr(collection_module, "CALM_SECONDS", 0.5)
        again.nudge()
        await maintained(again, lambda: has_segments(again, 2))
        await maintained(again, lambda: again._optimization is None)
        assert (await again.info())["status"] == "green"
    finally:
        await again.close()


@guards(
    "embedded/qdrant/queries.py", "rescore=True", "rescore=False", means="scores are of vectors of a byte per number"
)
async def test_indexed_points_are_scored_by_full_vectors(collection, monkeypatch):
    """Vectors of a byte per number select candidates; their scores would be off by up to 0.006."""
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    vectors = np.random.default_rng(7).standard_normal((1001, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    *stored, asked = vectors.tolist()
    await write(collection, [{"id": number, "vector": {"v": vector}} for number, vector in enumerate(stored)])
    await maintained(collection, lambda: indexed_at_least(collection, 1000))

    search = {"query": asked, "using": "v", "limit": 10}
    (found,) = orjson.loads(await collection.read(RequestKind.QUERY, orjson.dumps({"searches": [search]})))

    nearest = sorted(enumerate((vectors[:-1] @ vectors[-1]).tolist()), key=lambda item: -item[1])[:10]
    assert [point["id"] for point in found["points"]] == [number for number, _ in nearest]
    assert [point["score"] for point in found["points"]] == pytest.approx([score for _, score in nearest], abs=1e-5)


# A segment of 150 KB holds the vectors of 600 points.
@pytest.mark.parametrize("collection", [EAGER["optimizers_config"] | {"max_segment_size": 150}], indirect=True)
async def test_full_segments_are_not_merged_again_when_idle(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "CALM_SECONDS", 0.2)
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    for first in (1, 501, 1001):
        await write(collection, points(first, 500))
        await maintained(collection, lambda first=first: indexed_at_least(collection, first + 400))
    await maintained(collection, lambda: collection._graphless_points == 0 and collection._optimization is None)
    assert (await collection.info())["segments_count"] > schema.JOINED_SEGMENTS

    await write(collection, points(1, 1))

    assert not collection._are_graphs_due(calm=True)


async def test_writes_continue_during_replay(collection, monkeypatch):
    """Only for the last replay do writes wait; each replay is of the writes during the one before."""
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(collection_module, "REPLAYED_LAST_BYTES", 0)
    replayed_bytes, replay = [], WriteRecord.replay

    async def replay_and_write(record, process):
        replayed_bytes.append(record.unreplayed_bytes)
        if len(replayed_bytes) < 3:
            await asyncio.gather(replay(record, process), write(collection, points(20_000, 1)))
        else:
            await replay(record, process)

    monkeypatch.setattr(WriteRecord, "replay", replay_and_write)
    await write(collection, points(1, 500))
    await maintained(collection, lambda: collection._record is not None)
    await write(collection, points(10_000, 1280))

    await maintained(collection, lambda: collection._number == 1)

    assert replayed_bytes[0] > 100 * replayed_bytes[1] > 0
    assert replayed_bytes[1] == replayed_bytes[2]
    assert replayed_bytes[3:] == [0]  # while later writes waited
    assert (await collection.info())["points_count"] == 500 + 1280 + 1


@guards(
    "embedded/qdrant/collection.py",
    "await self._process.ask(RequestKind.HOLD)",
    "pass",
    means="a copy is made while a write is applied",
)
async def test_copy_has_every_write_that_is_not_recorded(collection):
    await write(collection, points(1, 500))
    early = asyncio.create_task(write(collection, points(10_000, 5000)))
    await asyncio.sleep(0)  # it is sent, and takes about a second

    collection._start_optimization(with_graphs=False)
    await early
    await maintained(collection, lambda: collection._number == 1)

    assert (await collection.info())["points_count"] == 5500


async def test_repeated_writes_are_on_disk_before_takeover(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    states = []
    monkeypatch.setattr(
        collection_module, "sync", lambda _: states.append((collection._record.unreplayed_bytes, collection._number))
    )
    await write(collection, points(1, 500))
    await maintained(collection, lambda: collection._record is not None)
    await write(collection, points(10_000, 100))

    await maintained(collection, lambda: collection._number == 1)

    assert states[-1] == (0, 0)


async def test_fast_writes_end_replay(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(collection_module, "REPLAYED_LAST_BYTES", -1)
    monkeypatch.setattr(collection_module, "REPLAY_ROUNDS", 3)
    rounds, replay = [], WriteRecord.replay
    monkeypatch.setattr(WriteRecord, "replay", lambda *arguments: rounds.append(1) or replay(*arguments))
    await write(collection, points(1, 500))
    await maintained(collection, lambda: collection._optimization is not None)

    await maintained(collection, lambda: collection._number == 1)

    assert len(rounds) == 4


async def test_full_disk_fails_optimization_but_no_write(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    (collection.directory / "shard-1.writes").symlink_to("/dev/full")
    await write(collection, points(1, 500))
    await maintained(collection, lambda: collection._record is not None)
    optimization = collection._optimization

    for first in range(10_000, 10_100):
        await write(collection, points(first, 1))
    await asyncio.wait([optimization])
    for first in range(10_100, 10_200):
        await write(collection, points(first, 1))

    assert collection._number == 0
    assert sorted(path.name for path in collection.directory.iterdir()) == ["collection.json", "shard-0"]
    assert (await collection.info())["points_count"] == 700


async def test_copy_that_cannot_be_loaded_is_dropped(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "IDLE_SECONDS", 0.1)
    optimize, damaged = collection._optimize_copy, []

    async def optimize_and_damage(target, *, with_graphs):
        await optimize(target, with_graphs=with_graphs)
        damaged.extend(path.write_bytes(b"\xff" * 64) for path in target.rglob("*") if path.is_file())

    monkeypatch.setattr(collection, "_optimize_copy", optimize_and_damage)
    await write(collection, points(1, 500))

    await maintained(collection, lambda: damaged and collection._optimization is None)

    assert collection._number == 0
    assert (await collection.info())["points_count"] == 500
    await write(collection, points(501, 1))


async def test_server_restarts_if_process_of_collection_dies(server):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await create(http)
        await upsert(http, points(1, 300))
        before = server.supervisor.pids()["qdrant"]
        (serving,) = psutil.Process(before).children(recursive=True)
        serving.kill()
        await eventually(lambda: server.supervisor.pids().get("qdrant") not in (None, before))

    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await eventually(lambda: is_ready(http))
        assert await count(http) == 300


async def is_ready(http):
    with suppress(httpx.HTTPError):
        return (await http.get("/readyz")).is_success


async def indexed_at_least(collection, points):
    return (await collection.info())["indexed_vectors_count"] >= points


async def has_segments(collection, segments):
    return (await collection.info())["segments_count"] == segments


@pytest.fixture
async def collection(request, tmp_path):
    optimizers = getattr(request, "param", EAGER["optimizers_config"])
    ServedCollection.create(tmp_path / "c", {"vectors": VECTORS, **EAGER, "optimizers_config": optimizers})
    died = []
    collection = await ServedCollection.open(tmp_path / "c", lambda: died.append(True))
    yield collection
    await collection.close()
    assert not died


VECTORS = {"v": {"size": DIMENSIONS, "distance": "Cosine"}}


async def write(collection, batch):
    await collection.write(RequestKind.UPSERT, orjson.dumps({"points": batch}))


async def maintained(collection, condition):
    async def holds():
        await collection.maintain()
        held = condition()
        return await held if isawaitable(held) else held

    await eventually(holds)


# --- the process of a collection ---

NEVER, AT_ONCE = 1e9, -1.0  # seconds


@pytest.fixture
def shard(tmp_path):
    ServedCollection.create(tmp_path / "c", {"vectors": VECTORS})
    shard = Shard(tmp_path / "c/shard-0", {"vectors": VECTORS})
    yield shard
    shard.close()


def write_all(shard, batch):
    """Return the number of steps."""
    return len(list(shard.write(RequestKind.UPSERT, orjson.dumps({"points": batch}))))


def query(shard):
    return read(shard, SEARCH)


def read(shard, body):
    """Return the result of a search, and the number of its steps."""
    steps, count = shard.read(RequestKind.QUERY, body), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


SEARCH = {"searches": [{"query": [1.0] * DIMENSIONS, "using": "v", "limit": 1}]}


@pytest.mark.parametrize(
    ("queried", "latest_points", "is_flushed"),
    [(False, NEVER, True), (True, NEVER, False), (True, 299, True), (True, 300, False)],
)
def test_flush_waits_while_queries_arrive(shard, monkeypatch, queried, latest_points, is_flushed):
    monkeypatch.setattr(shard_module, "IDLE_SECONDS", AT_ONCE)
    monkeypatch.setattr(shard_module, "SYNC_EVERY_SECONDS", AT_ONCE)
    monkeypatch.setattr(shard_module, "QUIET_SECONDS", NEVER)
    monkeypatch.setattr(shard_module, "LATEST_FLUSH_POINTS", latest_points)
    if queried:
        query(shard)
    write_all(shard, points(1, 300))
    synced = []
    monkeypatch.setattr(shard_module, "sync", synced.append)

    assert shard.sync_if_due() is not None
    shard._syncing.join()
    shard.sync_if_due()

    assert synced  # pages are written to disk in any case
    assert (shard._unflushed_since is None) == is_flushed


def test_flush_runs_after_last_query(shard, monkeypatch):
    monkeypatch.setattr(shard_module, "IDLE_SECONDS", AT_ONCE)
    monkeypatch.setattr(shard_module, "QUIET_SECONDS", 0.2)
    write_all(shard, points(1, 300))
    query(shard)

    wait_until(lambda: shard.sync_if_due() is None)

    assert time.monotonic() - shard._last_query > 0.2
    write_all(shard, points(1, 1))
    assert shard._unflushed_since > shard._last_query


@guards(
    "embedded/qdrant/shard.py",
    "if self._unflushed_since is None or self._held:",
    "if self._unflushed_since is None:",
    means="files of a collection change while they are copied",
)
def test_held_shard_changes_no_file(shard, monkeypatch):
    monkeypatch.setattr(shard_module, "IDLE_SECONDS", AT_ONCE)
    write_all(shard, points(1, 300))

    shard.hold()

    assert shard.sync_if_due() is None
    assert shard._unflushed_since is not None
    shard.release()
    wait_until(lambda: shard.sync_if_due() is None)
    assert shard._unflushed_since is None


@pytest.mark.parametrize(("queried", "operations"), [(False, 5), (True, 19)])
def test_large_upsert_is_read_and_written_in_parts(shard, monkeypatch, queried, operations):
    monkeypatch.setattr(shard_module, "QUIET_SECONDS", NEVER)
    if queried:
        query(shard)

    assert write_all(shard, points(1, 300)) == 10 + operations  # 32 points are read at once
    assert shard.info()["points_count"] == shard.written_points == 300


@guards(
    "embedded/qdrant/serving.py",
    "may_start=overtaken < READS_AN_OPERATION or not is_writing",
    "may_start=True",
    means="writes wait until no query is left",
)
@guards(
    "embedded/qdrant/serving.py",
    "READS_AN_OPERATION = 8",
    "READS_AN_OPERATION = 0",
    means="queries wait until a write is complete",
)
def test_queries_overtake_writes_which_end_nevertheless(shard):
    server, process = socket.socketpair()
    upsert = orjson.dumps(
        {"points": points(1, 160)}
    )  # five steps to read it, ten operations of 16 points, and the reply
    messages = [packed(1, RequestKind.UPSERT, upsert)]
    messages += [packed(number, RequestKind.QUERY, orjson.dumps(SEARCH)) for number in range(2, 201)]
    with server, process:
        sending = threading.Thread(target=server.sendall, args=(b"".join(messages),))
        sending.start()
        replies = ReplyReader(server)
        reading = threading.Thread(target=replies.read, args=(200,))
        reading.start()
        Serving(Inbox(process), shard).run()
        reading.join()
        sending.join()

    assert replies.codes == {DONE}
    assert sorted(replies.numbers) == list(range(1, 201))
    overtook = replies.numbers.index(1)
    assert 0 < READS_AN_OPERATION <= overtook <= 16 * READS_AN_OPERATION


def searched(tenant, conditions, limit=1000):
    """Return a search of a tenant's points by conditions on fields without an index."""
    must = [{"key": "tenant", "match": {"value": tenant}}, *conditions]
    return {"searches": [{"query": [1.0] * DIMENSIONS, "using": "v", "limit": limit, "filter": {"must": must}}]}


def costly(values):
    """Return a condition that the engine would evaluate many times for each point."""
    return {"should": [{"key": "n", "match": {"value": value}} for value in values]}


async def of_tenants(shard, count):
    """Store so many points of each tenant."""
    for tenant in ("acme", "beta"):
        stored = [
            {"id": number, "vector": {"v": vector(number)}, "payload": {"tenant": tenant, "n": number % count}}
            for number in range(1 + (tenant == "beta") * count, 1 + count + (tenant == "beta") * count)
        ]
        write_all(shard, stored)
    list(shard.write(RequestKind.CREATE_INDEX, orjson.dumps({"field_name": "tenant", "field_schema": "keyword"})))


@pytest.mark.parametrize("values", [[], [3], range(40), range(299), range(300)])
async def test_costly_filter_finds_the_same_points_in_steps(shard, values):
    await of_tenants(shard, 300)
    unknown = range(1000, 1010)

    (one,), few_steps = read(shard, searched("acme", [{"key": "n", "match": {"any": list(values) or [-1]}}]))
    (found,), steps = read(shard, searched("acme", [costly([*values, *unknown])]))

    assert sorted(point["id"] for point in found["points"]) == sorted(point["id"] for point in one["points"])
    assert len(found["points"]) == len(values)
    assert [point["score"] for point in found["points"]] == sorted((p["score"] for p in found["points"]), reverse=True)
    assert (few_steps, steps > 3) == (0, True)


@guards(
    "embedded/qdrant/narrowing.py",
    "NARROWED_CONDITIONS = 2",
    "NARROWED_CONDITIONS = 5",
    means="a search with four conditions delays other tenants until its end",
)
@pytest.mark.parametrize("count", [2, 3, 4])
async def test_few_conditions_are_evaluated_in_steps(shard, monkeypatch, count):
    await of_tenants(shard, 300)
    body = searched("acme", [costly(range(count))])

    (stepped,), steps = read(shard, body)
    monkeypatch.setattr("embedded.qdrant.narrowing._MOST_POINTS_OF_FEW", 0)
    (left,), of_engine = read(shard, body)

    assert sorted(point["id"] for point in stepped["points"]) == sorted(point["id"] for point in left["points"])
    assert len(left["points"]) == count
    assert steps > of_engine == 1


def replies_to(shard, messages, count):
    """Return the numbers of the first replies in their order."""
    server, its = socket.socketpair()
    with server, its:
        server.sendall(b"".join(messages))
        replies = ReplyReader(server)
        reading = threading.Thread(target=replies.read, args=(count,))
        reading.start()
        Serving(Inbox(its), shard).run()
        reading.join()
    assert replies.codes == {DONE}
    return replies.numbers


@guards(
    "embedded/qdrant/turns.py",
    "self._waiting.move_to_end(tenant)",
    "self._waiting.move_to_end(tenant, last=False)",
    means="the expensive searches of a tenant delay the searches of other tenants",
)
@guards(
    "embedded/qdrant/shard.py",
    "if any(is_costly(search.get(",
    "if not any(is_costly(search.get(",
    means="an expensive search of a tenant cannot be interrupted",
)
async def test_costly_searches_of_tenant_delay_another_by_steps(shard):
    await of_tenants(shard, 300)
    slow, fast = orjson.dumps(searched("acme", [costly(range(60))])), orjson.dumps(searched("beta", []))
    messages = [packed(number, RequestKind.QUERY, slow) for number in range(1, 7)]
    messages += [packed(number, RequestKind.QUERY, fast) for number in range(7, 10)]

    numbers = replies_to(shard, messages, 9)

    assert numbers == [7, 8, 9, 1, 2, 3, 4, 5, 6]


async def test_cancelled_searches_are_not_executed(shard):
    await of_tenants(shard, 300)
    slow = orjson.dumps(searched("acme", [costly(range(60))]))
    messages = [packed(number, RequestKind.QUERY, slow) for number in range(1, 5)]
    messages += [packed(number, RequestKind.CANCEL, b"") for number in (1, 3, 9)]

    assert replies_to(shard, messages, 2) == [2, 4]


@guards(
    "embedded/qdrant/server.py",
    "timeout=seconds, return_when",
    "timeout=None, return_when",
    means="a search does not end at its deadline",
)
async def test_search_ends_at_its_deadline(server):
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:
        await create(http)
        payloads = [{**point, "payload": {"tenant": "acme", "n": 1}} for point in points(1, 600)]
        await upsert(http, payloads)
        slow = searched("acme", [costly(range(10_000, 60_000))], limit=1)
        address = "/collections/c/points/query/batch"

        stopped = await http.post(f"{address}?timeout=1", json=slow)
        answered = await http.post(address, json=searched("beta", []))
        malformed = await http.post(f"{address}?timeout=0", json=slow)

    assert (stopped.status_code, answered.status_code, malformed.status_code) == (408, 200, 400)
    assert "timed out after 1 seconds" in stopped.json()["status"]["error"]


class ReplyReader:
    def __init__(self, end):
        self.end = end
        self.file = end.makefile("rb")
        self.numbers, self.codes = [], set()

    def read(self, count):
        with self.file:
            for _ in range(count):
                size, number, code = HEAD.unpack(self.file.read(HEAD.size))
                self.file.read(size)
                self.numbers.append(number)
                self.codes.add(code)
        self.end.shutdown(socket.SHUT_RDWR)  # the other end stops


async def test_collection_is_deletable_during_optimization(http):
    await create(http, **EAGER)
    await upsert(http, points(1, 3000))
    while (await http.get("/collections/c")).json()["result"]["status"] != "yellow":
        await asyncio.sleep(0.02)

    assert (await http.delete("/collections/c")).json()["result"] is True
    await create(http, **EAGER)
    await upsert(http, points(1, 10))

    assert await count(http) == 10


async def test_server_answers_during_indexing(http):
    await create(http, optimizers_config={"indexing_threshold": 100}, hnsw_config={"m": 32, "ef_construct": 256})
    await upsert(http, points(1, 4000))
    query = {"searches": [{"query": vector(5), "using": "v", "limit": 3}]}
    answered_while_optimizing = 0
    while (status := (await http.get("/collections/c")).json()["result"]["status"]) != "green":
        (result,) = (await http.post("/collections/c/points/query/batch", json=query)).json()["result"]
        assert len(result["points"]) == 3
        answered_while_optimizing += status == "yellow"

    assert answered_while_optimizing > 10


async def test_replayed_conditional_update_has_same_effect(server):
    newer = {"must": [{"key": "n", "range": {"lt": 5000}}]}
    async with (
        server_client(server) as client,
        httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http,
    ):
        await create(http, **EAGER)
        await upsert(http, points(1, 3000))
        while (await http.get("/collections/c")).json()["result"]["status"] != "yellow":
            await asyncio.sleep(0.02)
        await upsert(http, [{"id": 1, "vector": {"v": vector(1)}, "payload": {"n": 6000}}], update_filter=newer)
        await upsert(http, [{"id": 1, "vector": {"v": vector(1)}, "payload": {"n": 7000}}], update_filter=newer)
        await until_green(http)
        (point,) = await client.retrieve("c", [1])

    assert point.payload == {"n": 6000}


def server_client(server):
    class Closing:
        async def __aenter__(self):
            self.client = server.client()
            return self.client

        async def __aexit__(self, *_):
            await self.client.close()

    return Closing()
