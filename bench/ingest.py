"""Ingest of 200 documents, 1,000 chunks, with a provider that takes 0.5 s, compared with a bare asyncio loop.

`python -m bench ingest [--documents N] [--in-flight N...] [--seconds S] [--spread S]`: all processes of a deployment
run (API, workers, scheduler, embedded engines). Wall clock is measured from the first upload to the last document
`ready`. CPU and memory are the sum of the API and the workers, and are compared with the process of the bare loop:
both make the same calls. The engines, which the bare loop does not have, are listed separately. Then the same
documents are ingested again, and a third time with two documents changed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.deployment import ROOT, Deployment, ScriptedProvider, corpus

SECTIONS = 5  # chunks of a document


def bare(provider: ScriptedProvider, in_flight: int, documents: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.bare_loop", provider.url, str(in_flight), str(documents)]
    wall, cpu = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return float(wall), float(cpu)


def measure(provider: ScriptedProvider, in_flight: int, options: argparse.Namespace, folder: Path) -> None:
    """Print one row of the table, and the calls that the second and third ingest paid for."""
    ideal = options.documents * SECTIONS / in_flight * (options.seconds + options.spread / 2)
    loop_wall, loop_cpu = bare(provider, in_flight, options.documents)
    provider.reset()
    settings = provider.settings(llm_max_in_flight=in_flight)
    documents = corpus(options.documents, SECTIONS)
    with Deployment(settings, folder) as deployment:
        deployment.wait_for_workers()
        before, engines_before = deployment.cpu_seconds(), deployment.engine_cpu_seconds()
        started, started_at = time.perf_counter(), time.time()
        deployment.ingest(documents)
        uploaded = time.perf_counter() - started
        settled = deployment.wait_until_settled(len(documents))
        wall = time.perf_counter() - started
        cpu = _since(before, deployment.cpu_seconds())
        engines = _since(engines_before, deployment.engine_cpu_seconds())
        chunks = sum(d["chunks"]["indexed"] for d in settled)
        kept = sum(d["questions"] for d in settled)
        stats = provider.stats()
        total = sum(cpu.values())
        print(f"{in_flight} in flight: ideal {ideal:.1f} s", flush=True)
        print(f"  bare loop   {loop_wall:6.2f} s wall {loop_cpu:6.2f} s CPU")
        print(f"  foreask     {wall:6.2f} s wall {total:6.2f} s CPU")
        print(f"  {wall / loop_wall:.2f} times the bare loop's wall, {total / loop_cpu:.2f} times its CPU")
        first, last = min(stats["arrivals"]) - started_at, max(stats["arrivals"]) - started_at
        print(f"  {total / chunks * 1000:.2f} CPU ms a chunk; uploads took {uploaded:.2f} s", flush=True)
        print(f"  calls from {first:.2f} s to {last:.2f} s; peak in flight {stats['peak_in_flight']}")
        print("  CPU s:", _listed(cpu))
        print("  engines' CPU s:", _listed(engines))
        print("  peak MB:", ", ".join(f"{name} {size / 1e6:.0f}" for name, size in deployment.peak_bytes().items()))
        print(f"  {len(settled)} documents ready: {all(d['state'] == 'ready' for d in settled)}")
        print(f"  points {deployment.points()}, kept questions {kept} + chunks {chunks}; calls {stats['calls']}")
        again(deployment, provider, documents)
        changed(deployment, provider, documents)


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds - before[name] for name, seconds in now.items()}


def _listed(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {spent:.2f}" for name, spent in seconds.items())


def again(deployment: Deployment, provider: ScriptedProvider, documents: dict[str, str]) -> None:
    provider.reset()
    replies = deployment.ingest(documents)
    deployment.wait_until_settled(len(documents))
    unchanged = all(reply.status_code == 200 for reply in replies)
    print(f"  the same again: {provider.stats()['calls']} calls, all answered 200: {unchanged}")


def changed(deployment: Deployment, provider: ScriptedProvider, documents: dict[str, str]) -> None:
    provider.reset()
    names = list(documents)[:2]
    edited = {name: documents[name].replace("topic", "subject", 30) for name in names}
    deployment.ingest(edited)
    settled = deployment.wait_until_settled(len(documents))
    kept = sum(d["questions"] + d["chunks"]["indexed"] for d in settled)
    calls, points = provider.stats()["calls"], deployment.points()
    print(f"  two documents changed: {calls} calls; points {points}, kept questions + chunks {kept}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200, help="of five chunks; %(default)s by default")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 128], help="calls of the model; 64 and 128")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a call; %(default)s by default")
    parser.add_argument("--spread", type=float, default=0.0, help="up to so many seconds more; %(default)s by default")
    options = parser.parse_args()
    provider = ScriptedProvider(latency_seconds=options.seconds, latency_spread_seconds=options.spread)
    try:
        for in_flight in options.in_flight:
            with tempfile.TemporaryDirectory() as folder:
                measure(provider, in_flight, options, Path(folder))
    finally:
        provider.close()


if __name__ == "__main__":
    main()
