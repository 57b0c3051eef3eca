"""Several Qdrant nodes: if one does not answer, requests are sent to the next one without errors."""

import asyncio
import gc
from uuid import UUID

import numpy as np
import pytest
from structlog.testing import capture_logs

from features.all import FEATURES
from shared.domain.errors import Unavailable
from shared.process.network.http import Reply
from shared.services import build
from shared.vectors.index import Index
from shared.vectors.schema.points import Point
from shared.vectors.searches import probe
from shared.vectors.transport import addresses, connection
from tests.support.proxy import Fault, Link

NAME = "nodes"
SEARCHES = "/points/query/batch"


@pytest.fixture
async def nodes(settings):
    """Yield two links to the same Qdrant, each of which fails on demand."""
    links = [Link(settings.qdrant_url.removeprefix("http://").rstrip("/")) for _ in range(2)]
    for link in links:
        link.url = f"http://127.0.0.1:{await link.listen()}"
    yield links
    for link in links:
        await link.aclose()


@pytest.fixture(scope="module")
async def collection(settings):
    """Create the collection, and drop it at the end."""
    index = Index(settings.qdrant_url, api_key=settings.qdrant_api_key)
    await index.ensure_collection(NAME, 3)
    yield
    await index.drop_collection(NAME)
    await index.aclose()


@pytest.fixture
async def cluster(nodes, collection, settings):
    """Yield a client of both nodes that starts with the first, and empty the collection."""
    cluster = Index(*(node.url for node in nodes), api_key=settings.qdrant_api_key)
    await cluster.ensure_collection(NAME, 3)
    await cluster._delete(NAME, {})
    assert nodes[1].accepted == 0
    yield cluster
    await cluster.aclose()


async def search(cluster):
    return await cluster.search(NAME, [probe()])


async def write(cluster, number, count=1):
    points = [
        Point(str(UUID(int=n)), {"dense": np.array([0.1, 0.2, n], dtype=np.float32)}, {"version": 1, "token": 1})
        for n in range(number, number + count)
    ]
    await cluster.upsert(NAME, points)


async def count(cluster):
    return await cluster._count(NAME, {})


@pytest.mark.parametrize("mode", ["cut", "reset"])
async def test_node_failure_loses_no_query_and_no_write(cluster, nodes, mode):
    first, second = nodes

    async def load(worker):
        for step in range(10):
            await write(cluster, 100 * worker + step)
            assert await search(cluster) == [[]]

    loads = [asyncio.create_task(load(worker)) for worker in range(8)]
    while not first.accepted:
        await asyncio.sleep(0)
    with capture_logs() as logs:
        first.change(Fault(mode=mode))
        await asyncio.gather(*loads)
    accepted = first.accepted
    await write(cluster, 900)

    assert await count(cluster) == 81
    assert second.accepted > 0
    assert first.accepted == accepted
    assert [entry["address"] for entry in logs if entry["event"] == "qdrant.address_abandoned"] == [first.url[7:]]


async def test_write_with_lost_reply_is_repeated_elsewhere(cluster, nodes):
    nodes[0].change(Fault(swallow="PUT /collections", times=1))

    await write(cluster, 1, count=5)

    assert nodes[0].swallowed == 1
    assert await count(cluster) == 5


async def test_node_answering_503_is_abandoned(cluster, nodes):
    nodes[0].change(Fault(refuse=SEARCHES, status=503))

    assert [await search(cluster) for _ in range(3)] == [[[]]] * 3
    assert nodes[0].refused == 1


async def test_total_outage_tries_each_node_once(cluster, nodes):
    for node in nodes:
        node.change(Fault(refuse=SEARCHES, status=503))

    with pytest.raises(Unavailable):
        await search(cluster)

    assert [node.refused for node in nodes] == [1, 1]


async def test_status_500_is_not_retried_on_another_node(cluster, nodes):
    nodes[0].change(Fault(refuse=SEARCHES, status=500))

    with pytest.raises(Unavailable):
        await search(cluster)

    assert nodes[1].accepted == 0


async def test_recovered_first_node_is_used_again_later(cluster, nodes):
    nodes[0].change(Fault(mode="cut"))
    await search(cluster)
    nodes[0].change(Fault())
    before = nodes[0].accepted
    await search(cluster)
    assert nodes[0].accepted == before

    cluster._requests._addresses._return_at -= addresses._RETURN_SECONDS
    await search(cluster)

    assert nodes[0].accepted == before + 1


async def test_silent_node_is_abandoned_after_timeout(cluster, nodes):
    nodes[0].change(Fault(mode="hole"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await search(cluster)

    assert await search(cluster) == [[]]


async def test_unanswered_accepted_write_is_not_resent(nodes, cluster, settings, monkeypatch):
    monkeypatch.setattr(connection, "_TIMEOUT_SECONDS", 1)
    impatient = Index(*(node.url for node in nodes), api_key=settings.qdrant_api_key)
    nodes[0].change(Fault(mode="hole"))
    with pytest.raises(Unavailable):
        await search(impatient)

    assert nodes[1].accepted == 0
    await impatient.ensure_collection(NAME, 3)
    await impatient.aclose()


async def test_processes_start_with_different_nodes(settings):
    urls = [f"http://127.0.0.1:{port}" for port in range(1, 9)]
    first = set()
    for _ in range(8):
        async with build(
            "scheduler", settings.model_copy(update={"qdrant_url": ", ".join(urls)}), FEATURES
        ) as services:
            first.add(services.cleaner.index._requests._addresses._urls[0].geturl())

    assert len(first) > 1
    assert first <= set(urls)


async def test_requests_reuse_connection_and_release_memory(cluster, nodes):
    gc.collect()
    gc.disable()
    try:
        before, connections = requests_in_memory(), nodes[0].accepted
        for number in range(5):
            await write(cluster, number)
        assert nodes[0].accepted - connections <= 1  # a connection that was idle for long is reopened
        assert requests_in_memory() == before
    finally:
        gc.enable()


def requests_in_memory():
    return sum(type(each) is Reply for each in gc.get_objects())
