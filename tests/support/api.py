"""Run the API under test, in this process or on a socket, and process its documents."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from api.app import create
from api.http.protocol import BoundedProtocol
from shared.domain.corpus.documents import Document
from shared.ingest.drain import Drain, DrainLimits, Stage
from shared.ingest.index.stage import IndexStage
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.leftovers import Leftovers
from shared.maintenance.jobs.runner import Runner
from shared.services.all import AllServices
from shared.settings import ApiKey, Settings
from tests.conftest import Library
from tests.support.stages import Changed
from tests.support.waiting import TIMEOUT_SECONDS

# Of a client of plain HTTP: loading certificates takes longer than many tests.
WITHOUT_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
KEYS = {tenant: f"{tenant}-0123456789abcdef0123456789" for tenant in ("alice", "bob")}


def with_keys(settings: Settings) -> Settings:
    return settings.model_copy(
        update={"api_keys": tuple(ApiKey.parse(f"{tenant}:{key}") for tenant, key in KEYS.items())}
    )


def as_tenant(tenant: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[tenant]}"}


def application(settings: Settings, services: AllServices | None) -> FastAPI:
    """Return the API with these settings, over the given services or over its own."""
    return create(settings, None if services is None else replace(services, settings=settings))


class OfLocalUser:
    """The application for requests without a connection, as if this process's user or another one had opened it."""

    def __init__(self, app: FastAPI, *, own: bool = True) -> None:
        self.state = app.state
        self._app = app
        self._peer = SimpleNamespace(is_own_user=own)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "state": {"peer": self._peer}}, receive, send)


@asynccontextmanager
async def calling(
    settings: Settings, services: AllServices | None = None, *, own: bool = True
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client that calls the application without a socket, as this process's or another user."""
    app = application(settings, services)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(OfLocalUser(app, own=own))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


class _Server(uvicorn.Server):
    """A server that stops at once, instead of checking ten times per second whether it must."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)  # prepares the headers of replies
        await self.ending.wait()


@asynccontextmanager
async def serving(settings: Settings, services: AllServices | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the application on a real server."""
    app = application(settings, services)
    server = _Server(
        uvicorn.Config(
            app,
            port=0,
            http=BoundedProtocol,
            log_config=None,
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=2,
            timeout_keep_alive=75,  # as in `api.server`: a busy machine needs longer than uvicorn's 5 s
        )
    )
    server.capture_signals = nullcontext  # type: ignore[method-assign]  # they are pytest's
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done()
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        address = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(
            base_url=address, trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=TIMEOUT_SECONDS
        ) as client:
            yield client
    finally:
        app.state.api.shutdown.stopping = True
        server.ending.set()
        await task


class _Drain(Drain[Any, Any]):
    """A drain that claims again when its items are settled, or after 0.2 s.

    A worker waits 0.2 s before each claim that may find little, so that more work can arrive. Here no more arrives, and
    claims without a pause would take longer than the work.
    """

    async def _claim(
        self, claim: Callable[[], Awaitable[Sequence[Any] | None]], *, alone: bool = False
    ) -> Sequence[Any]:
        if self._held and not alone:
            until = time.monotonic() + 0.2
            while self._held and time.monotonic() < until:
                await self._wait_for_slots(until - time.monotonic())
            if not self._held:
                return []
        return await super()._claim(claim, alone=alone)


async def work(services: AllServices, *stages: str) -> None:
    """Do all due work of the stages, or of every stage, as the workers do.

    After the index stage the points of replaced versions are deleted, as the scheduler does some seconds later.
    """
    if not stages:
        await services.ingest(partial(_drain, services))
    makers: dict[str, Callable[[], Stage[Any, Any]]] = {
        "parse": lambda: services.parser,
        "read": lambda: services.reader,
        "generate": lambda: services.generator,
        "index": lambda: IndexStage(services.indexers.values()),
    }
    for name in stages:
        await _drain(services, makers[name]())


async def _drain(services: AllServices, stage: Stage[Any, Any]) -> int:
    settings = services.settings
    limits = DrainLimits(lease=settings.tuning.lease, budget=settings.tuning.drain, grace=settings.shutdown_timeout)
    drain = _Drain(Changed(stage, linger=timedelta()), limits, asyncio.Event())  # type: ignore[arg-type]
    while await drain.run():  # a busy machine needs more than the time of one run
        pass
    if stage.name == "index":
        await delete_replaced(services)
    return drain.settled


async def delete_replaced(services: AllServices) -> None:
    """Delete the points of replaced versions, as if the searches that may still need them had ended."""
    async with services.database.begin() as connection:
        due = Statement("UPDATE sweeps SET due_at = now() WHERE repeats AND due_at > now() RETURNING id")
        replaced = set((await connection.execute(due)).scalars())
    if replaced:
        sweeps = await services.ledger[Leftovers].due_sweeps(10_000)
        await services.cleaner.finisher.sweep([sweep for sweep in sweeps if sweep.id in replaced])


async def ready(services: AllServices, *documents: tuple[str, str], tenant: str = "default") -> list[Document]:
    """Index documents, pairs of a text and an external id, and return them as they were submitted.

    `await once(ready, ("The harbour opens at six.", "a.md"))` does this once per process.
    """
    submitted = await searchable(services, *documents, tenant=tenant)
    await work(services, "generate", "index")
    return submitted


async def searchable(services: AllServices, *documents: tuple[str, str], tenant: str = "default") -> list[Document]:
    """Index the texts of documents like `ready`, whose questions are not generated yet."""
    library = Library(services, tenant)
    submitted = [await library.add(text, external_id) for text, external_id in documents]
    await work(services, "parse", "index")
    return submitted


@asynccontextmanager
async def running(services: AllServices) -> AsyncIterator[Runner]:
    """Do due runs within the block, as an index worker that is woken often."""
    runner, ended = services.make_runner(), asyncio.Event()

    async def take() -> None:
        while not ended.is_set():
            await runner.take()
            await asyncio.sleep(0.02)

    taking = asyncio.create_task(take())
    try:
        yield runner
    finally:
        ended.set()  # a cancelled claim may be committed or not
        await asyncio.gather(taking, return_exceptions=True)
        await runner.aclose()


async def left_behind(services: AllServices, settings: Settings) -> tuple[int, list[Path]]:
    """Return the number of document rows and the paths of the stored uploads."""
    async with services.database.begin() as connection:
        rows = (await connection.execute_sql("SELECT count(*) FROM documents")).scalar_one()
    return rows, list((settings.data_dir / "uploads").glob("??/*"))


async def events_of(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """Yield the server-sent events of a reply without its comments."""
    import orjson

    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, orjson.loads(line.removeprefix("data: "))
