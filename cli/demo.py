"""The demo: start everything, ingest real documents, ask questions, stop everything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from foreask_client import Answer
from foreask_client.models import Lane
from rich.console import Console

from cli import library, output
from cli.client import Client
from cli.ingestion import FOUND, DocumentProgress, Until, UploadBatch, follow, upload
from cli.launcher import DEFAULT_PORT, Launcher, Plan, StopRequested, announce_restarts, stoppable
from cli.meter import Meter
from cli.programs import Crew
from shared.domain.errors import Unavailable
from shared.settings import Settings, load

COLLECTION = "demo"
AHEAD = tuple(f"packages/{name}" for name in library.PACKAGES[:3])  # these have the answers to the questions below
FIRST = AHEAD[0]  # this one answers the first question
PATIENCE_SECONDS = 180.0  # for the written questions of the first document, on a slow machine
QUESTIONS = (
    "Does HTTPX support HTTP/2?",
    "Does orjson support PyPy?",
    "How much faster is asyncpg than psycopg?",
    "Who won the football World Cup in 1990?",  # the documents do not say, so the answer must not either
)


def run(data_dir: Path, console: Console) -> None:
    """Run the demo. A second run waits for nothing, because the documents are there."""
    started = time.monotonic()
    launcher = Launcher(Plan(settings_for(data_dir), Crew(), port=0), console)
    announce_restarts(console)
    with stoppable(launcher):
        try:
            with launcher, Client(launcher.url, _key()) as client:
                _show(Show(client, console, started), data_dir)
                _part(launcher, data_dir, console, time.monotonic() - started)
        except StopRequested:
            output.say(console, "stopped; `make demo` goes on where this ended")
            raise


@dataclass(frozen=True, slots=True)
class Show:
    """The demo's stage: whom it asks, where it prints, and when it began, by the monotonic clock."""

    client: Client
    console: Console
    started: float

    def ask(self, question: str) -> Answer:
        self.console.print(f"\n[bold]? {question}[/bold]", highlight=False)
        events = self.client.query_events(question, collection=COLLECTION, top_k=5)
        return output.print_answer(self.console, events, show_chunks=False)

    def say(self, text: str) -> None:
        output.say(self.console, text)

    @property
    def seconds(self) -> int:
        return round(time.monotonic() - self.started)


def _show(show: Show, data_dir: Path) -> None:
    """Hand in the documents, and ask as soon as the first is found, which answers."""
    first, *others = QUESTIONS
    batch, known = _hand_in(show, library.write(data_dir / "documents"))
    show.ask(first)
    if not known:
        show.say(f"\nFound by its text, {show.seconds} s after the start. Now a model writes what else one may ask:")
        _follow(show, batch)
        if _stands(batch, "ready"):
            matched = _matched_question(show.ask(first))
            by = "now found by a written one." if matched else "found by its text still."
            show.say(f"\nThe same question, {by}")
        else:
            show.say("This machine is slow or busy: the next start finds more written questions.")
    for question in others:
        show.ask(question)
    _sum_up(show, batch)


def _hand_in(show: Show, files: dict[str, Path]) -> tuple[UploadBatch, bool]:
    """Hand in the documents and wait until the first is found.

    Returns:
        The documents, and whether the first was found already, as in a second run.

    Raises:
        Unavailable: no document could be ingested.
    """
    batch = UploadBatch(len(files))
    with Meter(show.console) as meter:
        for lane, some in _in_turn(files):
            for _ in upload(show.client, some, COLLECTION, lane, batch):
                meter.show(batch.count("searchable"))
        known = any(_is_first(document) and document.state in FOUND for document in batch.documents.values())
        for count in follow(show.client, batch, "searchable"):
            meter.show(count)
            if _stands(batch, "searchable"):
                break
    if batch.refused or batch.states()["failed"]:
        output.print_batch(show.console, batch)
    if batch.states()["failed"] == len(batch.documents):
        raise Unavailable("No document could be ingested.", component="demo")
    return batch, known


def _follow(show: Show, batch: UploadBatch) -> None:
    """Follow the documents until all are found, and the first with its questions, if that is soon enough."""
    started = time.monotonic()
    with Meter(show.console) as meter:
        for count in follow(show.client, batch):
            meter.show(count)
            enough = _stands(batch, "ready") or time.monotonic() - started > PATIENCE_SECONDS
            if enough and not any(batch.waits(name, "searchable") for name in batch.documents):
                return


def _stands(batch: UploadBatch, until: Until) -> bool:
    """Whether the first document is searchable, or ready."""
    return not any(_is_first(document) and batch.waits(name, until) for name, document in batch.documents.items())


def _is_first(document: DocumentProgress) -> bool:
    return document.external_id.startswith(FIRST)


def _matched_question(answer: Answer) -> str | None:
    """Return the written question by which the first source was found; None where its text was nearer."""
    cited = {citation.chunk_id for citation in answer.citations[:1]}
    return next((chunk.matched_question for chunk in answer.chunks if chunk.chunk_id in cited), None)


def _sum_up(show: Show, batch: UploadBatch) -> None:
    count = next(follow(show.client, batch))
    questions = sum(document.questions for document in batch.documents.values())
    show.say(f"\n{count.searchable} documents, {count.chunks} chunks, {questions} written questions: searchable.")
    waiting = count.documents - count.documents_done
    if waiting:
        show.say(f"{waiting} documents wait for more questions: whoever starts foreask next goes on with them.")


def settings_for(data_dir: Path) -> Settings:
    """Return settings that use and pay for nothing outside this machine, whatever the environment says."""
    engines = dict.fromkeys(("database_url", "redis_url", "qdrant_url", "qdrant_api_key"))
    models = dict.fromkeys(f"{kind}_{name}" for kind in ("llm", "embedding") for name in ("base_url", "model"))
    return load(**engines, **models, data_dir=data_dir, api_host="127.0.0.1", answering="extractive")


def _key() -> str | None:
    """Return the key of the environment; the API may require one."""
    import os

    return os.environ.get("FOREASK_API_KEY")


def _in_turn(files: dict[str, Path]) -> Iterator[tuple[Lane, dict[str, Path]]]:
    """Yield the files and their lanes in the order in which their questions are to be written."""
    lanes = {name: "interactive" if name.startswith(AHEAD) else "bulk" for name in files}
    yield "interactive", {name: path for name, path in files.items() if name.startswith(FIRST)}
    rest: tuple[Lane, ...] = ("interactive", "bulk")
    for lane in rest:
        yield lane, {n: path for n, path in files.items() if lanes[n] == lane and not n.startswith(FIRST)}


def _part(launcher: Launcher, data_dir: Path, console: Console, seconds: float) -> None:
    output.say(
        console, f"\nDone in {timedelta(seconds=round(seconds))}; the API was at {launcher.url}. Keep it running:"
    )
    output.say(console, f"  foreask up --data-dir {data_dir}")
    output.say(console, f"  foreask ask --collection {COLLECTION} 'What is structlog for?'")
    output.say(console, f"In a browser it is at http://127.0.0.1:{DEFAULT_PORT}/ask then.")
