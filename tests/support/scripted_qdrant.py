"""A Qdrant server that refuses on demand: a proxy of the embedded engine with the replies of a real server.

The replies were recorded from a server of version 1.19: status, headers and text. A rule decides about each request; a
request without a reply of a rule reaches the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from shared.settings import Settings
from tests.support.qdrant import headers_of


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a server.

    Args:
        status: HTTP status; 0 to send no answer.
        text: Qdrant's words, which its error object contains.
        headers: header fields.
        is_plain: whether the body is the text alone, as for a wrong key, or as from a proxy.
    """

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    is_plain: bool = False

    def body(self) -> bytes:
        return self.text.encode() if self.is_plain else orjson.dumps({"status": {"error": self.text}, "time": 0.0001})


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the product."""

    method: str
    path: str
    body: Any
    key: str | None

    @property
    def collection(self) -> str:
        return (
            self.path.removeprefix("/collections/").partition("/")[0] if self.path.startswith("/collections/") else ""
        )

    @property
    def writes_points(self) -> bool:
        return "wait=true" in self.path and "/points" in self.path

    @property
    def points(self) -> list[dict[str, Any]]:
        """The points that the request writes."""
        if not self.writes_points:
            return []
        operations = self.body.get("operations", [{"upsert": self.body}])
        return [point for each in operations if "upsert" in each for point in each["upsert"].get("points", [])]

    @property
    def searches(self) -> list[dict[str, Any]]:
        return self.body["searches"] if "/points/query/batch" in self.path else []


Rule = Callable[[Request], Reply | None]


class ScriptedQdrant:
    """The server; `rules` decide, in their order, and `requests` are recorded."""

    def __init__(self, target: str, key: Mapping[str, str]) -> None:
        self._target = target.rstrip("/")
        self._key = key
        self.rules: tuple[Rule, ...] = ()
        self.requests: list[Request] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        content = await request.read()
        received = Request(
            request.method, request.path_qs, orjson.loads(content) if content else {}, request.headers.get("api-key")
        )
        self.requests.append(received)
        for rule in self.rules:
            if (reply := rule(received)) is not None:
                return await _answered(request, reply)
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method,
                f"{self._target}{request.raw_path}",
                data=content,
                headers={"content-type": "application/json", **self._key},
            ) as answer,
        ):
            return web.Response(
                status=answer.status,
                body=_without_announcement(await answer.read()),
                headers={"content-type": "application/json"},
            )


def _without_announcement(body: bytes) -> bytes:
    """Remove the announcement of the embedded engine, which a server does not make."""
    if b"vector_encodings" not in body:
        return body
    reply = orjson.loads(body)
    del reply["result"]["vector_encodings"]
    return orjson.dumps(reply)


async def _answered(request: web.Request, reply: Reply) -> web.StreamResponse:
    if reply.status == 0:
        await asyncio.Event().wait()
    kind = "text/plain" if reply.is_plain else "application/json"
    return web.Response(status=reply.status, body=reply.body(), headers={"content-type": kind, **reply.headers})


@asynccontextmanager
async def serving_qdrant(settings: Settings) -> AsyncIterator[ScriptedQdrant]:
    """Serve a scripted Qdrant, which accepts every key, in front of another one."""
    assert settings.qdrant_url is not None
    scripted = ScriptedQdrant(settings.qdrant_url, headers_of(settings))
    application = web.Application(client_max_size=100_000_000, handler_args={"handler_cancellation": True})
    application.router.add_route("*", "/{path:.*}", scripted.answer)
    async with TestServer(application) as server:
        scripted.url = f"http://127.0.0.1:{server.port}"
        yield scripted


# Rules of strict mode, which a managed Qdrant may set


def exceeded(value: int, most: int, name: str) -> Reply:
    text = (
        f'Bad request: Limit exceeded {value} > {most} for "{name}".'
        f' Help: Reduce the "{name}" parameter to or below {most}.'
    )
    return Reply(400, text)


def upsert_max_batchsize(most: int) -> Rule:
    return lambda request: exceeded(n, most, "upsert limit") if (n := len(request.points)) > most else None


def search_max_batchsize(most: int) -> Rule:
    return lambda request: exceeded(n, most, "search batch limit") if (n := len(request.searches)) > most else None


def max_query_limit(most: int) -> Rule:
    def rule(request: Request) -> Reply | None:
        limits = [search["limit"] for search in request.searches if search["limit"] > most]
        return exceeded(limits[0], most, "limit") if limits else None

    return rule


def filter_max_conditions(most: int) -> Rule:
    def rule(request: Request) -> Reply | None:
        counts = [_conditions(search["filter"]) for search in request.searches]
        return exceeded(max(counts), most, "Filter condition limit") if counts and max(counts) > most else None

    return rule


def condition_max_size(most: int) -> Rule:
    def rule(request: Request) -> Reply | None:
        sizes = [size for search in request.searches for size in _sizes(search["filter"])]
        return exceeded(max(sizes), most, "Condition size limit") if sizes and max(sizes) > most else None

    return rule


def indexed_filters_only(*indexed: str) -> Rule:
    """Refuse searches by other keys; an index that is created counts from then on."""
    known = set(indexed)

    def rule(request: Request) -> Reply | None:
        if request.method == "PUT" and request.path.partition("?")[0].endswith("/index"):
            known.add(request.body["field_name"])
        for search in request.searches:
            for key in _keys(search["filter"]):
                if key not in known:
                    text = f'Index required but not found for "{key}" of one of the following types: [keyword].'
                    return Reply(
                        400, f"Bad request: {text} Help: Create an index for this key or use a different filter."
                    )
        return None

    return rule


# Rules of rates, keys, disks and other refusals


def write_rate(seconds: int) -> Rule:
    return lambda request: _limited("Write", seconds) if request.writes_points else None


def read_rate(seconds: int, times: int = 1_000) -> Rule:
    return _some_times(times, lambda request: _limited("Read", seconds) if request.searches else None)


def larger_than_write_rate(most: int) -> Rule:
    return lambda request: _larger("Write") if len(request.points) > most else None


def larger_than_read_rate(most: int) -> Rule:
    return lambda request: _larger("Read") if len(request.searches) > most else None


def _limited(kind: str, seconds: int) -> Reply:
    text = (
        f"Rate limiting exceeded: {kind} rate limit exceeded: Operation requires 5 tokens but only 0.2 were available."
        f" Retry after {seconds}s"
    )
    return Reply(429, text, {"retry-after": str(seconds)})


def _larger(kind: str) -> Reply:
    text = f"Rate limiting exceeded: {kind} rate limit exceeded: request larger than rate limiter capacity"
    return Reply(429, f"{text}, please try to split your request")


def _some_times(times: int, rule: Rule) -> Rule:
    left = [times]

    def limited(request: Request) -> Reply | None:
        reply = rule(request) if left[0] else None
        left[0] -= reply is not None
        return reply

    return limited


def proxy_of_small_bodies(most: int) -> Rule:
    """Refuse large bodies as nginx does."""
    page = (
        "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
        "<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx</center>\r\n</body></html>\r\n"
    )
    return lambda request: Reply(413, page, is_plain=True) if len(request.points) > most else None


def slow_with(most: int) -> Rule:
    text = "Timeout error: Operation 'update' timed out after 60 seconds"
    return lambda request: Reply(408, text) if len(request.points) > most else None


def refused_point(word: str) -> Rule:
    """Refuse requests with a point of a text or a question."""

    def rule(request: Request) -> Reply | None:
        texts = [point["payload"].get("text") or point["payload"].get("question", "") for point in request.points]
        has_it = any(word in text for text in texts)
        return Reply(400, "Wrong input: Vector dimension error: expected dim: 384, got 5") if has_it else None

    return rule


def refused_name(name: str) -> Rule:
    text = f'Validation error in path parameters: [collection_name: value "{name}" invalid: cannot contain "/" char]'
    return lambda request: Reply(422, text) if request.collection.startswith(name) else None


def key_that_only_reads(request: Request) -> Reply | None:
    reads = request.method == "GET" or (request.method == "POST" and "wait=true" not in request.path)
    return None if reads else Reply(403, "Forbidden: Global manage access is required")


def wrong_key(_: Request) -> Reply:
    return Reply(401, "Invalid API key or JWT", is_plain=True)


def no_key(_: Request) -> Reply:
    return Reply(401, "Must provide an API key or an Authorization bearer token", is_plain=True)


def full_disk(request: Request) -> Reply | None:
    text = "Service internal error: No space left on device: WAL buffer size exceeds available disk space"
    return Reply(500, text) if "wait=true" in request.path or request.method == "PUT" else None


def channel_closed(times: int) -> Rule:
    """Answer as if the collection were deleted during the write."""
    reply = Reply(500, "Service internal error: channel closed")
    return _some_times(times, lambda request: reply if request.points else None)


def deleted_collection(times: int) -> Rule:
    def rule(request: Request) -> Reply | None:
        return Reply(404, f"Not found: Collection `{request.collection}` doesn't exist!") if request.points else None

    return _some_times(times, rule)


def full_collection(request: Request) -> Reply | None:
    return Reply(400, "Bad request: Max vector storage size limit of 1MB reached!") if request.points else None


def unknown_words(request: Request) -> Reply | None:
    """Refuse searches in the words of no version that we know."""
    words = (
        "Bad request: the flux of http://10.0.0.7:6335/shards is inverted in /qdrant/storage/collections/other "
        + "x" * 300
    )
    return Reply(400, words) if request.searches else None


def _conditions(filter_: Mapping[str, Any]) -> int:
    return sum(_conditions(each) if _clauses(each) else 1 for each in _parts(filter_))


def _sizes(filter_: Mapping[str, Any]) -> list[int]:
    own = [len(any_of) for each in _parts(filter_) if isinstance(any_of := each.get("match", {}).get("any"), list)]
    return own + [size for each in _parts(filter_) if _clauses(each) for size in _sizes(each)]


def _keys(filter_: Mapping[str, Any]) -> list[str]:
    own = [each["key"] for each in _parts(filter_) if "key" in each]
    own += [each["is_empty"]["key"] for each in _parts(filter_) if "is_empty" in each]
    return own + [key for each in _parts(filter_) if _clauses(each) for key in _keys(each)]


def _clauses(condition: Mapping[str, Any]) -> bool:
    return bool(condition.keys() & {"must", "should", "must_not"})


def _parts(filter_: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for clause in ("must", "should", "must_not") for each in filter_.get(clause, [])]
