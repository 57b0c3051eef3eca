"""Where the processor time of a chunk and of a query is spent: `python -m bench profile [--chunks N] [--queries N]`.

All processes of a deployment run while the corpus of `bench ingest` is ingested, and then while one client sends
queries one after the other. The kernel counts the time of each thread, and py-spy's samples of the thread divide it, so
threads that wait cost nothing. A sample belongs to the innermost function of ours in its stack, and so does the time of
the libraries that this function calls. The time is divided three times: by thread, by function of ours, and by the
package of the innermost frame. Samples without a function of ours are named after their package; threads without
samples belong to libraries.

py-spy needs the right to trace other processes: root, or `sudo sysctl kernel.yama.ptrace_scope=0`. It reads a process
while it runs: stopping it for each sample would double its time.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench import texts
from bench.groups import NATIVE, group_of
from tests.support.deployment import Deployment, ScriptedProvider, processor_seconds

LATENCY_SECONDS = 0.5
_SECTIONS = 5  # chunks of a document
_SAMPLES_A_SECOND = 50
_LISTED = 0.01  # of a process's time; smaller parts are summed up
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)$")
_THREAD = re.compile(r"thread \((?P<id>\d+)\)(?:: (?P<name>.*))?$")
_NUMBERED = re.compile(r"[-_]\d+(?:_\d+)?$")  # the end of the name of a pool's thread
_OURS = ("shared/", "features/", "api/", "workers/", "embedded/")

Threads = dict[int, tuple[str, float]]  # name in the kernel and processor seconds of each thread, by its id


@dataclass(slots=True)
class CpuTime:
    """The processor seconds of one process and its children, divided in three ways."""

    by_thread: Counter[str] = field(default_factory=Counter)
    by_function: Counter[str] = field(default_factory=Counter)
    by_package: Counter[str] = field(default_factory=Counter)
    by_group: Counter[str] = field(default_factory=Counter)

    def add_ended(self, total: float) -> None:
        """Add the rest of the total: the time of threads and children that ended meanwhile."""
        rest = max(0.0, total - self.by_thread.total())
        for counter in (self.by_thread, self.by_function, self.by_package, self.by_group):
            counter["(ended)"] += rest


@dataclass(slots=True)
class _Samples:
    """Samples of one thread."""

    name: str = ""
    by_function: Counter[str] = field(default_factory=Counter)
    by_package: Counter[str] = field(default_factory=Counter)
    by_group: Counter[str] = field(default_factory=Counter)


def _read(folded: str) -> dict[int, _Samples]:
    """Read the samples of each thread in py-spy's format `raw`: frames from the outermost inwards, and a count."""
    samples: dict[int, _Samples] = defaultdict(_Samples)
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        parts = stack.split(";")
        threads = [match for part in parts if (match := _THREAD.match(part))]
        frames = [match for part in parts if (match := _FRAME.match(part))]
        if threads and frames:
            own = next((frame for frame in reversed(frames) if frame["file"].startswith(_OURS)), None)
            package = _package(frames[-1]["file"])
            thread = samples[int(threads[-1]["id"])]
            thread.name = _NUMBERED.sub("", threads[-1]["name"] or "")
            thread.by_function[f"{own['file']} {own['function']}" if own else f"({package})"] += int(count)
            thread.by_package[package] += int(count)
            thread.by_group[group_of([(frame["file"], int(frame["line"] or 0)) for frame in frames])] += int(count)
    return samples


def _package(file: str) -> str:
    if file.startswith(_OURS):
        return "foreask"
    top = file.split("/", maxsplit=1)[0]
    return top.removesuffix(".py") if "/" in file else f"Python's {top.removesuffix('.py')}"


def _threads(pid: int) -> Threads:
    """Return the threads of a process and of its children."""
    threads: Threads = {}
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for task in (
            t for p in (process, *process.children(recursive=True)) for t in Path(f"/proc/{p.pid}/task").glob("*")
        ):
            with suppress(FileNotFoundError, ProcessLookupError):
                nanoseconds = int((task / "schedstat").read_text().split()[0])
                threads[int(task.name)] = (_NUMBERED.sub("", (task / "comm").read_text().strip()), nanoseconds / 1e9)
    return threads


def _divided(before: Threads, now: Threads, samples: Mapping[int, _Samples]) -> CpuTime:
    """Divide the time of each thread by its samples."""
    parts = CpuTime()
    for thread, (name, seconds) in now.items():
        spent = seconds - before.get(thread, ("", 0.0))[1]
        unsampled = Counter({f"(thread {name})": 1})
        taken = samples.get(thread) or _Samples(name, unsampled, unsampled, Counter({NATIVE: 1}))
        parts.by_thread[taken.name] += spent
        for counter, counts in (
            (parts.by_function, taken.by_function),
            (parts.by_package, taken.by_package),
            (parts.by_group, taken.by_group),
        ):
            for part, count in counts.items():
                counter[part] += spent * count / counts.total()
    return parts


@contextmanager
def sampling(
    py_spy: str, processes: Mapping[str, int], folder: Path, samples_a_second: int = _SAMPLES_A_SECOND
) -> Iterator[dict[str, CpuTime]]:
    """Sample processes; the mapping that is returned has the parts of each after the end of the block."""
    parts: dict[str, CpuTime] = {}
    recorders = {}
    for name, pid in processes.items():
        output = ["--format", "raw", "--output", str(folder / f"{name}.folded")]
        rate = ["--rate", str(samples_a_second), "--subprocesses", "--threads", "--nonblocking"]
        command = [py_spy, "record", "--pid", str(pid), *rate, *output]
        recorders[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.0)  # py-spy prints nothing when it starts
    before = {name: (_threads(pid), processor_seconds(pid)) for name, pid in processes.items()}
    try:
        yield parts
    finally:
        now = {name: (_threads(pid), processor_seconds(pid)) for name, pid in processes.items()}
        for recorder in recorders.values():
            recorder.send_signal(signal.SIGINT)
        for name, recorder in recorders.items():
            recorder.wait(timeout=60)
            samples = _read((folder / f"{name}.folded").read_text())
            parts[name] = _divided(before[name][0], now[name][0], samples)
            parts[name].add_ended(now[name][1] - before[name][1])


def table(title: str, parts: Mapping[str, CpuTime], count: int) -> None:
    """Print the microseconds of each part of each process, divided by the number of chunks or queries."""
    seconds = {name: own.by_thread.total() for name, own in parts.items()}
    print(f"\n{title}: {sum(seconds.values()) / count * 1e3:.2f} CPU ms each, without the other engines", flush=True)
    for name, own in parts.items():
        print(f"  {name}: {seconds[name] / count * 1e6:,.0f} µs")
        for counter in (own.by_thread, own.by_function, own.by_package):
            _print_parts(counter, count)


def _print_parts(seconds: Counter[str], count: int) -> None:
    total = seconds.total()
    listed = [(part, spent) for part, spent in seconds.most_common() if spent >= _LISTED * total]
    for part, spent in listed:
        print(f"    {spent / count * 1e6:8,.0f}  {part}")
    print(f"    {(total - sum(spent for _, spent in listed)) / count * 1e6:8,.0f}  all others\n")


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


def profiled(deployment: Deployment) -> dict[str, int]:
    """Return the process ids of the Python processes by name."""
    engines = deployment.stack.pids()
    own = {name: process.pid for name, process in deployment.processes.items() if process.poll() is None}
    return own | {name: engines[name] for name in ("qdrant", "embedding") if name in engines}


def _ingest(deployment: Deployment, py_spy: str, documents: int, folder: Path) -> None:
    engines = deployment.engine_cpu_seconds()
    with sampling(py_spy, profiled(deployment), folder) as parts:
        deployment.ingest(texts.documents(documents))
        settled = deployment.wait_until_settled(documents)
    chunks = sum(document["chunks"]["indexed"] for document in settled)
    table(f"Ingest of {chunks:,} chunks", parts, chunks)
    _print_engines(_since(engines, deployment.engine_cpu_seconds()), chunks)


def _query(deployment: Deployment, py_spy: str, queries: int, folder: Path) -> None:
    questions = texts.questions()
    processes = {name: pid for name, pid in profiled(deployment).items() if name in ("api", "qdrant")}
    engines = deployment.engine_cpu_seconds()
    with sampling(py_spy, processes, folder) as parts:
        for _ in range(queries):
            body = {"question": next(questions), "collection": "default"}
            deployment.client.post("/v1/retrieve", json=body).raise_for_status()
    table(f"{queries:,} queries", parts, queries)
    _print_engines(_since(engines, deployment.engine_cpu_seconds()), queries)


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds - before[name] for name, seconds in now.items()}


def _print_engines(seconds: Mapping[str, float], count: int) -> None:
    others = {name: spent for name, spent in seconds.items() if name != "qdrant"}
    listed = ", ".join(f"{name} {spent / count * 1e3:.2f}" for name, spent in others.items())
    print("  other engines, ms:", listed, flush=True)


if __name__ == "__main__":
    main()
