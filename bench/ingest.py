"""Ingest of 200 documents, 1,000 chunks of prose, with a provider that takes 0.5 s, compared with a bare asyncio loop.

`python -m bench ingest [--runs 5] [--documents N] [--in-flight N...] [--seconds S] [--characters N] [--embedded]`: all
processes of a deployment run (API, workers, scheduler, engines). The wall clock is measured from the first upload to
the last document `ready`. CPU is the time of a process with its children, divided by the number of chunks. The bare
loop makes the same calls and stores nothing; it is a lower limit, not a goal: read the milliseconds first.

In the first run of each number of calls, the same documents are ingested again, and a third time with two documents
changed: the calls that this costs are printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import texts
from bench.runs import CpuMeter, Numbers, add_options, repeat
from tests.support.deployment import ROOT, Deployment, ScriptedProvider

_TIMEOUT_SECONDS = 1_800.0
_CALM_SECONDS = 3.0  # late steps of the warm-up, such as the calibration of its collection


class Ingest:
    """The measurement with one number of calls in flight."""

    def __init__(self, provider: ScriptedProvider, in_flight: int, options: argparse.Namespace) -> None:
        self._provider = provider
        self._in_flight = in_flight
        self._options = options
        self._documents = texts.documents(options.documents, texts.SECTIONS, options.characters)
        self._repeats = True  # only in the first run
        chunks = options.documents * texts.SECTIONS
        self._ideal = chunks / in_flight * (options.seconds + options.spread / 2)
        self.title = f"{chunks:,} chunks of {options.characters:,} characters, {in_flight} calls in flight"

    def run(self) -> Numbers:
        loop = {} if self._options.embedded else self._bare_loop()
        self._provider.reset()
        settings = self._provider.settings(llm_max_in_flight=self._in_flight)
        if self._options.embedded:
            settings = settings.model_copy(
                update={"embedding_base_url": None, "embedding_model": None, "embedding_api_key": None}
            )
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder)) as deployment:
            deployment.wait_for_workers()
            self._warm_up(deployment)
            numbers = self._measure(deployment) | loop
            if self._repeats:
                self._again(deployment)
                self._changed(deployment)
                self._repeats = False
        if loop:
            numbers["wall / bare loop's"] = numbers["wall, s"] / loop["bare loop's wall, s"]
            numbers["foreask's CPU / bare loop's"] = (
                numbers["foreask, CPU ms a chunk"] / loop["bare loop, CPU ms a chunk"]
            )
        return numbers

    def _bare_loop(self) -> Numbers:
        chunks = self._options.documents * texts.SECTIONS
        command = [sys.executable, "-m", "bench.bare_loop", self._provider.url, str(self._in_flight)]
        arguments = [str(self._options.documents), str(self._options.characters)]
        output = subprocess.run([*command, *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        wall, cpu = map(float, output.split())
        return {"bare loop's wall, s": wall, "bare loop, CPU ms a chunk": cpu * 1000 / chunks}

    def _warm_up(self, deployment: Deployment) -> None:
        """Ingest other documents, because the first ones also pay for imports, connections and plans."""
        deployment.ingest(texts.documents(self._options.warm, name="note"), "warm")
        deployment.wait_until_settled(self._options.warm, "warm", timeout=_TIMEOUT_SECONDS)
        time.sleep(_CALM_SECONDS)
        self._provider.reset()

    def _measure(self, deployment: Deployment) -> Numbers:
        meter, started, started_at = CpuMeter(deployment), time.perf_counter(), time.time()
        deployment.ingest(self._documents)
        uploaded = time.perf_counter() - started
        settled = deployment.wait_until_settled(len(self._documents), timeout=_TIMEOUT_SECONDS)
        wall = time.perf_counter() - started
        chunks = sum(document["chunks"]["indexed"] for document in settled)
        cpu, stats = meter.milliseconds(chunks, "chunk"), self._provider.stats()
        if self._repeats:
            kept = sum(document["questions"] for document in settled)
            ready = all(document["state"] == "ready" for document in settled)
            print(f"{self.title}: {len(settled)} documents ready: {ready}; {chunks} chunks, {stats['calls']} calls")
            print(f"  points {deployment.points()}, kept questions {kept} + chunks {chunks}")
            peaks = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in deployment.peak_bytes().items())
            print(f"  peak MB: {peaks}", flush=True)
        return cpu | {
            "wall, s": wall,
            "shortest possible wall, s": self._ideal,
            "uploads, s": uploaded,
            "first call after, s": min(stats["arrivals"]) - started_at,
            "last call after, s": max(stats["arrivals"]) - started_at,
            "most calls in flight": stats["peak_in_flight"],
        }

    def _again(self, deployment: Deployment) -> None:
        self._provider.reset()
        replies = deployment.ingest(self._documents)
        deployment.wait_until_settled(len(self._documents))
        unchanged = all(reply.status_code == 200 for reply in replies)
        print(f"  the same again: {self._provider.stats()['calls']} calls, all answered 200: {unchanged}")

    def _changed(self, deployment: Deployment) -> None:
        self._provider.reset()
        names = list(self._documents)[:2]
        edited = {name: self._documents[name].replace(" the ", " this ") for name in names}
        deployment.ingest(edited)
        settled = deployment.wait_until_settled(len(self._documents))
        kept = sum(document["questions"] + document["chunks"]["indexed"] for document in settled)
        calls, points = self._provider.stats()["calls"], deployment.points()
        print(f"  two documents changed: {calls} calls; points {points}, kept questions + chunks {kept}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200, help="of five chunks; %(default)s by default")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 128], help="calls of the model; 64 and 128")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a call; %(default)s by default")
    parser.add_argument("--spread", type=float, default=0.0, help="up to so many seconds more; %(default)s by default")
    parser.add_argument(
        "--characters", type=int, default=texts.CHARACTERS, help="of a chunk's text; %(default)s by default"
    )
    parser.add_argument("--warm", type=int, default=40, help="documents before the measurement; %(default)s by default")
    parser.add_argument(
        "--embedded", action="store_true", help="use the embedded embedding model, which costs the most"
    )
    add_options(parser)
    options = parser.parse_args()
    provider = ScriptedProvider(latency_seconds=options.seconds, latency_spread_seconds=options.spread)
    try:
        for in_flight in options.in_flight:
            ingest = Ingest(provider, in_flight, options)
            repeat(ingest.title, ingest.run, options)
    finally:
        provider.close()


if __name__ == "__main__":
    main()
