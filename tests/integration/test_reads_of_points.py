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
from shared.vectors.requests import Requests


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
    path = "/prefix/collections/a%20b%2Fc/points/query/batch"
    assert answers.requests == [(path, "secret", {"searches": [{"query": [0.1, 0.2]}]})]


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
