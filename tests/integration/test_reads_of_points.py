"""Each kind of reply of Qdrant to a search gives the right result or error."""

import asyncio
from datetime import timedelta

import numpy as np
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from shared.domain.errors import Permanent, Unavailable
from shared.vectors.index import Index
from shared.vectors.transport.errors import SearchStopped
from shared.vectors.transport.requests import Requests
from tests.support.planted import guards


class Answers:
    """A server that returns the configured reply to each request and records the requests."""

    def __init__(self):
        self.requests = []
        self.next = web.Response
        self.seconds = 0.0

    async def answer(self, request):
        self.requests.append((request.path_qs, request.headers.get("api-key"), orjson.loads(await request.read())))
        await asyncio.sleep(self.seconds)
        return self.next()


@pytest.fixture
async def answers():
    return Answers()


@pytest.fixture
async def index(answers):
    application = web.Application()
    application.router.add_post("/{path:.*}", answers.answer)
    async with TestServer(application) as server:
        index = Index(f"http://127.0.0.1:{server.port}/prefix", api_key=SecretStr("secret"))
        yield index
        await index.aclose()


def found(**point):
    return web.json_response({"result": [{"points": [point]}], "status": "ok"})


async def test_search_sends_key_to_prefixed_collection(index, answers):
    answers.next = lambda: found(id="a", score=0.5, payload={"chunk_id": "c"})
    vector = np.array([0.1, 0.2], dtype=np.float32)

    ((hit,),) = await index.search("a b/c", [{"query": vector}])

    assert (hit.id, hit.score, hit.payload, hit.vectors) == ("a", 0.5, {"chunk_id": "c"}, {})
    path = "/prefix/collections/a%20b%2Fc/points/query/batch?timeout=10"
    assert answers.requests == [(path, "secret", {"searches": [{"query": [0.1, 0.2]}]})]


@guards(
    "shared/vectors/transport/errors.py",
    "return self.status in _SLOW",
    "return self.status in ()",
    means="a search that Qdrant stopped counts as an outage of Qdrant",
)
@pytest.mark.parametrize("status", [408, 504])
async def test_stopped_search_says_how_to_make_it_faster(index, answers, status):
    answers.next = lambda: web.json_response({"status": {"error": "Operation timed out"}}, status=status)

    with pytest.raises(SearchStopped, match=r"stopped after 10 seconds.*declare the field with `filterable`"):
        await index.search("slow", [{"query": [0.1]}])

    answers.next = web.Response  # Qdrant answers, so nothing is probed
    await index.require()
    assert len(answers.requests) == 1


async def test_strict_mode_with_shorter_timeout_uses_its_own(index, answers):
    def refused():
        answers.next = lambda: found(id="a", score=0.5)
        return web.json_response({"status": {"error": 'Limit exceeded 10 > 5 for "timeout"'}}, status=400)

    answers.next = refused
    for _ in range(2):
        await index.search("strict", [{"query": [0.1]}])

    paths = [path.rpartition("/")[2] for path, _, _ in answers.requests]
    assert paths == ["batch?timeout=10", "batch", "batch"]


async def test_search_in_missing_collection_returns_none(index, answers):
    answers.next = lambda: web.Response(status=404)

    assert await index.search("absent", []) is None


@pytest.mark.parametrize(
    ("answer", "error", "after"),
    [
        ({"status": 429, "headers": {"retry-after": "7"}}, Unavailable, 7),
        ({"status": 429, "headers": {"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}}, Unavailable, 2),
        ({"status": 503}, Unavailable, 2),
        ({"status": 401}, Unavailable, 2),
        ({"status": 400}, Permanent, None),
    ],
)
async def test_qdrant_error_statuses_become_errors_without_names(index, answers, answer, error, after):
    text = "No shard of collection `another tenant` at http://10.0.0.7:6335 in /qdrant/another/tenant. Try again."
    answers.next = lambda: web.Response(**answer, text=text)

    with pytest.raises(error) as raised:
        await index.search("any", [])

    assert "(No shard of collection … at … in … Try again)" in str(raised.value)
    if after is not None:
        assert raised.value.retry_after == timedelta(seconds=after)


@pytest.mark.parametrize("body", ["", "no JSON", "[]", "{}", '{"result": null}'])
async def test_reply_without_result_is_unavailable(index, answers, body):
    answers.next = lambda: web.Response(text=body)

    with pytest.raises(Unavailable, match="cannot be reached"):
        await index.search("any", [])


async def test_late_reply_is_unavailable(index, answers):
    index._requests = Requests(index._requests._addresses, None, 0.01)
    answers.seconds = 0.1

    with pytest.raises(Unavailable, match="cannot be reached") as raised:
        await index.search("any", [])

    assert raised.value.__cause__.may_have_arrived


async def test_unreachable_server_is_unavailable():
    unreachable = Index("http://127.0.0.1:1")
    with pytest.raises(Unavailable, match="cannot be reached"):
        await unreachable.search("any", [])
    await unreachable.aclose()
