"""Latency of queries while a large document is edited again and again: `python -m bench edits`.

All processes of a deployment run, with a scripted model. A client asks for sections of a document of 400 chunks, one
question after the other with a pause, first while nothing changes, then while each edition is uploaded as soon as
queries see the one before. Replies with several editions, or with an edition that is older than one seen before, are
counted, and so are replies without the requested section.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.deployment import Deployment, ScriptedProvider

SECTIONS, SECONDS = 400, 60.0
_CHANGED = 0.2  # share of the sections that an edit changes
_PAUSE_SECONDS = 0.03  # between two questions
_COLLECTION, _NAME = "edited", "large.md"
_TIMEOUT_SECONDS = 120.0


@dataclass
class Asked:
    """Questions to a deployment, and their replies."""

    deployment: Deployment
    chance: random.Random
    sections: int
    seconds: list[float] = field(default_factory=list)
    seen: int = 0
    differences: Counter[str] = field(default_factory=Counter)

    def ask(self) -> None:
        """Ask for a section, and record the time and the editions of the reply."""
        number = self.chance.randrange(self.sections)
        body = {"collection": _COLLECTION, "question": f"place{number}", "record": False, "top_k": 10}
        started = time.perf_counter()
        reply = self.deployment.client.post("/v1/retrieve", json=body).raise_for_status().json()
        self.seconds.append(time.perf_counter() - started)
        editions = {chunk["metadata"]["edition"] for chunk in reply["chunks"]}
        self.differences["several editions"] += len(editions) > 1
        self.differences["an older edition"] += min(editions, default=self.seen) < self.seen
        self.differences["not found"] += not any(f"place{number} " in chunk["text"] for chunk in reply["chunks"])
        self.seen = max(self.seen, *editions)

    def report(self, name: str) -> None:
        p50, p95, p99 = (statistics.quantiles(self.seconds, n=100)[n - 1] * 1000 for n in (50, 95, 99))
        most = max(self.seconds) * 1000
        waits = sum(seconds > 0.5 for seconds in self.seconds)
        print(
            f"{name}: {len(self.seconds)} queries, p50 {p50:.0f} ms, p95 {p95:.0f}, p99 {p99:.0f}, slowest {most:.0f};"
            f" {waits} took more than 0.5 s; {dict(self.differences)}",
            flush=True,
        )
        self.seconds.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of editing; %(default)s by default")
    parser.add_argument("--sections", type=int, default=SECTIONS, help="of the document; %(default)s by default")
    given = parser.parse_args()
    provider = ScriptedProvider()
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(provider.settings(), Path(folder)) as deployment:
            measure(deployment, given.seconds, given.sections)
    finally:
        provider.close()


def measure(deployment: Deployment, seconds: float, sections: int) -> None:
    """Ask without edits for a quarter of the time, then while the document is edited."""
    chance = random.Random(7)
    marks = [0] * sections
    upload(deployment, marks, 0)
    deployment.wait_until_settled(1, _COLLECTION, timeout=_TIMEOUT_SECONDS)
    asked = Asked(deployment, chance, sections)
    _ask_for(asked, seconds / 4)
    asked.report("no edit")
    ended, edits = threading.Event(), Counter[str]()
    before = deployment.cpu_seconds()
    editor = threading.Thread(target=edit, args=(deployment, marks, asked, ended, edits))
    editor.start()
    _ask_for(asked, seconds)
    ended.set()
    editor.join()
    cpu = sum(deployment.cpu_seconds().values()) - sum(before.values())
    asked.report(f"{edits['edits']} edits, {cpu:.0f} s of processor time")


def _ask_for(asked: Asked, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        asked.ask()
        time.sleep(_PAUSE_SECONDS)


def edit(deployment: Deployment, marks: list[int], asked: Asked, ended: threading.Event, edits: Counter[str]) -> None:
    """Upload an edition as soon as queries see the one before."""
    chance, edition = random.Random(8), 0
    while not ended.is_set():
        if asked.seen == edition:
            edition += 1
            for number in chance.sample(range(len(marks)), int(len(marks) * _CHANGED)):
                marks[number] = edition
            upload(deployment, marks, edition)
            edits["edits"] += 1
        time.sleep(0.01)


def upload(deployment: Deployment, marks: list[int], edition: int) -> None:
    """Upload an edition; each section is one chunk, which a question finds by its number."""
    text = "\n\n".join(_section(number, mark) for number, mark in enumerate(marks))
    (reply,) = deployment.ingest({_NAME: text}, _COLLECTION, metadata={"edition": edition})
    reply.raise_for_status()


def _section(number: int, mark: int) -> str:
    words = f"place{number} mark{mark}x{number} item"
    parts = (f"{words}{(number * 31 + mark * 7 + n * n) % 997}" for n in range(1600 // (len(words) + 4)))
    return f"# Section {number}\n\n{' '.join(parts)}."


if __name__ == "__main__":
    main()
