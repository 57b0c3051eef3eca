"""Metrics: all numbers that a process exports, and the port that serves them and the liveness of the process.

Labels have few values, defined by the code or the settings: never a tenant, an id or a text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from socket import AddressFamily
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import orjson
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

from shared.process import liveness
from shared.process.identity import version_of_code
from shared.process.liveness import LoopHeartbeat

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_PORTS = 32  # processes of one machine with the same configured port: each uses the next free one
_LAG_EVERY_SECONDS = 1.0
_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)

log = structlog.get_logger()

REGISTRY = CollectorRegistry()

# The API
REQUESTS = Counter(
    "foreask_requests_total",
    "Answered requests, by method, route and status.",
    ["method", "route", "status"],
    registry=REGISTRY,
)
REQUEST_SECONDS = Histogram(
    "foreask_request_seconds",
    "Time from a request to the end of its reply, by method and route.",
    ["method", "route"],
    buckets=_SLOW,
    registry=REGISTRY,
)

# The whole deployment, exported by the elected scheduler
ROWS = Gauge(
    "foreask_rows",
    "Documents and chunks in the ledger, by kind and state.",
    ["kind", "state"],
    registry=REGISTRY,
)
OLDEST_SECONDS = Gauge(
    "foreask_backlog_oldest_seconds",
    "Age of the oldest due row, by stage and lane; 0 if no row is due.",
    ["stage", "lane"],
    registry=REGISTRY,
)
WORKERS_WANTED = Gauge(
    "foreask_workers_wanted",
    "Workers that the stage can use now, limited by the provider's limits, by stage.",
    ["stage"],
    registry=REGISTRY,
)
BUDGETS = Gauge(
    "foreask_budgets",
    "Budgets of the ingest, by period and state: open or exhausted.",
    ["period", "state"],
    registry=REGISTRY,
)
ELECTED = Gauge("foreask_scheduler_elected", "1 while this scheduler is the elected one.", registry=REGISTRY)

# A worker's stage
SETTLED = Counter(
    "foreask_attempts_total",
    "Attempts whose outcome is committed, by stage and outcome: done, retry or dead.",
    ["stage", "outcome"],
    registry=REGISTRY,
)
DEAD = Counter(
    "foreask_dead_total",
    "Attempts after which a row is dead, by stage and kind of the error.",
    ["stage", "kind"],
    registry=REGISTRY,
)
LEASES_LOST = Counter(
    "foreask_leases_lost_total",
    "Claims of rows that had lost a lease, because a worker died or hung, by stage.",
    ["stage"],
    registry=REGISTRY,
)
BATCH_SIZE = Histogram(
    "foreask_settled_batch_size",
    "Outcomes that one transaction settled, by stage.",
    ["stage"],
    buckets=_SIZES,
    registry=REGISTRY,
)
PARSE_SECONDS = Histogram(
    "foreask_parse_seconds",
    "Time to read one file, including the wait for a free child, by outcome: ok or the kind of the error.",
    ["outcome"],
    buckets=_SLOW,
    registry=REGISTRY,
)
READ_SECONDS = Histogram(
    "foreask_read_seconds",
    "Time to read one page by OCR, including the wait for a free child, by outcome: ok or the kind of the error.",
    ["outcome"],
    buckets=_SLOW,
    registry=REGISTRY,
)

# Models
CALL_SECONDS = Histogram(
    "foreask_model_call_seconds",
    "Time of one call of a model, by component, model and outcome: ok or the kind of the error.",
    ["component", "model", "outcome"],
    buckets=_SLOW,
    registry=REGISTRY,
)
TOKENS = Counter(
    "foreask_model_tokens_total",
    "Tokens that providers reported, by component, model and kind: prompt or completion.",
    ["component", "model", "kind"],
    registry=REGISTRY,
)
EMBEDDED_INPUTS = Histogram(
    "foreask_embedding_batch_size",
    "Texts in one embedding request.",
    buckets=_SIZES,
    registry=REGISTRY,
)
LIMITER_SECONDS = Histogram(
    "foreask_limiter_wait_seconds",
    "Time that a call waited for the provider's limits, by component.",
    ["component"],
    buckets=_SLOW,
    registry=REGISTRY,
)
BREAKER = Gauge(
    "foreask_breaker_state",
    "The breaker of a provider: 0 closed, 1 open, 2 half open.",
    ["component", "provider"],
    registry=REGISTRY,
)

# The engines
QDRANT_SECONDS = Histogram(
    "foreask_qdrant_seconds",
    "Time of one request to Qdrant, by outcome: ok, refused, or failed without a reply.",
    ["outcome"],
    buckets=_FAST,
    registry=REGISTRY,
)
LEDGER_SECONDS = Histogram(
    "foreask_ledger_seconds",
    "Time of one transaction, including the wait for a connection, by outcome: ok or failed.",
    ["outcome"],
    buckets=_FAST,
    registry=REGISTRY,
)
CONNECTIONS = Gauge("foreask_ledger_connections", "Connections to PostgreSQL in use.", registry=REGISTRY)
POOL_SIZE = Gauge(
    "foreask_ledger_connections_max", "Maximum connections of the process to PostgreSQL.", registry=REGISTRY
)

# The process
LAG_SECONDS = Histogram(
    "foreask_loop_lag_seconds",
    "Delay of the event loop, measured twice a second.",
    buckets=_FAST,
    registry=REGISTRY,
)
ROLE = Gauge(
    "foreask_process_info", "1, by the role and the version of the process.", ["role", "version"], registry=REGISTRY
)


@contextmanager
def timed(histogram: Histogram, *labels: str) -> Iterator[None]:
    """Observe the duration of a block; the last label is `ok`, or the class of the exception that ended it."""
    started, outcome = time.perf_counter(), "ok"
    try:
        yield
    except BaseException as error:
        outcome = type(error).__name__
        raise
    finally:
        histogram.labels(*labels, outcome).observe(time.perf_counter() - started)


@asynccontextmanager
async def serving(
    role: str, host: str, port: int | None, *, works_as: Sequence[str] | None = None
) -> AsyncIterator[int | None]:
    """Serve `/metrics` and `/health/live` while the block runs, and yield the port.

    Without a configured or free port it yields None, and the process runs without it. Processes of one machine may
    share a configured port: each uses the next free one and logs it. `foreask health` also finds a process without a
    port.

    Args:
        role: role of the process.
        host: address to listen on.
        port: first port to try, 0 for any; without it nothing is served.
        works_as: roles that the process is counted as, None for its own; an idle one is counted as none.
    """
    for each in [role] if works_as is None else works_as:
        ROLE.labels(each, version_of_code()).set(1)
    heartbeat = LoopHeartbeat(role)
    watching = asyncio.create_task(_watch_loop(heartbeat), name="loop-lag")
    server = None if port is None else _open(host, port, heartbeat)
    try:
        with liveness.answering(heartbeat):
            yield None if server is None else server.server_port
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        if server is not None:
            await asyncio.to_thread(server.shutdown)
            server.server_close()


def count_from_zero(stage: str) -> None:
    """Export a stage's counters before their first event, because Prometheus ignores the first value of a series."""
    LEASES_LOST.labels(stage)
    for outcome in ("done", "retry", "dead"):
        SETTLED.labels(stage, outcome)


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """Handles each request in a separate thread, so that a slow scrape does not delay a health check."""

    daemon_threads = True


class _Server6(_MetricsServer):
    address_family = AddressFamily.AF_INET6


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
        """Log nothing."""


def _open(host: str, first: int, heartbeat: LoopHeartbeat) -> _MetricsServer | None:
    kind = _Server6 if ":" in host else _MetricsServer
    for port in range(first, min(first + _PORTS, 65536)) if first else [0]:
        with suppress(OSError):
            server = kind((host, port), _Handler)
            server.set_app(_app(heartbeat, only_local=_is_loopback(host)))
            Thread(target=server.serve_forever, name="metrics", daemon=True).start()
            log.info("metrics.served", host=host, port=server.server_port)
            return server
    log.warning("metrics.unserved", host=host, port=first)
    return None


def _app(heartbeat: LoopHeartbeat, *, only_local: bool) -> WSGIApplication:
    """Return the application of the port.

    Args:
        heartbeat: liveness of the process.
        only_local: whether the port listens on loopback. A page in this machine's browser may have a name of its own
            resolved to loopback, so other names are refused then.
    """
    exported: WSGIApplication = make_wsgi_app(REGISTRY)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST")  # browsers always send it, and health checks of containers do not
        if only_local and host is not None and not _is_loopback(_hostname(host)):
            start_response("403 Forbidden", [("content-type", "text/plain")])
            return [b"This port answers only to the name of this machine: localhost or 127.0.0.1.\n"]
        if environ["PATH_INFO"] != "/health/live":
            return exported(environ, start_response)
        status, word = ("200 OK", "live") if heartbeat.is_live else ("503 Service Unavailable", "blocked")
        start_response(status, [("content-type", "application/json")])
        reply = {"status": word, "role": heartbeat.role, "silent_seconds": round(heartbeat.silent_seconds(), 1)}
        return [orjson.dumps(reply)]

    return answer


def _hostname(address: str) -> str:
    """Return the name in a Host header; empty if it is malformed."""
    try:
        return urlsplit(f"//{address}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def _watch_loop(heartbeat: LoopHeartbeat) -> None:
    loop = asyncio.get_running_loop()
    while True:
        heartbeat.beat()
        due = loop.time() + _LAG_EVERY_SECONDS
        await asyncio.sleep(_LAG_EVERY_SECONDS)
        LAG_SECONDS.observe(max(0.0, loop.time() - due))


def names() -> set[str]:
    """Return the names of the metrics as queried; names of histograms have no suffix."""
    families = REGISTRY.collect()
    return {family.name + "_total" * (family.type == "counter") for family in families}
