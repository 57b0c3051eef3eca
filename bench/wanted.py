"""The wanted number of generate workers: `python -m bench wanted`.

Chunks whose questions are missing are made by SQL in the ledger. For each number of chunks, the product's computation
is run with a limit of 600 calls a minute and without a limit. A call takes 0.5 s and a worker has 64 calls in flight,
so that the limit allows five calls at the same time: one worker. Prints the wanted numbers, the expected ones and the
time of one computation. Last, the chunks are deleted, and the number must return to 1.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from math import ceil
from pathlib import Path

from shared.domain.queues import WORK_QUEUES
from shared.domain.spending.limit_use import LimitUse
from shared.domain.spending.rates import Rates
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.demand import Demand
from shared.maintenance.wanted import WantedWorkers, WorkerPool
from tests.support.deployment import Deployment, ScriptedProvider

_DUE = (1, 64, 65, 641, 10_000, 1_000_000)
_SLOTS, _MOST = 64, 1_000
_LIMITED = Rates(requests=600)
_REQUESTS = LimitUse(
    "llm requests", 600, 300, 5, None, "closed", timedelta(), "llm", "requests", timedelta(seconds=0.5)
)  # fmt: skip
_USED = (_REQUESTS, replace(_REQUESTS, name="llm tokens", limit=None, used=300_000, unit="tokens"))

# Copy the only chunk; each copy has different content.
_COPY = """
    INSERT INTO chunks (id, version, document_id, tenant, ordinal, content_key, embedding_model, lane, state, due_at)
    SELECT gen_random_uuid(), version, document_id, tenant, n, int4send(CAST(n AS integer)), embedding_model, lane,
           'generating', now()
    FROM (SELECT * FROM chunks ORDER BY ordinal LIMIT 1) one,
         generate_series(CAST(:first AS integer), CAST(:last AS integer)) n
"""
_MAKE_DUE = "UPDATE chunks SET state = 'generating', due_at = now(), leased_by = NULL"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    provider = ScriptedProvider()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Deployment(provider.settings(), Path(folder), roles=()) as deployment,
        ):
            deployment.worker("parse")
            deployment.ingest({"one.md": "# One\n\nThe text that is copied."})
            await _measure(deployment)
    finally:
        provider.close()


async def _measure(deployment: Deployment) -> None:
    url = deployment.stack.settings.database_url
    assert url is not None
    database = Database(url.get_secret_value(), timeout=None)
    while not await _count(database):
        await asyncio.sleep(0.1)
    await _execute(database, _MAKE_DUE)
    print(f"{'due':>10}{'600 a minute':>14}{'no limit':>10}{'due / 64':>10}{'ms':>8}")
    present = 1
    for due in _DUE:
        await _execute(database, _COPY, first=present, last=due - 1)
        present = due
        await _execute(database, "ANALYZE chunks_open, chunks_ended")
        limited, _ = await _wanted(database, _LIMITED)
        free, seconds = await _wanted(database, Rates())
        expected = min(_MOST, ceil(due / _SLOTS))
        wrong = "" if (limited, free) == (1, expected) else "  wrong"
        print(f"{due:10,}{limited:14,}{free:10,}{expected:10,}{1_000 * seconds:8.0f}{wrong}", flush=True)
    await _execute(database, "DELETE FROM chunks")
    print(f"{0:10,}{(await _wanted(database, _LIMITED))[0]:14,}{(await _wanted(database, Rates()))[0]:10,}{1:10,}")
    await database.aclose()


async def _wanted(database: Database, rates: Rates) -> tuple[int, float]:
    """Return the wanted number of generate workers, and the seconds of its computation."""

    async def usage() -> Sequence[LimitUse]:
        return _USED

    slots = dict.fromkeys(WORK_QUEUES, _SLOTS)
    pool = WorkerPool(slots, _MOST, embeddings=None, rates=rates, rates_of=lambda _: Rates())
    started = time.perf_counter()
    wanted = await WantedWorkers(Demand(database), pool, usage).update()
    return wanted["generate"], time.perf_counter() - started


async def _count(database: Database) -> int:
    async with database.begin() as connection:
        return int((await connection.execute(Statement("SELECT count(*) FROM chunks"))).scalar_one())


async def _execute(database: Database, statement: str, **values: int) -> None:
    async with database.begin() as connection:
        await connection.execute(Statement(statement), values)


if __name__ == "__main__":
    asyncio.run(main())
