"""Where the processor time of a chunk and of a query is spent: `python -m bench profile [--chunks N] [--queries N]`.

All processes of a deployment run while the corpus of `bench ingest` is ingested, and then while one client sends
queries one after the other. py-spy takes samples of each Python process that is on a processor. The time of a process
comes from the kernel; the samples only divide it. A sample belongs to the innermost function of ours in its stack, and
so does the time of the libraries that this function calls; the second table divides the same time by the package of
the innermost frame. Samples without a function of ours are named after their package.

py-spy stops a process for each sample (about 1 ms), so wall clock and rates differ from `bench ingest`. It needs
the right to trace other processes: root, or `sudo sysctl kernel.yama.ptrace_scope=0`.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.deployment import Deployment, ScriptedProvider, corpus

LATENCY_SECONDS = 0.5
_SECTIONS = 5  # chunks of a document
_SAMPLES_A_SECOND = 100
_LISTED = 0.01  # of a process's time; smaller parts are summed up
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::\d+)?\)$")
# Frames of threads that wait, which py-spy often takes for running.
_WAITS = {
    ("_worker", "concurrent/futures/thread.py"),
    ("wait", "threading.py"),
    ("accept", "socket.py"),
    ("poll", "kombu/utils/eventio.py"),
}
_OURS = ("shared/", "api/", "workers/", "embedded/")


@dataclass(slots=True)
class Samples:
    """Samples of one process, by function of ours and by package."""

    by_function: Counter[str] = field(default_factory=Counter)
    by_package: Counter[str] = field(default_factory=Counter)

    def add(self, folded: str) -> None:
        """Add the lines of py-spy's format `raw`: frames from the outermost inwards, and a count."""
        for line in folded.splitlines():
            stack, _, count = line.rpartition(" ")
            frames = [match for frame in stack.split(";") if (match := _FRAME.match(frame))]
            if frames and (frames[-1]["function"].rpartition(".")[2], frames[-1]["file"]) not in _WAITS:
                package = _package(frames[-1]["file"])
                own = next((frame for frame in reversed(frames) if frame["file"].startswith(_OURS)), None)
                self.by_function[f"{own['file']} {own['function']}" if own else f"({package})"] += int(count)
                self.by_package[package] += int(count)


def _package(file: str) -> str:
    if file.startswith(_OURS):
        return "foreask"
    top = file.split("/", maxsplit=1)[0]
    return top.removesuffix(".py") if "/" in file else f"Python's {top.removesuffix('.py')}"


@contextmanager
def sampling(py_spy: str, processes: Mapping[str, int], folder: Path) -> Iterator[dict[str, Samples]]:
    """Sample processes; the mapping that is returned has the samples after the end of the block."""
    samples = {name: Samples() for name in processes}
    recorders = {}
    for name, pid in processes.items():
        output = ["--format", "raw", "--output", str(folder / f"{name}.folded")]
        rate = ["--rate", str(_SAMPLES_A_SECOND), "--subprocesses", "--function"]
        command = [py_spy, "record", "--pid", str(pid), *rate, *output]
        recorders[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.0)  # py-spy prints nothing when it starts
    try:
        yield samples
    finally:
        for recorder in recorders.values():
            recorder.send_signal(signal.SIGINT)
        for name, recorder in recorders.items():
            recorder.wait(timeout=60)
            samples[name].add((folder / f"{name}.folded").read_text())


def table(title: str, seconds: Mapping[str, float], samples: Mapping[str, Samples], count: int) -> None:
    """Print the microseconds of each part of each process, divided by the number of chunks or queries."""
    print(f"\n{title}: {sum(seconds.values()) / count * 1e3:.2f} CPU ms each, without the other engines", flush=True)
    for name, own in seconds.items():
        print(f"  {name}: {own / count * 1e6:,.0f} µs")
        for counter in (samples[name].by_function, samples[name].by_package):
            _print_parts(counter, own / count * 1e6)


def _print_parts(counter: Counter[str], microseconds: float) -> None:
    total = counter.total() or 1
    listed = [(part, n) for part, n in counter.most_common() if n >= _LISTED * total]
    for part, n in listed:
        print(f"    {n / total * microseconds:8,.0f}  {part}")
    print(f"    {(total - sum(n for _, n in listed)) / total * microseconds:8,.0f}  all others\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=5_000, help="%(default)s by default")
    parser.add_argument("--queries", type=int, default=2_000, help="%(default)s by default")
    parser.add_argument("--in-flight", type=int, default=64, help="calls of the model; %(default)s by default")
    parser.add_argument("--py-spy", default=str(Path(sys.executable).with_name("py-spy")), help="path of py-spy")
    options = parser.parse_args()
    provider = ScriptedProvider(latency_seconds=LATENCY_SECONDS)
    settings = provider.settings(llm_max_in_flight=options.in_flight)
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder)) as deployment:
            deployment.wait_for_workers()
            _ingest(deployment, options.py_spy, options.chunks // _SECTIONS, Path(folder))
            _query(deployment, options.py_spy, options.queries, Path(folder))
    finally:
        provider.close()


def _profiled(deployment: Deployment) -> dict[str, int]:
    """Return the process ids of the Python processes by name."""
    own = {name: process.pid for name, process in deployment.processes.items() if process.poll() is None}
    return {**own, "qdrant": deployment.stack.pids()["qdrant"]}


def _spent(deployment: Deployment) -> tuple[dict[str, float], dict[str, float]]:
    """Return the processor seconds of the Python processes, and of the other engines."""
    engines = deployment.engine_cpu_seconds()
    return deployment.cpu_seconds() | {"qdrant": engines.pop("qdrant")}, engines


def _ingest(deployment: Deployment, py_spy: str, documents: int, folder: Path) -> None:
    with sampling(py_spy, _profiled(deployment), folder) as samples:
        before, engines_before = _spent(deployment)
        deployment.ingest(corpus(documents))
        settled = deployment.wait_until_settled(documents)
        now, engines = _spent(deployment)
    chunks = sum(document["chunks"]["indexed"] for document in settled)
    table(f"Ingest of {chunks:,} chunks", _since(before, now), samples, chunks)
    _print_engines(_since(engines_before, engines), chunks)


def _query(deployment: Deployment, py_spy: str, queries: int, folder: Path) -> None:
    questions = [section.split("\n")[0] for text in corpus().values() for section in text.split("\n\n## ")[1:]]
    processes = {name: pid for name, pid in _profiled(deployment).items() if name in ("api", "qdrant")}
    with sampling(py_spy, processes, folder) as samples:
        before, engines_before = _spent(deployment)
        for number in range(queries):
            body = {"question": questions[number % len(questions)], "collection": "default"}
            deployment.client.post("/v1/retrieve", json=body).raise_for_status()
        now, engines = _spent(deployment)
    spent = _since(before, now)
    table(f"{queries:,} queries", {name: spent[name] for name in processes}, samples, queries)
    _print_engines(_since(engines_before, engines), queries)


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds - before[name] for name, seconds in now.items()}


def _print_engines(seconds: Mapping[str, float], count: int) -> None:
    print(
        "  other engines, ms:",
        ", ".join(f"{name} {spent / count * 1e3:.2f}" for name, spent in seconds.items()),
        flush=True,
    )


if __name__ == "__main__":
    main()
