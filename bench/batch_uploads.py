"""Uploads of a tenant with a load in the batch lane: `python -m bench batch_uploads [CHUNKS]`.

All processes of a deployment run, with a scripted model that takes half a second. SQL inserts the rows of a load with
chunks of 1,640 characters. Documents are uploaded one after the other by the same tenant: alone, while the load is
planned and submitted, while its batches run, and while it is collected and indexed. Printed are the seconds until
queries find an upload and until it has its questions, and their medians as multiples of the medians alone.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from bench import texts
from bench.searchable import SEED, found_after, make_backlog
from shared.domain.lanes import Lane
from shared.ledger.postgres.database import Database
from shared.settings.tuning import Tuning
from tests.support.deployment import Deployment, ScriptedProvider
from tests.support.waiting import eventually

_CHUNKS = 10_000
_UPLOADS = 15
_MODEL_SECONDS = 0.5
_POLL_SECONDS = 0.01
_PAUSE_SECONDS = 0.3
_HOUR = 3_600.0
_TEXT = "# Seed\n\n" + "The harbour opens at six. " * 63
_TUNING = Tuning(batch_wait=timedelta(seconds=5), batch_poll=timedelta(seconds=1), batch_list_lag=timedelta(seconds=5))

Times = tuple[float, float]  # until found, until all questions are found


@dataclass
class TimedUploads:
    """Measures uploads in several situations.

    Args:
        deployment: the running deployment.
        count: uploads in each situation.
    """

    deployment: Deployment
    count: int
    alone: Sequence[Times] = field(default_factory=list)

    def measure(self, name: str) -> None:
        """Upload documents one by one, and print the seconds."""
        measured = [
            self._upload(f"{name} {external_id}", f"{body}\n\n{name} {number}")
            for number, (external_id, body) in enumerate(texts.documents(self.count, sections=3).items())
        ]
        self.alone = self.alone or measured
        for index, what in enumerate(("found", "questions")):
            seconds, alone = ([times[index] for times in each] for each in (measured, self.alone))
            p50, p95 = (_percentile(seconds, percent) for percent in (50, 95))
            ratio = p50 / _percentile(alone, 50)
            print(f"{name:22} {what:10} p50 {p50:6.2f} s, p95 {p95:6.2f} s, longest {max(seconds):6.2f} s,"
                  f" p50 {ratio:.2f} times as long as alone", flush=True)  # fmt: skip

    def _upload(self, external_id: str, body: str) -> Times:
        started = time.perf_counter()
        found = sum(found_after(self.deployment, external_id, body))
        parameters = {"external_id": external_id}
        while True:
            (document,) = (
                self.deployment.client.get("/v1/documents", params=parameters).raise_for_status().json()["items"]
            )
            if document["state"] == "ready":
                break
            time.sleep(_POLL_SECONDS)
        ready = time.perf_counter() - started
        time.sleep(_PAUSE_SECONDS)
        return found, ready


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


async def states(deployment: Deployment) -> str:
    """Return the load's chunks by state, and its batches by state."""
    chunks = await _rows(deployment, "SELECT state, count(*) FROM chunks GROUP BY state ORDER BY state")
    batches = await _rows(
        deployment, "SELECT state, count(*) FROM batches WHERE tenant IS NOT NULL GROUP BY state ORDER BY state"
    )
    return ", ".join(f"{count:,} {state}" for state, count in [*chunks, *batches])


async def is_sent(deployment: Deployment, chunks: int) -> bool:
    sent = "SELECT coalesce(sum(lines), 0) FROM batches WHERE tenant IS NOT NULL AND provider_id IS NOT NULL"
    ((lines,),) = await _rows(deployment, sent)
    return int(lines) >= chunks


async def _rows(deployment: Deployment, statement: str) -> Sequence[Sequence[object]]:
    url = deployment.stack.settings.database_url
    assert url is not None
    database = Database(url.get_secret_value())
    try:
        async with database.begin() as connection:
            return (await connection.execute_sql(statement)).all()
    finally:
        await database.aclose()


def run(deployment: Deployment, provider: ScriptedProvider, chunks: int, count: int) -> None:
    deployment.ingest({SEED: _TEXT}, "others", lane="batch")  # the provider is probed, and a small batch is done live
    deployment.wait_until_settled(1, "others")
    provider.script(latency_seconds=_MODEL_SECONDS)
    uploads = TimedUploads(deployment, count)
    uploads.measure("alone")
    provider.batch_script(running_seconds=_HOUR)
    asyncio.run(make_backlog(deployment, "default", Lane.BATCH, chunks))
    uploads.measure("planned, submitted")
    asyncio.run(eventually(lambda: is_sent(deployment, chunks), "the load was not sent", timeout=600, poll_seconds=1))
    print(asyncio.run(states(deployment)))
    uploads.measure("in batches")
    provider.batch_script(running_seconds=0.0)
    uploads.measure("collected, indexed")
    print(asyncio.run(states(deployment)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chunks", nargs="?", type=int, default=_CHUNKS, help="number of chunks; %(default)s by default")
    parser.add_argument("--uploads", type=int, default=_UPLOADS, help="uploads in each case; %(default)s by default")
    arguments = parser.parse_args()
    provider = ScriptedProvider()
    try:
        settings = provider.settings(llm_batches=True, tuning=_TUNING)
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder)) as deployment:
            run(deployment, provider, arguments.chunks, arguments.uploads)
    finally:
        provider.close()


if __name__ == "__main__":
    main()
