"""The cost of a deployment without work: `python -m bench idle [--seconds N] [--statements N]`.

All processes of a deployment run after a small ingest. The table has the processor time of each process and its
children, and the statements that PostgreSQL has received, `BEGIN` and `COMMIT` included.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from embedded import postgres
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from tests.support.deployment import Deployment, ScriptedProvider, corpus

_DOCUMENTS = 50
_CALM_SECONDS = 45  # the finished work is cleaned up, and the index is optimized
_COUNTED = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top"}
_CREATE = Statement("CREATE EXTENSION pg_stat_statements")
_RESET = Statement("SELECT pg_stat_statements_reset()")
_LIST = Statement("SELECT calls, query FROM pg_stat_statements ORDER BY calls DESC")


def processor_ms(pid: int) -> float:
    """Return the processor time of a process, its threads and its children, also of ended children."""
    process = psutil.Process(pid)
    spent = 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):  # it has ended
            times = each.cpu_times()
            spent += 1e3 * (times.children_user + times.children_system)
            for task in Path(f"/proc/{each.pid}/task").iterdir():  # exact, while other times are in hundredths
                spent += int((task / "schedstat").read_text().split()[0]) / 1e6
    return spent


def execute(deployment: Deployment, statement: Statement) -> Sequence[Row]:
    url = deployment.stack.settings.database_url
    assert url is not None

    async def rows() -> Sequence[Row]:
        database = Database(url.get_secret_value(), pool_size=1)
        try:
            return await database.rows(statement)
        finally:
            await database.aclose()

    return asyncio.run(rows())


def measure(deployment: Deployment, seconds: float, listed: int) -> None:
    pids = {name: process.pid for name, process in deployment.processes.items() if process.poll() is None}
    pids |= deployment.stack.pids()
    execute(deployment, _RESET)
    before, started = _spent(pids), time.monotonic()
    time.sleep(seconds)
    after, took = _spent(pids), time.monotonic() - started
    statements = execute(deployment, _LIST)
    total = 0.0
    print("process      CPU ms a second")
    for name in pids:
        total += (used := (after[name] - before[name]) / took)
        print(f"{name:12} {used:15.2f}")
    print(f"{'sum':12} {total:15.2f}, {total / 10:.2f} % of a core")
    print(f"{sum(row['calls'] for row in statements) / took:.1f} statements a second", flush=True)
    for row in statements[:listed]:
        print(f"  {row['calls'] / took:6.2f}  {' '.join(row['query'].split())[:150]}")


def _spent(pids: Mapping[str, int]) -> dict[str, float]:
    return {name: processor_ms(pid) for name, pid in pids.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="duration of the measurement")
    parser.add_argument("--statements", type=int, default=0, help="number of statements to list with their rates")
    options = parser.parse_args()
    postgres.PARAMETERS.update(_COUNTED)
    provider = ScriptedProvider(latency_seconds=0.1)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Deployment(provider.settings(llm_max_in_flight=64), Path(folder)) as deployment,
        ):
            deployment.wait_for_workers()
            execute(deployment, _CREATE)
            deployment.ingest(corpus(_DOCUMENTS))
            deployment.wait_until_settled(_DOCUMENTS)
            time.sleep(_CALM_SECONDS)
            measure(deployment, options.seconds, options.statements)
    finally:
        provider.close()


if __name__ == "__main__":
    main()
