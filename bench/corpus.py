"""Ingest of a corpus with one command and an object store: `python -m bench corpus [--documents N]`.

All processes of a deployment run, with a scripted model without latency. `foreask ingest` uploads JSON lines of one
short section each; the uploads are stored in moto's S3 server on loopback, in a separate process. That server is
written in Python and keeps every object in memory, so its usage is listed separately and does not represent a real
store.

Prints the documents per second until they are durable, searchable and ready, the memory and processor time of each
process meanwhile, and the size of the stored corpus. Then repeats the load in a new deployment, in which the command
and a worker are killed and restarted during the load (`--interrupt` times); prints the duplicate and missing rows.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
from pydantic import SecretStr

from bench import texts
from bench.scale import MARKS, print_memory, print_tenths, resident_bytes
from bench.size import on_disk
from shared.ledger.postgres.database import Database
from tests.support.deployment import Deployment, ScriptedProvider
from tests.support.objects import S3, serving_s3

DOCUMENTS = 100_000
_BUCKET = "corpus"
_COLLECTION = "default"
_KILLED = ("parse", "index", "generate")  # one of them at each interruption
_POLL_SECONDS, _POLL_LATER_SECONDS = 0.05, 0.25  # until all documents are durable, and after that
_STAGES = ("durable", "searchable", "ready")
_FAILED = ("failed", "degraded")
_LANGUAGES = ("de", "en", "fr")

# Count the stored rows; documents with other names than the corpus's would be too many.
_COUNTS = """
    SELECT (SELECT count(*) FROM documents) AS documents,
           (SELECT count(DISTINCT external_id) FROM documents WHERE external_id ~ '^document-[0-9]+$') AS names,
           (SELECT count(*) FROM document_versions) AS versions,
           (SELECT count(*) FROM chunks) AS chunks,
           (SELECT count(*) FROM completions) AS completions,
           (SELECT coalesce(sum(size_bytes), 0)::bigint FROM document_versions) AS source_bytes,
           pg_database_size(current_database()) AS database_bytes
"""

# List the objects that the ledger references: a pack has many documents.
_OBJECTS = "SELECT DISTINCT split_part(upload, '#', 1) AS object FROM document_versions"


@dataclass(frozen=True, slots=True)
class Poll:
    """Numbers of durable, searchable and ready documents at a moment, and the processor seconds until then."""

    at: float
    counts: tuple[int, int, int]
    cpu: dict[str, float]

    @property
    def durable(self) -> int:
        return self.counts[0]


class CorpusUpload:
    """The command that uploads the corpus, and the measurements of the deployment meanwhile."""

    def __init__(self, deployment: Deployment, provider: ScriptedProvider, s3: S3, corpus: Path, count: int) -> None:
        self.deployment = deployment
        self.provider = provider
        self.s3 = s3
        self.count = count
        self.polls: list[Poll] = []
        self.held: list[dict[str, int]] = []
        self._tenths = 0  # that are ready
        self._corpus = corpus
        self._before: dict[str, float] = {}

    def start(self) -> None:
        """Start the command; it runs until each document is ready."""
        options = ["--yes", "--metadata", "lang,year", "--url", f"http://127.0.0.1:{self.deployment.port}"]
        self._before = self._before or self._cpu()
        self.deployment.run("command", [sys.executable, "-m", "cli", "ingest", str(self._corpus), *options])

    def wait(self, done: Callable[[], bool]) -> None:
        while not done():
            time.sleep(_POLL_SECONDS if _durable(self) < self.count else _POLL_LATER_SECONDS)
            self._poll()

    def follow(self) -> None:
        """Wait until the command has exited, and require its success."""
        command = self.deployment.processes["command"]
        self.wait(lambda: command.poll() is not None)
        self._poll()
        assert command.returncode == 0, self.deployment.logs()

    def kill(self, role: str) -> None:
        """Kill the command and a worker, and start both again."""
        for name in ("command", role):
            self.deployment.processes[name].kill()
            self.deployment.processes[name].wait()
        self.deployment.worker(role)
        self.start()

    def seconds(self, stage: int) -> float:
        """Return the seconds from the last poll without a document until all documents reached a stage."""
        first = max(poll.at for poll in self.polls if not poll.durable)
        return next(poll.at for poll in self.polls if poll.counts[stage] >= self.count) - first

    def cpu(self) -> dict[str, float]:
        """Return the processor seconds of each process since the start of the command."""
        spent = {name: seconds for poll in self.polls for name, seconds in poll.cpu.items()}
        return {name: seconds - self._before.get(name, 0.0) for name, seconds in spent.items()}

    def _poll(self) -> None:
        try:
            states = self.deployment.states(_COLLECTION)
        except httpx.HTTPStatusError:  # the first document creates the collection
            states = {}
        assert not any(states.get(state, 0) for state in _FAILED), states
        ready = states.get("ready", 0)
        counts = (sum(states.values()), ready + states.get("searchable", 0), ready)
        self.polls.append(Poll(time.perf_counter(), counts, self._cpu()))
        if ready * 10 // self.count > self._tenths:
            self._tenths = ready * 10 // self.count
            seconds = self.polls[-1].at - self.polls[0].at
            print(f"{ready:,} documents are ready after {seconds:,.0f} s", file=sys.stderr, flush=True)
        while len(self.held) < len(MARKS) and ready >= MARKS[len(self.held)] * self.count:
            self.held.append(resident_bytes(self.deployment) | self._others())

    def _cpu(self) -> dict[str, float]:
        times = {name: psutil.Process(pid).cpu_times() for name, pid in self._pids().items()}
        others = {name: each.user + each.system for name, each in times.items()}
        return self.deployment.cpu_seconds() | self.deployment.engine_cpu_seconds() | others

    def _others(self) -> dict[str, int]:
        return {name: psutil.Process(pid).memory_full_info().pss for name, pid in self._pids().items()}

    def _pids(self) -> dict[str, int]:
        return {"(object store)": self.s3.pid, "(scripted model)": self.provider.pid}


def lines(count: int) -> Iterator[bytes]:
    """Yield the corpus: documents of 600 to 1,200 characters, one section each, all different."""
    for n in range(count):
        document = {
            "_id": f"document-{n}",
            "title": f"Document {n}",
            "text": texts.paragraph(f"document {n}", 600 + n % 600),
            "lang": _LANGUAGES[n % len(_LANGUAGES)],
            "year": 2000 + n % 25,
        }
        yield orjson.dumps(document) + b"\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench corpus")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--interrupt", type=int, default=2, help="interruptions of the second load; 0: no second load")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.jsonl")
        with corpus.open("wb") as file:
            file.writelines(lines(arguments.documents))
        size = corpus.stat().st_size / 1e6
        print(f"{arguments.documents:,} documents, {size:,.1f} MB of JSON lines", flush=True)
        with _loading(corpus, arguments.documents) as load:
            load.start()
            load.follow()
            _print_rates(load)
            print_tenths([(poll.at, poll.counts[-1]) for poll in load.polls], load.count, "documents")
            print_memory(load.held)
            _print_cpu(load)
            _print_room(load)
            _print_counts(load)
        if arguments.interrupt:
            with _loading(corpus, arguments.documents) as load:
                _interrupt(load, arguments.interrupt)
                _print_counts(load)


@contextmanager
def _loading(corpus: Path, count: int) -> Iterator[CorpusUpload]:
    """Yield a new deployment with a new provider and a new object store."""
    provider = ScriptedProvider()
    try:
        with serving_s3() as s3, tempfile.TemporaryDirectory() as folder:
            store = {"store_url": s3.make(_BUCKET), "store_options": SecretStr(s3.options_json())}
            with Deployment(provider.settings(**store), Path(folder)) as deployment:
                deployment.wait_for_workers()
                yield CorpusUpload(deployment, provider, s3, corpus, count)
    finally:
        provider.close()


def _interrupt(load: CorpusUpload, times: int) -> None:
    """Load the corpus while the command and a worker are killed `times` times, at equal intervals of documents."""
    load.start()
    for n, role in zip(range(1, times + 1), itertools.cycle(_KILLED), strict=False):
        load.wait(lambda part=n: _durable(load) >= load.count * part / (times + 1))
        load.kill(role)
        print(f"killed at {_durable(load):,} documents: the command and the {role} worker", flush=True)
    load.follow()


def _durable(load: CorpusUpload) -> int:
    return load.polls[-1].durable if load.polls else 0


def _print_rates(load: CorpusUpload) -> None:
    for stage, name in enumerate(_STAGES):
        seconds = load.seconds(stage)
        print(f"all {name:12}{seconds:10.1f} s{load.count / seconds:10,.0f} documents a second", flush=True)


def _print_cpu(load: CorpusUpload) -> None:
    print(f"{'processor, ms a document':42}{'':20}{'in all':>10}")
    for name, seconds in load.cpu().items():
        print(f"{name:42}{seconds * 1000 / load.count:20.2f}{seconds:8.1f} s", flush=True)


def _print_room(load: CorpusUpload) -> None:
    sizes = load.s3.sizes(_BUCKET)
    counts = _rows(load, _COUNTS)[0]
    qdrant = on_disk(load.deployment.data_dir / "qdrant")
    print(f"the texts{counts['source_bytes'] / 1e6:33,.1f} MB")
    print(f"the store{sum(sizes.values()) / 1e6:33,.1f} MB in {len(sizes):,} objects")
    print(f"PostgreSQL{counts['database_bytes'] / 1e6:32,.1f} MB")
    print(f"Qdrant{qdrant / 1e6:36,.1f} MB, {load.deployment.points(_COLLECTION):,} points", flush=True)


def _print_counts(load: CorpusUpload) -> None:
    """Print the number of stored, duplicate and missing rows, objects and points."""
    counts = _rows(load, _COUNTS)[0]
    named = {row["object"] for row in _rows(load, _OBJECTS)}
    keys = {key.rpartition("/")[2] for key in load.s3.sizes(_BUCKET)}
    stored = {key for key in keys if not key.startswith(".")}  # the others are the deployment's own files
    calls = load.provider.stats()
    verified = load.deployment.client.post(f"/v1/collections/{_COLLECTION}/verify", json={}, timeout=3600)
    points = verified.raise_for_status().json()
    print(
        f"documents {counts['documents']:,}, chunks {counts['chunks']:,}, calls {calls['calls']:,},"
        f" points {points['points']:,}"
    )
    print(
        f"twice: documents {counts['documents'] - counts['names']}, versions"
        f" {counts['versions'] - counts['documents']}, completions {counts['completions'] - counts['chunks']}, calls"
        f" {calls['calls'] - counts['chunks']}, objects {len(stored - named)}, points {points['orphaned']}"
    )
    print(
        f"missing: documents {load.count - counts['names']}, objects {len(named - stored)}, points {points['missing']};"
        f" stale points {points['stale']}",
        flush=True,
    )


def _rows(load: CorpusUpload, statement: str) -> list[dict[str, Any]]:
    url = load.deployment.stack.settings.database_url
    assert url is not None

    async def read() -> list[dict[str, Any]]:
        database = Database(url.get_secret_value())
        try:
            async with database.begin() as connection:
                return [dict(row) for row in (await connection.execute_sql(statement))]
        finally:
            await database.aclose()

    return asyncio.run(read())


if __name__ == "__main__":
    main()
