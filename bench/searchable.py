"""Seconds from the upload of a document until queries find it: `python -m bench searchable`.

All processes of a deployment run, with a scripted model. Documents are uploaded one after the other: while nothing else
is due, while 50,000 chunks of another tenant wait for a model that takes five seconds, and while the model is dead. The
steps are distinguished by the states of the document.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from bench import texts
from shared.domain.lanes import Lane
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from tests.support.deployment import Deployment, ScriptedProvider

UPLOADS = 20
BACKLOG_CHUNKS = 50_000
_CHUNKS_EACH = 10
_MODEL_SECONDS = 5.0
_POLL_SECONDS = 0.01
_PAUSE_SECONDS = 0.5  # between two uploads, so that the questions of one do not delay the other
_TIMEOUT_SECONDS = 60.0
_STATES = ("queued", "parsing", "reading", "indexing", "searchable", "ready")
STEPS = ("upload", "until parsing", "parsing", "until found")
SEED = "seed"

# Make a collection of the tenant that has the same name and index, if the tenant has none.
_COPY_COLLECTION = Statement("""
    INSERT INTO collections (id, tenant, name, options, embedding_model, index_name)
    SELECT gen_random_uuid(), :tenant, name, options, embedding_model, index_name
    FROM collections WHERE tenant = 'default' AND name = :collection AND tenant <> :tenant
""")

# Make documents of the tenant whose texts are found.
_COPY_DOCUMENTS = Statement("""
    WITH copies AS (
        INSERT INTO documents (id, public_id, tenant, collection_id, external_id, live_version, state, lane)
        SELECT i.id, i.id, o.tenant, o.id, 'copy-' || n, 1, 'searchable', :lane
        FROM collections o, generate_series(1, :documents) n
        CROSS JOIN LATERAL (SELECT gen_random_uuid() AS id WHERE n IS NOT NULL) i
        WHERE o.tenant = :tenant AND o.name = :collection RETURNING id, external_id
    )
    INSERT INTO document_versions (document_id, version, filename, upload, size_bytes, content_hash)
    SELECT id, 1, 'copy.md', 'none', 1, decode(md5(external_id), 'hex') FROM copies
""")

# Make chunks of these documents whose questions are to be generated.
_COPY_CHUNKS = Statement("""
    WITH seed AS (
        SELECT c.embedding_model, t.content
        FROM documents d JOIN chunks c ON c.document_id = d.id
        JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
        WHERE d.external_id = :seed LIMIT 1
    ), copied AS (
        INSERT INTO chunks (id, version, document_id, tenant, ordinal, content_key, state, embedding_model, lane)
        SELECT gen_random_uuid(), 1, d.id, d.tenant, n,
               decode(md5(d.external_id || n) || md5(n::text), 'hex'), 'generating', s.embedding_model, :lane
        FROM documents d, generate_series(1, :chunks) n, seed s WHERE d.tenant = :tenant AND d.external_id LIKE 'copy-%'
        RETURNING id, content_key
    )
    INSERT INTO chunk_contents (chunk_id, version, content, content_key)
    SELECT c.id, 1, jsonb_set(s.content, '{text}', to_jsonb((s.content ->> 'text') || ' ' || c.id)), c.content_key
    FROM copied c, seed s
""")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "uploads", nargs="?", type=int, default=UPLOADS, help="uploads in each case; %(default)s by default"
    )
    uploads = parser.parse_args().uploads
    provider = ScriptedProvider()
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(provider.settings(), Path(folder)) as deployment:
            deployment.ingest({SEED: "# Seed\n\nThe text that is copied."}, "others")
            deployment.wait_until_settled(1, "others")
            report("idle", deployment, provider, uploads)
            provider.script(latency_seconds=_MODEL_SECONDS)
            asyncio.run(make_backlog(deployment))
            report(f"{BACKLOG_CHUNKS:,} chunks wait", deployment, provider, uploads)
            provider.script(status=503)
            time.sleep(2 * _MODEL_SECONDS)
            report("and the model is dead", deployment, provider, uploads)
    finally:
        provider.close()


async def make_backlog(
    deployment: Deployment, tenant: str = "others", lane: Lane = Lane.BULK, chunks: int = BACKLOG_CHUNKS
) -> None:
    """Write the rows of a tenant's documents whose questions are to be generated, in its collection `others`."""
    url = deployment.stack.settings.database_url
    assert url is not None
    database = Database(url.get_secret_value(), timeout=None)
    try:
        async with database.begin() as connection:
            scope = {"tenant": tenant, "lane": int(lane)}
            named = {"tenant": tenant, "collection": "others"}
            await connection.execute(_COPY_COLLECTION, named)
            await connection.execute(_COPY_DOCUMENTS, named | scope | {"documents": chunks // _CHUNKS_EACH})
            await connection.execute(_COPY_CHUNKS, scope | {"chunks": _CHUNKS_EACH, "seed": SEED})
    finally:
        await database.aclose()


def report(name: str, deployment: Deployment, provider: ScriptedProvider, uploads: int) -> None:
    """Upload documents one by one; print the seconds until they were found, and of each step."""
    provider.reset()
    before = deployment.cpu_seconds()
    started = time.perf_counter()
    measured = []
    for number, (external_id, body) in enumerate(texts.documents(uploads, sections=3).items()):
        measured.append(found_after(deployment, f"{name} {external_id}", f"{body}\n\n{name} {number}"))
        time.sleep(_PAUSE_SECONDS * random.uniform(0.5, 1.5))
    cpu = sum(deployment.cpu_seconds().values()) - sum(before.values())
    cores, calls = cpu / (time.perf_counter() - started), provider.stats()["calls"]
    load = f"load {os.getloadavg()[0]:.1f}, {cores:.2f} cores used, {calls} calls of the model"
    whole = [sum(steps) for steps in measured]
    print(f"{name}: p50 {_percentile(whole, 50):.2f} s, p95 {_percentile(whole, 95):.2f} s ({load})", flush=True)
    for step, seconds in zip(STEPS, zip(*measured, strict=True), strict=True):
        print(f"  {step:<14} p50 {_percentile(seconds, 50):.3f} s, p95 {_percentile(seconds, 95):.3f} s", flush=True)


def found_after(deployment: Deployment, external_id: str, body: str) -> tuple[float, ...]:
    """Upload a document; return the seconds of each step until queries find it, in the order of `STEPS`."""
    started = time.perf_counter()
    (reply,) = deployment.ingest({external_id: body})
    address = f"/v1/documents/{reply.raise_for_status().json()['id']}"
    times = [time.perf_counter()]
    while len(times) < len(STEPS):
        state = deployment.client.get(address).raise_for_status().json()["state"]
        now = time.perf_counter()
        assert now - started < _TIMEOUT_SECONDS, f"{external_id} is {state}"
        steps_done = min(_STATES.index(state), len(STEPS) - 1)
        times += [now] * (steps_done + 1 - len(times))
        time.sleep(_POLL_SECONDS)
    return tuple(after - before for before, after in zip([started, *times], times, strict=False))


def _percentile(values: list[float] | tuple[float, ...], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    main()
