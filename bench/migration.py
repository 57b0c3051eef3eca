"""The migration of a collection to another embedding model under load: `python -m bench.migration [--chunks N]`.

All processes of a deployment run, with a scripted model without latency. Users query, edit and delete while a build is
filled, and workers are killed. Prints the queries' latencies when idle, with edits and deletions only, and while the
build is filled; the errors; the duration of the switch and of the rollback; and the calls of the language model that
new content did not need.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench.retrieval import wait_for_graphs
from shared.settings import Embedding
from tests.support.deployment import Deployment, ScriptedProvider

CHUNKS = 10_000
_SECTIONS = 5  # chunks of a document
_QUESTIONS = 5  # questions of a chunk
_QUERIES, _EDITS, _DELETES = 20.0, 10.0, 2.0  # a second
_KILLS = 5
_TIMEOUT_SECONDS = 90.0
_BEFORE_SECONDS = 30.0
_COLLECTION = "default"
_BUILDS = f"/v1/collections/{_COLLECTION}/builds"
_FINAL = ("ready", "degraded", "failed")
_UNFOUND = ("queued", "parsing", "reading", "indexing")


def text_of(document: int, sections: int, edition: int = 0) -> str:
    """Return a document of sections, one chunk each; each edition differs from the others in one section."""
    parts = [f"# Report {document}"]
    for section in range(sections):
        said = f"edition{document}x{edition}" if edition and section == 0 else "first"
        words = " ".join(f"topic{document}x{section} item{(document * 31 + section * 17 + w) % 977}" for w in range(40))
        parts.append(f"## Section {section} of report {document}\n\n{said} {words}.")
    return "\n\n".join(parts)


@dataclass
class BackgroundLoad:
    """Queries, edits and deletions at their rates, in a thread each, until it is stopped."""

    deployment: Deployment
    documents: int
    sections: int
    stopped: threading.Event = field(default_factory=threading.Event)
    milliseconds: list[float] = field(default_factory=list)
    replies: Counter[str] = field(default_factory=Counter)
    edits: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    changing: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(7)
        self._edition = itertools.count(1)
        url = str(self.deployment.client.base_url)
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=60)

    def start(self) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=self._repeat, args=(rate, act), daemon=True)
            for rate, act in ((_QUERIES, self.query), (_EDITS, self.edit), (_DELETES, self.delete))
        ]
        for thread in threads:
            thread.start()
        return threads

    def _repeat(self, rate: float, act: Callable[[], None]) -> None:
        following = time.monotonic()
        while not self.stopped.wait(max(0.0, following - time.monotonic())):
            following = max(following + 1 / rate, time.monotonic() - 1)
            try:
                act()
            except httpx.HTTPError as error:
                self.replies[type(error).__name__] += 1

    def query(self) -> None:
        number = self._random.randrange(self.documents)
        section = self._random.randrange(1, self.sections)
        body = {"question": f"What is topic{number}x{section}?", "collection": _COLLECTION, "record": False}
        started = time.perf_counter()
        reply = self._client.post("/v1/retrieve", json=body)
        self.milliseconds.append((time.perf_counter() - started) * 1000)
        self.replies[f"query {reply.status_code}"] += 1
        if reply.status_code == httpx.codes.OK and number not in self.deleted:
            first = [chunk["external_id"] for chunk in reply.json()["chunks"]][:1]
            self.replies["first hit right" if first == [f"{number}.md"] else "first hit wrong"] += 1

    def edit(self) -> None:
        if self.changing:
            number = self._random.choice([n for n in range(self.documents // 2) if n not in self.deleted])
            self.upload(number, next(self._edition))

    def upload(self, number: int, edition: int) -> None:
        body = {
            "collection": _COLLECTION,
            "external_id": f"{number}.md",
            "text": text_of(number, self.sections, edition),
        }
        reply = self._client.post("/v1/documents", json=body)
        self.replies[f"edit {reply.status_code}"] += 1
        if reply.is_success:
            self.edits[number] = edition

    def delete(self) -> None:
        left = [n for n in range(self.documents // 2, self.documents) if n not in self.deleted]
        if self.changing and left:  # a slow machine fills the build for longer than there are documents to delete
            number = self._random.choice(left)
            reply = self._client.delete(f"/v1/documents/{self.ids[f'{number}.md']}")
            self.replies[f"delete {reply.status_code}"] += 1
            self.deleted.add(number)

    def taken(self) -> list[float]:
        """Return the milliseconds of the queries since the last call."""
        milliseconds, self.milliseconds = self.milliseconds, []
        return milliseconds

    def found(self, number: int) -> bool:
        """Return whether the newest edition of a document is found."""
        question = f"edition{number}x{self.edits[number]}"
        reply = self._client.post("/v1/retrieve", json={"question": question, "collection": _COLLECTION})
        return any(question in chunk["text"] for chunk in reply.raise_for_status().json()["chunks"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--sections", type=int, default=_SECTIONS)
    parser.add_argument("--questions", type=int, default=_QUESTIONS)
    arguments = parser.parse_args()
    provider = ScriptedProvider(questions=arguments.questions)
    try:
        settings = provider.settings(embeddings={"other": Embedding(model="scripted-other", dimensions=128)})
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder)) as deployment:
            measure(deployment, provider, arguments.chunks // arguments.sections, arguments.sections)
    finally:
        provider.close()


def measure(deployment: Deployment, provider: ScriptedProvider, documents: int, sections: int) -> None:
    started = time.perf_counter()
    for first in range(0, documents, 1000):
        deployment.ingest(
            {f"{n}.md": text_of(n, sections) for n in range(first, min(first + 1000, documents))}, lane="bulk"
        )
    deployment.wait_until_settled(documents, timeout=7200)
    print(
        f"{documents * sections:,} chunks of {documents:,} documents ingested in {time.perf_counter() - started:.0f} s",
        flush=True,
    )
    load = BackgroundLoad(
        deployment, documents, sections, ids={d["external_id"]: d["id"] for d in deployment.documents()}
    )
    provider.reset()
    wait_for_rest(deployment)
    threads = load.start()
    time.sleep(_BEFORE_SECONDS)
    report("at rest", load.taken())
    load.changing = True
    time.sleep(2 * _BEFORE_SECONDS)
    before = load.taken()
    report("with edits and deletions", before)
    number, seconds = fill(deployment, documents)
    while_filling = load.taken()
    load.changing = False
    wait_for(lambda: at_rest(deployment, number), "  the build is at rest {:.1f} s after the last edit")
    report(f"while it fills ({seconds:.0f} s)", while_filling)
    print(f"  p95 while it fills, times the p95 before: {_p95(while_filling) / _p95(before):.2f}")
    print(f"  calls {provider.stats()['calls']}, accepted edits {load.replies['edit 202']}", flush=True)
    gate = deployment.client.post(f"{_BUILDS}/{number}/gate", json={}, timeout=600).raise_for_status().json()
    print(f"  gate open: {gate['open']} {gate['reasons']}; points compared {gate['points']['points']:,}")
    switch(deployment, load, number)
    load.stopped.set()
    for thread in threads:
        thread.join()
    print("  replies:", dict(sorted(load.replies.items())), flush=True)


def fill(deployment: Deployment, documents: int) -> tuple[int, float]:
    """Start a build, kill workers while it fills, and wait until it has every document."""
    started = time.perf_counter()
    number = deployment.client.post(_BUILDS, json={"embedding": "other"}).raise_for_status().json()["build"]
    kills = [documents * (n + 1) // (_KILLS + 1) for n in range(_KILLS)]
    roles = itertools.cycle(("index", "parse", "generate", "scheduler"))
    waiting: list[int] = []
    for turn in itertools.count():
        live, build = (deployment.client.get(f"{_BUILDS}/{n}").raise_for_status().json() for n in (1, number))
        waiting.append(sum(live["documents"].get(state, 0) for state in _UNFOUND))
        done = sum(build["documents"].get(state, 0) for state in _FINAL)
        if kills and done >= kills[0]:
            kills.pop(0)
            role = next(roles)
            deployment.processes[role].kill()
            deployment.processes[role].wait()
            deployment.worker(role)
        if build["state"] == "following" and done >= build["copied"] - 2 * _EDITS:
            break
        if turn % 60 == 0:
            print(f"  {done:,} of {build['copied']:,} copied documents are ready", flush=True)
        time.sleep(0.5)
    print(f"  killed {_KILLS - len(kills)} processes")
    print(f"  edits not found yet: {statistics.median(waiting):.0f} at the median, {max(waiting)} at most", flush=True)
    return number, time.perf_counter() - started


def wait_for_rest(deployment: Deployment) -> None:
    """Wait until Qdrant has indexed the ingested points and has joined its segments."""
    url = f"{deployment.stack.settings.qdrant_url}/collections"
    reply = httpx.get(url, headers=deployment.qdrant_headers, trust_env=False).raise_for_status()
    for collection in reply.json()["result"]["collections"]:
        asyncio.run(wait_for_graphs(deployment, collection["name"]))


def at_rest(deployment: Deployment, number: int) -> bool:
    build = deployment.client.get(f"{_BUILDS}/{number}").raise_for_status().json()
    return sum(build["documents"].get(state, 0) for state in _FINAL) == build["copied"]


def switch(deployment: Deployment, load: BackgroundLoad, number: int) -> None:
    """Switch, edit, and switch back; print the durations and whether the newest edits are found."""
    started = time.perf_counter()
    body = {"force": True}
    deployment.client.post(f"{_BUILDS}/{number}/switch", json=body).raise_for_status()
    print(f"  switch answered in {(time.perf_counter() - started) * 1000:.0f} ms")
    for document in range(5):
        load.upload(document, 10_000 + document)
    wait_for(lambda: all(map(load.found, range(5))), "  newest edits are found {:.1f} s after their upload")
    print(f"  newest edits found after the switch: {sum(map(load.found, range(5)))} of 5")
    started = time.perf_counter()
    deployment.client.post(f"{_BUILDS}/1/switch", json=body).raise_for_status()
    found = sum(map(load.found, range(5)))
    print(f"  rollback and {found} of 5 newest edits found in {time.perf_counter() - started:.2f} s", flush=True)


def wait_for(done: Callable[[], bool], said: str) -> None:
    """Wait for a condition, a minute and a half at most, and print the duration."""
    started = time.perf_counter()
    while not done() and time.perf_counter() - started < _TIMEOUT_SECONDS:
        time.sleep(0.2)
    print(said.format(time.perf_counter() - started))


def report(name: str, milliseconds: list[float]) -> None:
    p50 = statistics.median(milliseconds)
    print(f"{name}: {len(milliseconds)} queries, p50 {p50:.0f} ms, p95 {_p95(milliseconds):.0f} ms", flush=True)


def _p95(milliseconds: list[float]) -> float:
    return statistics.quantiles(milliseconds, n=20)[-1]


if __name__ == "__main__":
    main()
