"""The ledger at a million chunks: `python -m bench scale [--chunks N]`.

All processes of a deployment run over embedded engines. SQL inserts the rows of a bulk load that is half finished: a
tenth as many documents as chunks, half of them of one tenant and the others of 49. The product's own code is measured
on them: claims, the scheduler's steps, requests of that one tenant over HTTP, starts of processes, and uploads during
the load. Last, a complete load runs on an empty ledger: the rates at which its first and its last tenth become ready,
and the memory of each process after a fifth of it, after three fifths and at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench import texts
from bench.searchable import found_after
from embedded.ports import free_port
from features.all import FEATURES
from shared.domain.stages.work import Lease
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from shared.services import build
from tests.support.deployment import ROOT, Deployment, ScriptedProvider
from tests.support.tables import analyze
from workers.scheduler import steps_of

CHUNKS = 1_000_000
_OF_DOCUMENT = 10
_TENANTS = 50
_SHELF = "shelf"  # a collection of finished documents: a fifth of all
_MODEL = "scripted-embedding"
_TIMES = 100
_POLL_SECONDS = 0.25
_UPLOADS = 10
_SEED = "seed.md"
_LOADED = 3_000  # documents of the complete load
_STEADIEST = 0.8  # least rate of the last tenth, as a share of the first tenth's
_GROWTH = 1.1  # largest memory at the end of the load, as a multiple of the memory after a fifth
MARKS = (0.2, 0.6, 1.0)
_ENGINES = ("postgres", "valkey", "qdrant")

_CLAIM_MS, _PASS_MS, _REQUEST_MS, _REINDEX_MS, _START_MS, _FOUND_MS = 20.0, 1_000.0, 100.0, 1_000.0, 10_000.0, 1_000.0

# Make the collections: two of the large tenant, one of each other.
_MAKE_COLLECTIONS = """
    INSERT INTO collections (id, tenant, name, options, embedding_model, index_name)
    SELECT gen_random_uuid(), CASE n WHEN 0 THEN 'default' ELSE 'tenant-' || n END,
           CASE n WHEN 0 THEN :shelf ELSE 'default' END, c.options, c.embedding_model, c.index_name
    FROM collections c, generate_series(0, :tenants - 1) n WHERE c.tenant = 'default' AND c.name = 'default'
"""

# Make the documents. On the shelf all have finished; of the others a fifth is claimed, and some failed.
_MAKE_DOCUMENTS = """
    INSERT INTO documents (id, public_id, tenant, collection_id, external_id, live_version, lane, state, created_at,
                           updated_at, due_at, error)
    SELECT md5(n::text)::uuid, md5(n::text)::uuid, l.tenant, l.id, 'document-' || n,
           CASE WHEN d.state IN ('queued', 'indexing', 'failed') THEN NULL ELSE 1 END, 1, d.state,
           now() - n * interval '1 second', now() - (n / 10.0 + 60) * interval '1 second',
           now() - n % 1000 * interval '1 millisecond', CASE d.state WHEN 'failed' THEN 'no text' END
    FROM generate_series(1, :documents) n
    CROSS JOIN LATERAL (SELECT CASE WHEN n % 10 < 5 THEN 'default' ELSE 'tenant-' || (1 + n % (:tenants - 1)) END
                               AS tenant,
                               CASE WHEN n % 10 < 2 THEN :shelf ELSE 'default' END AS name) p
    JOIN collections l ON l.tenant = p.tenant AND l.name = p.name
    CROSS JOIN LATERAL (SELECT n / 10 % 100 AS percentile) s
    CROSS JOIN LATERAL (SELECT CASE WHEN s.percentile = 99 THEN 'failed' WHEN s.percentile >= 96 THEN 'degraded'
                                    WHEN p.name = :shelf OR s.percentile >= 20 THEN 'ready'
                                    WHEN s.percentile < 2 THEN 'queued' WHEN s.percentile < 6 THEN 'indexing'
                                    ELSE 'searchable' END AS state) d
"""

# Make their versions. Versions to be parsed, now or by the reindex, share the bytes of one upload.
_MAKE_VERSIONS = """
    INSERT INTO document_versions (document_id, version, filename, title, media_type, upload, size_bytes, content_hash)
    SELECT d.id, 1, d.external_id || '.md', d.external_id, 'text/markdown',
           CASE WHEN d.state = 'queued' OR l.name = :shelf THEN v.upload ELSE d.external_id END, v.size_bytes,
           decode(md5(d.external_id), 'hex')
    FROM documents d JOIN collections l ON l.id = d.collection_id,
         document_versions v JOIN documents s ON s.id = v.document_id AND s.external_id = :seed
    WHERE d.external_id LIKE 'document-%'
"""

# Make their chunks: all chunks of a searchable document wait for their questions, or every third to be indexed with
# them. The chunks of a document were inserted in one transaction: they are due at the same moment.
_MAKE_CHUNKS = """
    INSERT INTO chunks (id, version, document_id, tenant, ordinal, content_key, embedding_model, lane, state, due_at,
                        points_token, questions_passed, prompt_tokens, completion_tokens, calls, error, settled_at)
    SELECT md5(d.external_id || '/' || o)::uuid, 1, d.id, d.tenant, o,
           decode(md5(d.external_id || '/' || o) || md5(o::text), 'hex'), :model, 1, s.state,
           d.updated_at, CASE s.state WHEN 'parsed' THEN NULL ELSE 1 END,
           CASE s.state WHEN 'indexed' THEN 6 ELSE 0 END, 500, 150, 1,
           CASE s.state WHEN 'dead' THEN 'the model refused' END,
           CASE WHEN s.state IN ('indexed', 'dead') THEN d.updated_at END
    FROM documents d CROSS JOIN generate_series(0, :each - 1) o
    CROSS JOIN LATERAL (SELECT CASE d.state WHEN 'indexing' THEN 'parsed'
                                            WHEN 'searchable'
                                            THEN CASE o % 3 WHEN 0 THEN 'generated' ELSE 'generating' END
                                            WHEN 'degraded' THEN CASE o % 3 WHEN 0 THEN 'dead' ELSE 'indexed' END
                                            ELSE 'indexed' END AS state) s
    WHERE d.external_id LIKE 'document-%' AND d.state NOT IN ('queued', 'failed')
"""

# Make the texts of claimed chunks; no measurement reads the texts of the others.
_MAKE_CONTENTS = """
    INSERT INTO chunk_contents (chunk_id, version, content, content_key)
    SELECT c.id, 1, jsonb_set(t.content, '{text}', to_jsonb(c.id || repeat(' The harbour opens at six.', 45))),
           c.content_key
    FROM chunks c, (SELECT content FROM chunk_contents LIMIT 1) t
    WHERE c.state IN ('parsed', 'generating', 'generated')
"""

# Make the paid questions.
_MAKE_COMPLETIONS = """
    INSERT INTO completions (content_key, tenant, model, questions)
    SELECT content_key, tenant, 'scripted', array_fill('When does the harbour open?'::text, ARRAY[8])
    FROM chunks WHERE state = 'generated' ON CONFLICT DO NOTHING
"""

# Make the costs of the last hour's attempts.
_MAKE_COSTS = """
    INSERT INTO spent (token, tenant, collection_id, document_id, kind, model, prompt_tokens, completion_tokens, calls,
                       at)
    SELECT -n, l.tenant, l.id, NULL, 'generate', 'scripted', 500, 150, 1, now() - n * interval '3500 s' / :costs
    FROM collections l, generate_series(1, :costs) n WHERE l.tenant = 'default' AND l.name = 'default'
"""

_FILL = (
    _MAKE_COLLECTIONS, _MAKE_DOCUMENTS, _MAKE_VERSIONS, _MAKE_CHUNKS, _MAKE_CONTENTS, _MAKE_COMPLETIONS, _MAKE_COSTS
)  # fmt: skip

Action = Callable[[], Awaitable[object]]


class Table:
    """Prints a line for each measurement."""

    def __init__(self) -> None:
        print(f"{'name':42}{'p50 ms':>10}{'p99 ms':>10}{'goal':>10}", flush=True)

    def add(self, name: str, seconds: Sequence[float], goal_ms: float) -> None:
        ordered = sorted(seconds)
        p50, p99 = (1_000 * _percentile(ordered, percent) for percent in (50, 99))
        missed = "  missed" if p99 > goal_ms else ""
        print(f"{name:42}{p50:10.1f}{p99:10.1f}{goal_ms:10,.0f}{missed}", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench scale")
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--load", type=int, default=_LOADED, help="documents of the complete load; 0: none")
    arguments = parser.parse_args()
    provider = ScriptedProvider()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Deployment(provider.settings(), Path(folder), roles=()) as deployment,
        ):
            await _measure(deployment, arguments.chunks)
        if arguments.load:
            with tempfile.TemporaryDirectory() as folder, Deployment(provider.settings(), Path(folder)) as deployment:
                _load(deployment, arguments.load)
    finally:
        provider.close()


async def _measure(deployment: Deployment, count: int) -> None:
    started = time.perf_counter()
    await _seed(deployment)
    url = deployment.stack.settings.database_url
    assert url is not None
    database = Database(url.get_secret_value(), timeout=None)
    await _fill(database, count)
    print(f"{count:,} chunks made in {time.perf_counter() - started:.0f} s", flush=True)
    table = Table()
    await _claims(table, database)
    await _passes(table, deployment)
    await _requests(table, deployment.client)
    _starts(table, deployment)
    await _reindex(table, deployment)
    await _passes(table, deployment, ", reindexing")
    await database.aclose()
    for role in ("parse", "generate", "index", "scheduler"):
        deployment.worker(role)
    found_after(deployment, "first.md", "# First\n\nAn upload for which the workers have yet to start.")
    seconds = [
        sum(found_after(deployment, f"during-{n}.md", f"# During {n}\n\nAn upload during the load."))
        for n in range(_UPLOADS)
    ]
    table.add("upload until found, during the load", seconds, _FOUND_MS)


async def _seed(deployment: Deployment) -> None:
    """Ingest one document completely; the other documents copy its upload and content."""
    processes = [deployment.worker(role) for role in ("parse", "generate", "index")]
    deployment.ingest({_SEED: "# Seed\n\nThe text that is copied."})
    deployment.wait_until_settled(1)
    for process in processes:
        process.terminate()
        process.wait()


async def _fill(database: Database, count: int) -> None:
    values = {
        "shelf": _SHELF, "tenants": _TENANTS, "documents": count // _OF_DOCUMENT, "each": _OF_DOCUMENT, "seed": _SEED,
        "model": _MODEL, "costs": count // 5,
    }  # fmt: skip
    for statement in _FILL:
        async with database.begin() as connection:
            await connection.execute(Statement(statement), {k: v for k, v in values.items() if f":{k}" in statement})
    async with database.pool.lend() as connection:
        await analyze(connection, "VACUUM ANALYZE")


async def _claims(table: Table, database: Database) -> None:
    worker: dict[str, Any] = {"worker": "bench:1", "lease": timedelta(seconds=30)}
    parsing, generation = ParseWork(database, **worker), GenerateWork(database, **worker)
    indexing = IndexWork(database, embeddings=[_MODEL], **worker)

    async def parse() -> list[Lease]:
        return [document.lease for document in await parsing.claim(8)]

    async def generate() -> list[Lease]:
        return [chunk.lease for chunk in (await generation.claim(64)).chunks]

    async def index() -> list[Lease]:
        return [chunk.lease for chunk in await indexing.claim(64)]

    for work, claim in ((parsing, parse), (generation, generate), (indexing, index)):
        seconds = []
        for _ in range(_TIMES):
            started = time.perf_counter()
            leases = await claim()
            seconds.append(time.perf_counter() - started)
            assert leases, f"nothing to claim: {claim.__name__}"
            await work.release(leases)
        table.add(f"claim: {claim.__name__}", seconds, _CLAIM_MS)


async def _passes(table: Table, deployment: Deployment, when: str = "") -> None:
    async with build("scheduler", deployment.stack.settings, FEATURES) as services:
        for step in steps_of(services):
            table.add(f"scheduler: {step.name}{when}", [s async for s in _timed(step.work, 5)], _PASS_MS)


async def _requests(table: Table, client: httpx.Client) -> None:
    documents = "/v1/documents"
    listed = client.get(documents, params={"limit": 200}).raise_for_status().json()
    later = {"limit": 50, "cursor": _cursor_after(client, documents, pages=50)}
    requests: dict[str, tuple[str, dict[str, object]]] = {
        "status": ("/v1/status", {}),
        "documents: first page": (documents, {"limit": 50}),
        "documents: 200 of them": (documents, {"limit": 200}),
        "documents: after 50 pages": (documents, later),
        "documents: of a collection": (documents, {"collection": _SHELF}),
        "documents: failed": (documents, {"state": "failed"}),
        "documents: degraded": (documents, {"state": "degraded"}),
        "documents: parsing (none)": (documents, {"state": "parsing"}),
        "documents: by external id": (documents, {"external_id": "document-10"}),
        "document: one": (f"{documents}/{listed['items'][0]['id']}", {}),
        "collections": ("/v1/collections", {}),
        "dead letters: first page": ("/v1/dead-letters", {}),
        "dead letters: reasons": ("/v1/dead-letters/reasons", {}),
    }
    for name, (path, parameters) in requests.items():
        seconds = []
        for _ in range(_TIMES // 2):
            started = time.perf_counter()
            client.get(path, params=parameters).raise_for_status()  # type: ignore[arg-type]
            seconds.append(time.perf_counter() - started)
        table.add(f"GET {name}", seconds, _REQUEST_MS)
    _events(table, client)


def _cursor_after(client: httpx.Client, path: str, pages: int) -> str:
    cursor: dict[str, str] = {}
    for _ in range(pages):
        reply = client.get(path, params={"limit": 200} | cursor).raise_for_status().json()
        if not reply["next_cursor"]:
            break
        cursor = {"cursor": reply["next_cursor"]}
    return cursor["cursor"]


def _events(table: Table, client: httpx.Client) -> None:
    """Open the stream of events repeatedly, so late that each opening reads the ledger again."""
    seconds = []
    for _ in range(_TIMES // 10):
        time.sleep(0.6)
        started = time.perf_counter()
        with client.stream("GET", "/v1/events") as reply:
            next(reply.iter_raw())
        seconds.append(time.perf_counter() - started)
    table.add("GET events: opening", seconds, _REQUEST_MS)


def _starts(table: Table, deployment: Deployment) -> None:
    """Start one more API and a scheduler, and wait until they work."""
    for name, command, works in (
        ("API", ["api"], _api_works),
        ("scheduler", ["workers", "scheduler"], _scheduler_works),
    ):
        port = free_port()
        environment = {**deployment.environment(), "FOREASK_API_PORT": str(port)}
        log = deployment.data_dir / f"{name}.log"
        started = time.perf_counter()
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=file, stderr=file
            )
        try:
            while not works(port, log):
                assert process.poll() is None, log.read_text()
                time.sleep(0.02)
            table.add(f"start: {name}", [time.perf_counter() - started], _START_MS)
        finally:
            process.terminate()
            process.wait()


def _api_works(port: int, _: Path) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", trust_env=False).status_code == httpx.codes.OK
    return False


def _scheduler_works(_: int, log: Path) -> bool:
    return "scheduler.elected" in log.read_text()


async def _reindex(table: Table, deployment: Deployment) -> None:
    started = time.perf_counter()
    reply = deployment.client.post(f"/v1/collections/{_SHELF}/reindex").raise_for_status().json()
    table.add(f"reindex of {reply['documents']:,} documents starts", [time.perf_counter() - started], _REINDEX_MS)


def _load(deployment: Deployment, count: int) -> None:
    """Ingest documents of ten chunks, and print the rates at which they become ready and the memory of each process."""
    deployment.wait_for_workers()
    documents = texts.documents(count, sections=_OF_DOCUMENT)
    ready_at, held = [(time.perf_counter(), 0)], []
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(deployment.ingest, documents)
        while len(held) < len(MARKS):
            time.sleep(_POLL_SECONDS)
            states = deployment.states()
            assert not states.get("failed", 0) + states.get("degraded", 0), states
            ready_at.append((time.perf_counter(), states.get("ready", 0)))
            if ready_at[-1][1] >= MARKS[len(held)] * count:
                held.append(resident_bytes(deployment))
        upload.result()
    print_tenths(ready_at, count, "chunks", _OF_DOCUMENT)
    print_memory(held)


def print_tenths(ready_at: Sequence[tuple[float, int]], count: int, unit: str, of_document: int = 1) -> None:
    """Print the rates of the tenths of a load.

    The first tenth starts with the first document that is ready: a document's path through the stages is not counted.

    Args:
        ready_at: moments in seconds, with the number of documents that were ready then.
        count: number of documents.
        unit: name of the counted objects, in the plural.
        of_document: number of these objects in each document.
    """
    seen = [(at, ready) for at, ready in ready_at if ready]
    marks = [next(sample for sample in seen if sample[1] >= count * tenth / 10) for tenth in range(1, 11)]
    rates = [
        of_document * (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in pairwise([seen[0], *marks])
        if later[0] > earlier[0]
    ]
    share = rates[-1] / rates[0]
    missed = "  missed" if share < _STEADIEST else ""
    print(f"{unit} a second, by tenths of {count:,} documents: {' '.join(f'{rate:.0f}' for rate in rates)}")
    print(f"the last tenth: {share:.2f} of the first, goal {_STEADIEST}{missed}", flush=True)


def resident_bytes(deployment: Deployment) -> dict[str, int]:
    """Return the memory of each process and its children; shared memory is divided among them."""
    pids = {name: process.pid for name, process in deployment.processes.items() if process.poll() is None}
    return {name: _resident(pid) for name, pid in (pids | deployment.stack.pids()).items()}


def _resident(pid: int) -> int:
    process = psutil.Process(pid)
    return sum(each.memory_full_info().pss for each in (process, *process.children(recursive=True)))


def print_memory(held: Sequence[dict[str, int]]) -> None:
    """Print the memory of each process. Engines have no goal, because they hold more as the data grows."""
    print(f"{'memory, MB, at a part of the load':42}" + "".join(f"{mark:10.0%}" for mark in MARKS))
    for name in held[0]:
        if not all(name in sizes for sizes in held):
            continue  # the command that uploads may end with the last document
        sizes = [sizes[name] / 1e6 for sizes in held]
        missed = "  missed" if name not in _ENGINES and sizes[-1] > _GROWTH * sizes[0] else ""
        print(f"{name:42}" + "".join(f"{size:10.0f}" for size in sizes) + missed, flush=True)


async def _timed(action: Action, times: int) -> AsyncIterator[float]:
    for _ in range(times):
        started = time.perf_counter()
        await action()
        yield time.perf_counter() - started


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return statistics.quantiles(ordered, n=100, method="inclusive")[percent - 1] if len(ordered) > 1 else ordered[0]


if __name__ == "__main__":
    asyncio.run(main())
