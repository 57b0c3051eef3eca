"""The packages `openai` and `qdrant-client` next to our own requests: `python -m bench sdks [--calls N]`.

A server in a process of its own sends stored replies, so the processor time of this process is the client's: building
the request, HTTP, and reading the reply. Each row is one call, made by the given number of concurrent callers after a
warm-up. The last rows start a Python process that only imports a package. `docs/explanation/packages.md` and decision
0006 quote these numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

import numpy as np
import openai
import orjson
import uvloop
from qdrant_client import AsyncQdrantClient, models

from shared.providers.provider import Provider
from shared.vectors.transport.addresses import Addresses
from shared.vectors.transport.requests import Requests

_COLLECTION = "/collections/points/points"
_DIMENSIONS = 384
_HITS = 100
_POINTS = 1_000
_FEWER = 20  # an upsert costs as much as this many other calls
_QUESTIONS = [f"Which part of the passage answers question number {number}?" for number in range(1, 6)]
_CHAT = {
    "model": "model",
    "messages": [{"role": "system", "content": "Write questions. " * 60}, {"role": "user", "content": "Text. " * 400}],
}
_COMPLETION = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "model",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": orjson.dumps({"questions": _QUESTIONS}).decode()},
        }
    ],
    "usage": {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100},
}
_FOUND = [
    {
        "id": str(UUID(int=number)),
        "version": 1,
        "score": 0.5,
        "payload": {"chunk": str(UUID(int=number)), "text": "t" * 60},
    }
    for number in range(_HITS)
]
_REPLIES: Mapping[str, Any] = {
    "/v1/chat/completions": _COMPLETION,
    f"{_COLLECTION}/query": {"result": {"points": _FOUND}, "status": "ok", "time": 0.001},
    _COLLECTION: {"result": {"operation_id": 1, "status": "completed"}, "status": "ok", "time": 0.001},
}

Call = Callable[[], Awaitable[object]]


async def compare(url: str, calls: int) -> None:
    """Print the processor time of each kind of call."""
    print("call                                      callers  CPU us a call")
    provider = Provider(component="llm", base_url=f"{url}/v1", api_key=None, timeout=timedelta(minutes=1))
    sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key")
    over_aiohttp = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key", http_client=openai.DefaultAioHttpClient())
    for callers in (1, 64):
        await _row("chat, foreask", lambda: provider.post("/chat/completions", _CHAT), callers, calls)
        await _row("chat, openai", lambda: sdk.chat.completions.create(**_CHAT), callers, calls)  # type: ignore[call-overload]
        await _row("chat, openai over aiohttp", lambda: over_aiohttp.chat.completions.create(**_CHAT), callers, calls)  # type: ignore[call-overload]
    await provider.aclose()
    await sdk.close()
    await over_aiohttp.close()

    requests, client = Requests(Addresses([url]), None, 60.0), AsyncQdrantClient(url=url, check_compatibility=False)
    vector = np.random.default_rng(1).random(_DIMENSIONS, dtype=np.float32)
    search = {"query": vector, "using": "text", "limit": _HITS, "with_payload": True}
    points = [
        {"id": str(UUID(int=i)), "vector": {"text": vector}, "payload": {"chunk": "c" * 32}} for i in range(_POINTS)
    ]
    for callers in (1, 64):
        await _row("search, foreask", lambda: requests.send("POST", f"{_COLLECTION}/query", search), callers, calls)
        await _row(
            "search, qdrant-client",
            lambda: client.query_points("points", vector.tolist(), using="text", limit=_HITS),
            callers,
            calls,
        )
    few = max(1, calls // _FEWER)
    await _row(
        "1,000 points, foreask", lambda: requests.send("PUT", f"{_COLLECTION}?wait=true", {"points": points}), 1, few
    )
    await _row("1,000 points, qdrant-client", lambda: client.upsert("points", _models(points)), 1, few)
    await requests.aclose()
    await client.close()


def _models(points: list[dict[str, Any]]) -> list[models.PointStruct]:
    return [
        models.PointStruct(id=point["id"], vector={"text": point["vector"]["text"].tolist()}, payload=point["payload"])
        for point in points
    ]


async def _row(name: str, call: Call, callers: int, calls: int) -> None:
    await _run(call, callers, max(callers, calls // 10))
    started = time.process_time()
    await _run(call, callers, calls)
    print(f"{name:40}  {callers:7}  {(time.process_time() - started) / calls * 1e6:13.0f}", flush=True)


async def _run(call: Call, callers: int, calls: int) -> None:
    remaining = iter(range(calls))

    async def caller() -> None:
        for _ in remaining:
            await call()

    await asyncio.gather(*(caller() for _ in range(callers)))


def imports() -> None:
    """Print the cost of a process that only imports a package, without Python's own start."""
    print("\nimport                                       CPU s  resident MB")
    nothing = _import_cost("pass")
    for package in ("openai", "qdrant_client", "shared.providers.provider", "shared.vectors.transport.requests"):
        seconds, megabytes = (
            cost - base for cost, base in zip(_import_cost(f"import {package}"), nothing, strict=True)
        )
        print(f"{package:40}  {seconds:8.2f}  {megabytes:11.0f}", flush=True)


def _import_cost(program: str) -> tuple[float, float]:
    own = "import psutil, time; print(time.process_time(), psutil.Process().memory_info().rss)"
    output = subprocess.run([sys.executable, "-c", f"{program}; {own}"], check=True, capture_output=True, text=True)
    seconds, size = output.stdout.split()
    return float(seconds), float(size) / 1e6


def _serve(ready: Connection) -> None:
    bodies = {path: orjson.dumps(reply) for path, reply in _REPLIES.items()}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1]) for line in head.lower().splitlines() if line.startswith(b"content-length")
                )
                await reader.readexactly(length)
                body = bodies[head.split(b" ", 2)[1].partition(b"?")[0].decode()]
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
        except asyncio.IncompleteReadError:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 20)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2_000, help="calls of each row; %(default)s by default")
    calls = parser.parse_args().calls
    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.Process(target=_serve, args=(sender,), daemon=True)
    server.start()
    print(f"load of the machine {os.getloadavg()[0]:.1f}")
    try:
        uvloop.run(compare(f"http://127.0.0.1:{receiver.recv()}", calls))
    finally:
        server.kill()
    imports()


if __name__ == "__main__":
    main()
