"""The demo: start everything, ingest real documents, ask questions, stop everything."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from cli import library, output
from cli.client import Client
from cli.ingestion import UploadBatch, follow, upload
from cli.launcher import Launcher, Plan, StopRequested, announce_restarts, stoppable
from cli.meter import Meter
from cli.programs import Crew
from shared.domain.errors import Unavailable
from shared.settings import Settings, load

COLLECTION = "demo"
FIRST = tuple(f"packages/{name}" for name in library.PACKAGES[:3])  # these have the answers to the questions below
PATIENCE_SECONDS = 180.0  # a slow machine shows its answers before every document is ready
QUESTIONS = (
    "Does HTTPX support HTTP/2?",
    "Does orjson support PyPy?",
    "How much faster is asyncpg than psycopg?",
    "Who won the football World Cup in 1990?",  # the documents do not say, so the answer must not either
)


def run(data_dir: Path, console: Console) -> None:
    """Run the demo. A second run asks at once, because the documents are ready."""
    started = time.monotonic()
    launcher = Launcher(Plan(settings_for(data_dir), Crew(), port=0), console)
    announce_restarts(console)
    with stoppable(launcher):
        try:
            with launcher, Client(launcher.url, _key()) as client:
                _ingest(client, data_dir, console)
                for question in QUESTIONS:
                    console.print(f"\n[bold]? {question}[/bold]", highlight=False)
                    output.print_answer(console, client.query_events(question, COLLECTION, top_k=5), show_chunks=False)
                _part(launcher, data_dir, console, time.monotonic() - started)
        except StopRequested:
            output.say(console, "stopped; `make demo` goes on where this ended")
            raise


def settings_for(data_dir: Path) -> Settings:
    """Return settings that use and pay for nothing outside this machine, whatever the environment says."""
    engines = dict.fromkeys(("database_url", "redis_url", "qdrant_url", "qdrant_api_key"))
    models = dict.fromkeys(f"{kind}_{name}" for kind in ("llm", "embedding") for name in ("base_url", "model"))
    return load(**engines, **models, data_dir=data_dir, api_host="127.0.0.1", answering="extractive")


def _key() -> str | None:
    """Return the key of the environment; the API may require one."""
    import os

    return os.environ.get("FOREASK_API_KEY")


def _ingest(client: Client, data_dir: Path, console: Console) -> None:
    """Hand in the documents and wait until they are searchable.

    Raises:
        Unavailable: no document could be ingested.
    """
    files = library.write(data_dir / "documents")
    batch = UploadBatch(len(files))
    console.print("\nAsking the questions before you do:", highlight=False)
    started = time.monotonic()
    with Meter(console) as meter:
        for lane in ("interactive", "bulk"):
            for _ in upload(client, _of_lane(files, lane), COLLECTION, lane, batch):
                meter.show(batch.count())
        for count in follow(client, batch, COLLECTION):
            meter.show(count)
            if time.monotonic() - started > PATIENCE_SECONDS and _can_answer(batch):
                break
    states = batch.states()
    if batch.refused or states["failed"]:
        output.print_batch(console, batch)
    if not states["ready"] + states["degraded"]:
        raise Unavailable("No document could be ingested.", component="demo")
    questions = sum(document.get("questions", 0) for document in batch.documents.values())
    chunks = batch.count().chunks
    if batch.unfinished():
        rest = f"{len(batch.unfinished())} of {len(files)} documents wait"
        output.say(console, f"{rest}: this machine is slow or busy. The next start goes on with them.")
    else:
        output.say(console, f"{len(files)} documents, {chunks} chunks, {questions} questions: searchable.")


def _of_lane(files: dict[str, Path], lane: str) -> dict[str, Path]:
    """Return the files of a lane. The documents with the answers are interactive, all others bulk."""
    return {name: path for name, path in files.items() if name.startswith(FIRST) == (lane == "interactive")}


def _can_answer(batch: UploadBatch) -> bool:
    waiting = {batch.documents[document_id]["external_id"] for document_id in batch.unfinished()}
    return not any(name.startswith(FIRST) for name in waiting)


def _part(launcher: Launcher, data_dir: Path, console: Console, seconds: float) -> None:
    output.say(
        console, f"\nDone in {timedelta(seconds=round(seconds))}; the API was at {launcher.url}. Keep it running:"
    )
    output.say(console, f"  foreask up --data-dir {data_dir}")
    output.say(console, f"  foreask ask --collection {COLLECTION} 'What is structlog for?'")
