"""The budget of an idle second, a chunk and a query: CPU by process and group of functions, and PostgreSQL's work.

`python -m bench budget [--documents N] [--idle SECONDS] [--queries N] [--points N] [--json FILE]`: some seconds
without work, the chunks of `bench ingest` with a model that takes 0.5 s, and the queries of `bench retrieval` from one
client. The kernel counts the time of each thread, and py-spy's samples divide it among the groups of `bench/groups.py`.
py-spy needs the right to trace other processes: see `bench profile`, which lists single functions. It costs the
processes themselves little, but it uses the cores that they need, so this benchmark prints no wall clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import asyncpg

from bench import texts
from bench.profile import CpuTime, profiled, sampling
from bench.retrieval import QUESTIONS, TextVectors, ask, embed, fill, wait_for_graphs
from bench.runs import CpuMeter, Numbers
from embedded import postgres
from tests.support.deployment import Deployment, ScriptedProvider

_MODEL_SECONDS = 0.5
_WARM_DOCUMENTS, _WARM_QUERIES = 40, 50
_CALM_SECONDS = 3.0
_TIMEOUT_SECONDS = 1_800.0
_SAMPLES_A_SECOND = 200
_FLUSH_SECONDS = 1.5  # after which idle sessions of PostgreSQL have reported their counts
_SHOWN_MS = 0.005

_COUNTS = """
    SELECT xact_commit AS commits, tup_inserted AS "rows inserted", tup_updated AS "rows updated",
           tup_deleted AS "rows deleted", blks_hit AS "buffer hits", blks_read AS "buffer reads",
           (SELECT wal_bytes FROM pg_stat_wal) AS "WAL bytes",
           (SELECT sum(calls) FROM pg_stat_statements WHERE toplevel) AS statements,
           (SELECT sum(calls) FROM pg_stat_statements
            WHERE toplevel AND query ~* '^(begin|commit|rollback|select set_config)') AS "BEGIN, COMMIT, set_config"
    FROM pg_stat_database WHERE datname = current_database()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=400, help="of five chunks; %(default)s by default")
    parser.add_argument("--in-flight", type=int, default=64, help="calls of the model; %(default)s by default")
    parser.add_argument("--idle", type=int, default=30, help="seconds without work; %(default)s by default")
    parser.add_argument("--queries", type=int, default=500, help="%(default)s by default")
    parser.add_argument("--points", type=int, default=20_000, help="that are searched; %(default)s by default")
    parser.add_argument("--py-spy", default=str(Path(sys.executable).with_name("py-spy")), help="path of py-spy")
    parser.add_argument("--json", type=Path, help="file to which the numbers are appended, a line per table")
    options = parser.parse_args()
    postgres.PARAMETERS["shared_preload_libraries"] = "pg_stat_statements"
    provider = ScriptedProvider(latency_seconds=_MODEL_SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            settings = provider.settings(llm_max_in_flight=options.in_flight)
            with Deployment(settings, Path(folder)) as deployment:
                chunks(deployment, options)
        with tempfile.TemporaryDirectory() as folder:
            embedding = {"embedding_base_url": None, "embedding_model": None, "embedding_api_key": None}
            with Deployment(settings.model_copy(update=embedding), Path(folder), roles=()) as deployment:
                queries(deployment, options)
    finally:
        provider.close()


def chunks(deployment: Deployment, options: argparse.Namespace) -> None:
    deployment.wait_for_workers()
    time.sleep(_CALM_SECONDS)
    measure(deployment, "second idle", lambda: _sleep(options.idle), options)  # a calibration follows later loads
    deployment.ingest(texts.documents(_WARM_DOCUMENTS, name="note"), "warm")
    deployment.wait_until_settled(_WARM_DOCUMENTS, "warm", timeout=_TIMEOUT_SECONDS)
    time.sleep(_CALM_SECONDS)
    documents = texts.documents(options.documents)

    def act() -> int:
        deployment.ingest(documents)
        settled = deployment.wait_until_settled(len(documents), timeout=_TIMEOUT_SECONDS)
        return sum(document["chunks"]["indexed"] for document in settled)

    measure(deployment, "chunk", act, options)


def _sleep(seconds: int) -> int:
    time.sleep(seconds)
    return seconds


def queries(deployment: Deployment, options: argparse.Namespace) -> None:
    deployment.client.put("/v1/collections/bench", json={}).raise_for_status()
    vectors = TextVectors(embed(deployment, list(texts.sentences())), embed(deployment, texts.asked()))
    name = asyncio.run(fill(deployment, options.points // (QUESTIONS + 1), vectors))
    asyncio.run(wait_for_graphs(deployment, name))
    url, asked = str(deployment.client.base_url), texts.questions()
    asyncio.run(ask(url, 1, _WARM_QUERIES, asked))
    measure(deployment, "query", lambda: len(asyncio.run(ask(url, 1, options.queries, asked))), options)


def measure(deployment: Deployment, unit: str, act: Callable[[], int], options: argparse.Namespace) -> None:
    """Print the budget of an action, divided by the number of chunks or queries that it returns."""
    before, load = counts(deployment), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        pids = profiled(deployment)
        with sampling(options.py_spy, pids, Path(folder), _SAMPLES_A_SECOND) as parts:
            meter = CpuMeter(deployment)
            count = act()
            cpu = meter.milliseconds(count, unit)
    time.sleep(_FLUSH_SECONDS)
    after = counts(deployment)
    statements = {f"{name} a {unit}": (after[name] - before[name]) / count for name in after}
    groups = {name: _milliseconds(own, count) for name, own in parts.items()}
    print(
        f"\nCPU ms a {unit}, mean of {count:,}; load of the machine {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    )
    print_groups(groups)
    print_numbers({name: value for name, value in cpu.items() if name.split(",")[0] not in groups})
    print("PostgreSQL")
    print_numbers(statements)
    if options.json:
        with options.json.open("a") as file:
            numbers = {f"{process}: {group}": ms for process, own in groups.items() for group, ms in own.items()}
            file.write(json.dumps({"title": f"budget of a {unit}", "numbers": cpu | numbers | statements}) + "\n")


def counts(deployment: Deployment) -> dict[str, float]:
    """Return the statistics of PostgreSQL since its start."""

    async def read() -> dict[str, Any]:
        url = deployment.stack.settings.database_url
        assert url is not None
        connection = await asyncpg.connect(url.get_secret_value())
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            return dict(await connection.fetchrow(_COUNTS))
        finally:
            await connection.close()

    return {name: float(value or 0) for name, value in asyncio.run(read()).items()}


def _milliseconds(own: CpuTime, count: int) -> Numbers:
    return {group: seconds * 1000 / count for group, seconds in own.by_group.items()}


def print_groups(groups: Mapping[str, Numbers]) -> None:
    """Print a row for each group and a column for each process."""
    sums = {group: sum(own.get(group, 0.0) for own in groups.values()) for own in groups.values() for group in own}
    print(f"  {'':24}" + "".join(f"{process:>10}" for process in groups) + f"{'all':>10}")
    for group, total in sorted(sums.items(), key=lambda each: -each[1]):
        if total >= _SHOWN_MS:
            cells = [own.get(group, 0.0) for own in groups.values()]
            print(f"  {group:24}" + "".join(f"{ms:10.2f}" if ms >= _SHOWN_MS else f"{'':10}" for ms in (*cells, total)))
    totals = [sum(own.values()) for own in groups.values()]
    print(f"  {'all':24}" + "".join(f"{ms:10.2f}" for ms in (*totals, sum(totals))), flush=True)


def print_numbers(numbers: Mapping[str, float]) -> None:
    for name, value in numbers.items():
        print(f"  {name:44}{value:10,.2f}", flush=True)


if __name__ == "__main__":
    main()
