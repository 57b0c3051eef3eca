"""Queries while the ingest runs in the tier flex: `python -m bench flex [--pairs N]`.

All processes of a deployment run, with a scripted model that takes half a second to a second and a half, and a load of
another tenant that never ends. Queries are sent one after the other, in alternating windows: in one of each pair the
provider refuses 30 % of the load's calls because it has no capacity left, in the other one none. Printed are the p50
and the p95 of `/v1/retrieve` in both, the median ratio of the pairs, the processor time of each process, and the
effects of the refusals: attempts of chunks, cooldowns and breaker events.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import texts
from bench.searchable import SEED, make_backlog
from shared.ledger.postgres.database import Database
from shared.providers.limiter.limiter import connect
from tests.support.deployment import Deployment, ScriptedProvider

_PAIRS = 6
_SECONDS = 15.0  # of a window
_SETTLING_SECONDS = 3.0  # after a change of the provider
_PAUSE_SECONDS = 0.02  # between two queries
_MODEL_SECONDS, _SPREAD_SECONDS = 0.5, 1.0  # equal durations would let all calls end, and be settled, together
_IN_FLIGHT = 20
_REFUSED = 0.3
_ASKED = "asked"
_DOCUMENTS = 200
_GOAL = 1.1
_LOAD_CHUNKS = 50_000


@dataclass(frozen=True)
class Phase:
    """The queries of a window, and the load during it."""

    seconds: Sequence[float]
    answered: float  # calls a second
    refused: float
    cpu: Mapping[str, float]  # processor milliseconds a second, by process

    def percentile(self, percent: int) -> float:
        return 1_000 * statistics.quantiles(self.seconds, n=100, method="inclusive")[percent - 1]


@dataclass(frozen=True)
class Queries:
    """Sends queries one after the other."""

    deployment: Deployment
    provider: ScriptedProvider
    questions: Iterator[str]

    def window(self, refused: float, seconds: float) -> Phase:
        self.provider.script(share_no_capacity=refused)
        self._send(_SETTLING_SECONDS)
        before, cpu_before = self._statuses(), self._cpu()
        times = self._send(seconds)
        after, cpu_after = self._statuses(), self._cpu()
        answered, refusals = ((after.get(s, 0) - before.get(s, 0)) / seconds for s in ("200", "429"))
        cpu = {name: 1_000 * (cpu_after[name] - cpu_before[name]) / seconds for name in cpu_after}
        return Phase(times, answered, refusals, cpu)

    def _send(self, seconds: float) -> list[float]:
        ends, times = time.perf_counter() + seconds, []
        while (started := time.perf_counter()) < ends:
            body = {"question": next(self.questions), "collection": _ASKED}
            self.deployment.client.post("/v1/retrieve", json=body).raise_for_status()
            times.append(time.perf_counter() - started)
            time.sleep(_PAUSE_SECONDS)
        return times

    def _cpu(self) -> dict[str, float]:
        return self.deployment.cpu_seconds() | self.deployment.engine_cpu_seconds()

    def _statuses(self) -> dict[str, int]:
        return dict(self.provider.stats()["statuses"])


def report(pairs: Sequence[tuple[Phase, Phase]]) -> None:
    for name, windows in zip(("none refused", f"{_REFUSED:.0%} refused"), zip(*pairs, strict=True), strict=True):
        p50, p95 = ([window.percentile(percent) for window in windows] for percent in (50, 95))
        print(
            f"{name:13} p50 {statistics.median(p50):6.1f} ms, p95 {statistics.median(p95):6.1f} ms"
            f" ({', '.join(f'{each:.1f}' for each in p95)}); {statistics.mean(w.answered for w in windows):.1f} calls"
            f" a second answered, {statistics.mean(w.refused for w in windows):.1f} refused"
        )
        cpu = {process: statistics.mean(window.cpu[process] for window in windows) for process in windows[0].cpu}
        print(f"  CPU, ms a second: {', '.join(f'{process} {each:.0f}' for process, each in cpu.items())}")
    ratios = [refused.percentile(95) / without.percentile(95) for without, refused in pairs]
    ratio = statistics.median(ratios)
    missed = "  missed" if ratio > _GOAL else ""
    print(f"p95 with refusals: {ratio:.2f} times p95 without ({', '.join(f'{each:.2f}' for each in sorted(ratios))}),"
          f" goal {_GOAL}{missed}", flush=True)  # fmt: skip


async def report_effects(deployment: Deployment) -> None:
    """Print the effects that refusals must not have: attempts, cooldowns and breaker events."""
    urls = deployment.stack.settings
    assert urls.database_url is not None
    assert urls.redis_url is not None
    database = Database(urls.database_url.get_secret_value())
    try:
        async with database.begin() as connection:
            counts = "coalesce(sum(attempts), 0), count(*) FILTER (WHERE state = 'dead')"
            attempts, dead = (await connection.execute_sql(f"SELECT {counts} FROM chunks")).one()
    finally:
        await database.aclose()
    redis = connect(urls.redis_url.get_secret_value())
    states = [await redis.hgetall(key) async for key in redis.scan_iter("*:state")]
    await redis.aclose()
    cooldowns = sum(float(state.get(b"cooldown", 0)) > 0 for state in states)
    events = deployment.logs().count("breaker.changed")
    print(f"attempts {attempts}, dead chunks {dead}, providers that had a cooldown {cooldowns} of"
          f" {len(states)}, breaker events {events}", flush=True)  # fmt: skip


def run(deployment: Deployment, provider: ScriptedProvider, pairs: int, seconds: float) -> None:
    deployment.ingest(texts.documents(_DOCUMENTS), _ASKED)
    deployment.ingest({SEED: "# Seed\n\n" + "The harbour opens at six. " * 40}, "others")
    deployment.wait_until_settled(_DOCUMENTS, _ASKED, timeout=240)
    deployment.wait_until_settled(1, "others")
    provider.script(latency_seconds=_MODEL_SECONDS, latency_spread_seconds=_SPREAD_SECONDS)
    asyncio.run(make_backlog(deployment, chunks=_LOAD_CHUNKS))
    queries = Queries(deployment, provider, texts.questions())
    queries.window(0.0, seconds / 2)  # the load starts
    measured = []
    for number in range(pairs):
        shares = [0.0, _REFUSED] if number % 2 == 0 else [_REFUSED, 0.0]
        windows = {share: queries.window(share, seconds) for share in shares}
        measured.append((windows[0.0], windows[_REFUSED]))
    report(measured)
    asyncio.run(report_effects(deployment))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=_PAIRS, help="pairs of windows; %(default)s by default")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="length of a window; %(default)s by default")
    arguments = parser.parse_args()
    provider = ScriptedProvider()
    try:
        settings = provider.settings(llm_tier="flex", llm_max_in_flight=_IN_FLIGHT)
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder)) as deployment:
            run(deployment, provider, arguments.pairs, arguments.seconds)
    finally:
        provider.close()


if __name__ == "__main__":
    main()
