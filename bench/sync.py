"""Syncs of a large bucket: `python -m bench sync [--objects N] [--changes N]`.

All processes of a deployment run over embedded engines, with a bucket that lists its objects as S3 does.

First a million objects whose items are in the ledger already: the seconds of a sync that changes nothing, its list
requests, the rows that it writes, and the memory of the parse worker that does it. A second sync is interrupted by
SIGKILL of that worker, and continues: the list requests of both parts show how many were repeated.

Then fewer objects that are really loaded: a first sync, and a second one after 1 % were changed and 0.5 % removed,
while the API, the workers and the scheduler are killed one after another. A third one deletes the documents of the
removed objects. The rows that the last two write are counted. Afterwards the documents and their versions are compared
with the objects, the points in Qdrant with the documents, and the calls of the language model with the texts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from pydantic import SecretStr

from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.settings import Settings
from tests.support.deployment import Deployment, ScriptedProvider
from tests.support.large_bucket import BUCKET, LargeBucket, key_of

OBJECTS = 1_000_000
CHANGES = 5_000
_SLICE = 50_000
_POLL_SECONDS = 0.2
_TIMEOUT_SECONDS = 14_400.0  # a hundred thousand documents take an hour on two busy processors
_KILL_SECONDS = 5.0
_STATISTICS_SECONDS = 12.0  # an idle connection of PostgreSQL reports its statistics after ten
_KILLED = ("parse", "generate", "index", "api", "scheduler")
_SOURCE = {"name": "large", "uri": f"s3://{BUCKET}/", "secret_name": "large", "max_delete_share": 1}

# Items as a complete sync leaves them; the entity tags of the bucket are MD5 hashes.
_MAKE_ITEMS = """
    INSERT INTO source_items (source_id, key, version)
    SELECT s.id, 'texts/' || lpad(n::text, 9, '0') || '.md', md5(format(
        E'# Text %s\\n\\nThis is edition 1 of text %s, about subject %s.\\n', n, n, n % 977))
    FROM sources s, generate_series(CAST(:first AS int), CAST(:last AS int)) n WHERE s.name = 'large'
"""
_WRITTEN = """
    SELECT relname, n_tup_ins + n_tup_upd + n_tup_del AS rows FROM pg_stat_user_tables
    WHERE relname IN ('source_items', 'documents', 'document_versions')
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=OBJECTS, help="unchanged objects; %(default)s by default")
    parser.add_argument("--changes", type=int, default=CHANGES, help="loaded objects; %(default)s by default")
    options = parser.parse_args()
    provider = ScriptedProvider(latency_seconds=0.05)
    try:
        with LargeBucket(options.objects) as bucket:
            asyncio.run(unchanged(provider, bucket, options.objects))
        provider.reset()
        with LargeBucket(options.changes) as bucket:
            changes(provider, bucket, options.changes)
    finally:
        provider.close()


def settings_of(provider: ScriptedProvider, bucket: LargeBucket) -> Settings:
    return provider.settings(
        source_roots={"*": [f"s3://{BUCKET}"]},
        source_secrets={"LARGE": SecretStr(bucket.secret())},
        tuning={"sync_deletion_after": 0.01, "lease": 3},
        calibrate=False,
    )


async def unchanged(provider: ScriptedProvider, bucket: LargeBucket, objects: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Deployment(settings_of(provider, bucket), Path(folder), roles=("parse", "scheduler")) as deployment,
    ):
        deployment.wait_for_workers()
        deployment.client.post("/v1/sources", json=_SOURCE).raise_for_status()
        database = _database(deployment)
        try:
            await _make_items(database, objects)
            before = await _written(database)
            memory = _memory(deployment)
            started = time.perf_counter()
            sync = _synced(deployment)
            seconds = time.perf_counter() - started
            written = {name: rows - before[name] for name, rows in (await _written(database)).items()}
            requests = bucket.change()
            growth = (deployment.peak_bytes()["parse"] - memory) / 1e6
            others = requests["get"] + requests["head"]
            print(
                f"{objects:,} unchanged objects: {seconds:.1f} s, {requests['list']:,} list requests, {others} others;"
                f" {sync['unchanged']:,} unchanged; rows written {written}; the parse worker grew by {growth:.0f} MB",
                flush=True,
            )
            killed_at, sync = _interrupted(deployment, objects)
            listed = bucket.change()["list"] - requests["list"]
            print(
                f"killed after {killed_at:,} objects: {sync['unchanged']:,} unchanged in the end, {listed:,} list"
                " requests in both parts",
                flush=True,
            )
        finally:
            await database.aclose()


def _database(deployment: Deployment) -> Database:
    url = deployment.stack.settings.database_url
    assert url is not None
    return Database(url.get_secret_value(), timeout=None)


async def _written_by(deployment: Deployment) -> dict[str, int]:
    database = _database(deployment)
    try:
        return await _written(database)
    finally:
        await database.aclose()


async def _make_items(database: Database, objects: int) -> None:
    for first in range(0, objects, _SLICE):
        async with database.begin() as connection:
            last = min(objects, first + _SLICE) - 1
            await connection.execute(Statement(_MAKE_ITEMS), {"first": first, "last": last})


async def _written(database: Database) -> dict[str, int]:
    await asyncio.sleep(_STATISTICS_SECONDS)
    return {row["relname"]: row["rows"] for row in await database.rows(Statement(_WRITTEN))}


def _memory(deployment: Deployment) -> int:
    return psutil.Process(deployment.processes["parse"].pid).memory_info().rss


def _start(deployment: Deployment) -> dict[str, Any]:
    return deployment.client.post("/v1/sources/large/sync").raise_for_status().json()


def _synced(deployment: Deployment) -> dict[str, Any]:
    """Start a sync, and return it when its listing and its deletions have ended."""
    _start(deployment)
    *_, sync = _followed(deployment)
    return sync


def _followed(deployment: Deployment) -> Iterator[dict[str, Any]]:
    """Yield the newest sync until it has ended."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        sync = deployment.client.get("/v1/sources/large").raise_for_status().json()["newest_sync"]
        yield sync
        if sync["ended_at"]:
            if sync["error"]:
                sys.exit(sync["error"])
            return
        time.sleep(_POLL_SECONDS)
    sys.exit("The sync does not end.")


def _interrupted(deployment: Deployment, objects: int) -> tuple[int, dict[str, Any]]:
    """Kill the parse worker in the middle of a sync; return the number of objects until then, and the ended sync."""
    _start(deployment)
    for sync in _followed(deployment):
        if sync["seen"] >= objects // 2:
            killed_at = sync["seen"]
            deployment.processes["parse"].kill()
            deployment.processes["parse"].wait()
            deployment.worker("parse")
            *_, ended = _followed(deployment)
            return killed_at, ended
    sys.exit("The sync ended before its worker was killed.")


def changes(provider: ScriptedProvider, bucket: LargeBucket, objects: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        deployment = Deployment(settings_of(provider, bucket), Path(folder))
        with deployment:
            deployment.wait_for_workers()
            deployment.client.post("/v1/sources", json=_SOURCE).raise_for_status()
            first = _finished(deployment, kills=0)
            calls, requests = provider.stats()["calls"], bucket.change()
            print(f"first sync of {objects:,}: {_words(first)}; {calls:,} calls; {requests}", flush=True)
            bucket.change(changed_every=100, removed_every=200)
            before = asyncio.run(_written_by(deployment))
            second = _finished(deployment, kills=len(_KILLED))
            third = _finished(deployment, kills=0)
            print(f"after changes, {len(_KILLED)} kills: {_words(second)}; then {_words(third)}", flush=True)
            written = {name: rows - before[name] for name, rows in asyncio.run(_written_by(deployment)).items()}
            print(f"rows written by both {written}", flush=True)
            _compare(deployment, objects)
            stats = provider.stats()
            editions = objects + len(range(0, objects, 100))
            print(
                f"{stats['calls']:,} calls for {editions:,} texts, {stats['paid_twice']} paid twice; {bucket.change()}",
                flush=True,
            )


def _finished(deployment: Deployment, kills: int) -> dict[str, Any]:
    """Sync, and wait until the documents are processed; kill processes meanwhile."""
    job = _start(deployment)["id"]
    victims = itertools.islice(_KILLED, kills)
    deadline, next_kill = time.monotonic() + _TIMEOUT_SECONDS, time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        if time.monotonic() >= next_kill and (victim := next(victims, None)):
            _restart(deployment, victim)
            next_kill = time.monotonic() + _KILL_SECONDS
        state = deployment.client.get(f"/v1/jobs/{job}").raise_for_status().json()["state"]
        if state not in ("running", "paused"):
            return deployment.client.get("/v1/sources/large").raise_for_status().json()["newest_sync"]
        time.sleep(_POLL_SECONDS)
    sys.exit("The job of the sync does not end.")


def _restart(deployment: Deployment, name: str) -> None:
    process = deployment.processes[name]
    process.kill()
    process.wait()
    if name == "api":
        deployment.run("api", [sys.executable, "-m", "api"])
        deployment._wait_for_api()  # noqa: SLF001 - the bench is a part of the deployment's own tests
    else:
        deployment.worker(name)


def _compare(deployment: Deployment, objects: int) -> None:
    """Print how the documents differ from the objects of the bucket, and the points from the documents."""
    expected = {f"large/{key_of(number)}": 1 if number % 100 else 2 for number in range(objects) if number % 200 != 1}
    documents = deployment.documents()
    found = {document["external_id"]: document["live_version"] for document in documents}
    states = Counter(document["state"] for document in documents)
    wrong = sum(expected[name] != version for name, version in found.items() if name in expected)
    print(
        f"documents: {len(found):,} of {len(expected):,}, {len(expected.keys() - found)} missing,"
        f" {len(found.keys() - expected)} too many, {wrong} with another version; {dict(states)};"
        f" {sum(document['chunks']['total'] for document in documents):,} chunks, {deployment.points():,} points",
        flush=True,
    )


def _words(sync: dict[str, Any]) -> str:
    names = ("seen", "created", "changed", "unchanged", "missing", "deleted", "withheld", "refused")
    return ", ".join(f"{sync[name]:,} {name}" for name in names if sync[name])


if __name__ == "__main__":
    main()
