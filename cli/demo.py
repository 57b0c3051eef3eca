"""The demo: start everything, ingest real documents, ask questions, and stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from foreask_client import Answer
from foreask_client.models import Lane
from rich.console import Console

from cli import demo_documents, output
from cli.client import CliClient
from cli.ingestion import SEARCHABLE, Until, UploadBatch, follow, seconds_left, upload, waiting_reason
from cli.launcher import DEFAULT_PORT, Launcher, LaunchPlan, StopRequested, announce_restarts, stoppable
from cli.meter import Meter
from cli.programs import WorkerCounts
from embedded import llama
from shared.domain.errors import Unavailable
from shared.process import hardening
from shared.settings import Settings, load

COLLECTION = "demo"
URGENT = tuple(f"packages/{name}" for name in demo_documents.PACKAGES[:3])  # contain the answers to the questions below
FIRST = URGENT[:1]  # answers the first question
GENERATION_SECONDS = 180.0  # longest wait for the generated questions of the urgent documents
QUESTIONS = (
    "Does HTTPX support HTTP/2?",
    "Does orjson support PyPy?",
    "How much faster is asyncpg than psycopg?",
    "Who won the football World Cup in 1990?",  # the documents do not contain the answer
)


def run(data_dir: Path, console: Console) -> None:
    """Run the demo. A second run waits for nothing, because the documents are stored already."""
    started = time.monotonic()
    launcher = Launcher(LaunchPlan(settings_for(data_dir), WorkerCounts(), port=0), console)
    if launcher.lacks_llm:
        raise Unavailable(llama.missing(), component="llm")
    announce_restarts(console)
    with stoppable(launcher), hardening.private_files():
        try:
            with launcher, CliClient(launcher.url, launcher.key or _key()) as client:
                _show(Demo(client, console, started), data_dir)
                _print_next_steps(launcher, data_dir, console, time.monotonic() - started)
        except StopRequested:
            output.say(console, "stopped; `make demo` continues from here")
            raise


@dataclass(frozen=True, slots=True)
class Demo:
    """The client, the console, the start time (monotonic clock) and the pauses of a demo."""

    client: CliClient
    console: Console
    started: float
    sleep: Callable[[float], None] = time.sleep

    def ask(self, question: str) -> Answer:
        self.console.print(f"\n[bold]? {question}[/bold]", highlight=False)
        events = self.client.query_events(question, collection=COLLECTION, top_k=5)
        return output.print_answer(self.console, events, show_chunks=False)

    def say(self, text: str) -> None:
        output.say(self.console, text)

    @property
    def seconds(self) -> int:
        return round(time.monotonic() - self.started)


def _show(show: Demo, data_dir: Path) -> None:
    """Upload the documents, and ask as soon as the first one is searchable, which answers the first question."""
    first, *others = QUESTIONS
    batch, was_stored = _upload(show, demo_documents.write(data_dir / "documents"))
    show.ask(first)
    if not was_stored:
        show.say(f"\nFound by its text, {show.seconds} s after the start. Now a model generates questions:")
        _follow(show, batch)
        if _is_reached(batch, FIRST, "ready"):
            matched = _matched_question(show.ask(first))
            by = "now found by a generated one." if matched else "still found by its text."
            show.say(f"\nThe same question, {by}")
        if not _is_reached(batch, URGENT, "ready"):
            show.say("\nThis machine is slow or busy: the next start finds more generated questions.")
    for question in others:
        show.ask(question)
    _sum_up(show, batch)


def _upload(show: Demo, files: dict[str, Path]) -> tuple[UploadBatch, bool]:
    """Upload the documents and wait until the first one is searchable.

    Returns:
        The documents, and whether the first one was searchable before, as in a second run.

    Raises:
        Unavailable: no document could be ingested.
    """
    batch = UploadBatch(len(files))
    with _meter(show, batch) as meter:
        for lane, some in _in_order(files):
            for _ in upload(show.client, some, COLLECTION, lane, batch):
                meter.show(batch.count("searchable"))
        was_stored = any(document.state in SEARCHABLE for document in _some(batch, FIRST).documents.values())
        for count in follow(show.client, batch, "searchable", show.sleep):
            meter.show(count)
            if _is_reached(batch, FIRST, "searchable"):
                break
    if batch.rejected or batch.states()["failed"]:
        output.print_batch(show.console, batch)
    if batch.states()["failed"] == len(batch.documents):
        raise Unavailable("No document could be ingested.", component="demo")
    return batch, was_stored


def _meter(show: Demo, batch: UploadBatch) -> Meter:
    return Meter(
        show.console,
        why=lambda seconds: waiting_reason(show.client, batch, stalled_seconds=seconds),
        left=lambda: seconds_left(show.client),
    )


def _follow(show: Demo, batch: UploadBatch) -> None:
    """Show progress until the urgent documents are ready, or a timeout, and all documents are searchable."""
    started = time.monotonic()
    with _meter(show, batch) as meter:
        for _ in follow(show.client, batch, sleep=show.sleep):
            meter.show(_some(batch, URGENT).count())
            enough = _is_reached(batch, URGENT, "ready") or time.monotonic() - started > GENERATION_SECONDS
            if enough and not any(batch.is_pending(name, "searchable") for name in batch.documents):
                return


def _is_reached(batch: UploadBatch, prefixes: tuple[str, ...], until: Until) -> bool:
    """Return whether the documents with these prefixes of their external ids are searchable, or ready."""
    some = _some(batch, prefixes)
    return not any(some.is_pending(name, until) for name in some.documents)


def _some(batch: UploadBatch, prefixes: tuple[str, ...]) -> UploadBatch:
    """Return the uploaded documents with these prefixes of their external ids."""
    chosen = {name: d for name, d in batch.documents.items() if d.external_id.startswith(prefixes)}
    some = UploadBatch(len(chosen))
    for name, document in chosen.items():
        some.record(name, document)
    return some


def _matched_question(answer: Answer) -> str | None:
    """Return the generated question that matched the first source; None if its text matched better."""
    cited = {citation.chunk_id for citation in answer.citations[:1]}
    return next((chunk.matched_question for chunk in answer.chunks if chunk.chunk_id in cited), None)


def _sum_up(show: Demo, batch: UploadBatch) -> None:
    count = next(follow(show.client, batch))
    questions = sum(document.questions for document in batch.documents.values())
    show.say(f"\n{count.searchable} documents, {count.chunks} chunks, {questions} generated questions: searchable.")
    pending = count.documents - count.documents_done
    if pending:
        show.say(f"{pending} documents wait for more questions, which are generated at the next start.")


def settings_for(data_dir: Path) -> Settings:
    """Return settings that ignore the environment's URLs and models, so that the demo costs nothing."""
    engines = dict.fromkeys(("database_url", "redis_url", "qdrant_url", "qdrant_api_key"))
    models = dict.fromkeys(f"{kind}_{name}" for kind in ("llm", "embedding") for name in ("base_url", "model"))
    return load(**engines, **models, data_dir=data_dir, api_host="127.0.0.1", answering="extractive")


def _key() -> str | None:
    """Return the key of the environment, which the API may require."""
    import os

    return os.environ.get("FOREASK_API_KEY")


def _in_order(files: dict[str, Path]) -> Iterator[tuple[Lane, dict[str, Path]]]:
    """Yield the files and their lanes in the order in which their questions are generated."""
    lanes = {name: "interactive" if name.startswith(URGENT) else "bulk" for name in files}
    yield "interactive", {name: path for name, path in files.items() if name.startswith(FIRST)}
    rest: tuple[Lane, ...] = ("interactive", "bulk")
    for lane in rest:
        yield lane, {n: path for n, path in files.items() if lanes[n] == lane and not n.startswith(FIRST)}


def _print_next_steps(launcher: Launcher, data_dir: Path, console: Console, seconds: float) -> None:
    output.say(
        console, f"\nDone in {timedelta(seconds=round(seconds))}; the API was at {launcher.url}. Keep it running:"
    )
    output.say(console, f"  foreask up --data-dir {data_dir}")
    output.say(console, f"  foreask ask --collection {COLLECTION} 'What is structlog for?'")
    output.say(console, f"Its page is then http://127.0.0.1:{DEFAULT_PORT}/ask.")
