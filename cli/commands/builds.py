"""Commands for builds: change the model, prompt or chunking of a collection without a gap."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.connection import LOCAL, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from foreask_client import Build, Event
    from foreask_client.models import Json
    from rich.console import Console

    from cli.client import CliClient

CLOSED = 4  # exit code: the gate is closed
INTERRUPTED = 130
_POLL_SECONDS = 1.0

builds_app = typer.Typer(
    help="List the builds of a collection; compare, switch, pause or drop one.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="Name of the collection.")]
Number = Annotated[int, typer.Argument(help="Number of the build.")]
Questions = Annotated[
    Path | None,
    typer.Option(
        "--gate", help='Labelled questions for the comparison, JSONL: {"question": ..., "external_ids": [...]}'
    ),
]
AcceptedFailures = Annotated[
    int, typer.Option(min=0, help="Number of documents that may have failed in the new build only.")
]
Force = Annotated[bool, typer.Option("--force", help="Switch even if the gate is closed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.command()(migrate)
    app.add_typer(builds_app, name="builds")
    builds_app.command("list")(list_builds)
    for command in (gate, switch, rollback, pause, resume, drop):
        builds_app.command()(command)


def migrate(
    collection: Name,
    *,
    embedding: Annotated[str | None, typer.Option(help="Name of an embedding in the server's settings.")] = None,
    prompt: Annotated[Path | None, typer.Option(help="File with the instructions for the model.")] = None,
    questions_per_chunk: Annotated[str | None, typer.Option(help="Number of questions per chunk, or auto.")] = None,
    chunk_max_chars: Annotated[int | None, typer.Option(help="Maximum length of a chunk.")] = None,
    chunk_overlap_chars: Annotated[int | None, typer.Option(help="Overlap of consecutive chunks.")] = None,
    section_max_chars: Annotated[int | None, typer.Option(help="Maximum length of a section.")] = None,
    ocr_languages: Annotated[str | None, typer.Option(help="Languages of scans, such as eng+deu.")] = None,
    captions: Annotated[bool | None, typer.Option(help="Describe the pictures in documents.")] = None,
    prepend_questions: Annotated[
        bool | None, typer.Option(help="Embed the text of a chunk together with its questions.")
    ] = None,
    context: Annotated[
        bool | None, typer.Option(help="Write a line of context and search terms for each chunk, too.")
    ] = None,
    labelled: Questions = None,
    accept_failures: AcceptedFailures = 0,
    force: Force = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Fill a new build of a collection with other options, compare it with the live build, and switch to it.

    Queries see the live build until the switch, and exactly one of both at any time. Without options the command
    continues with the build that is being filled. After Ctrl-C the server continues. Exit code: 0; 4 if the gate is
    closed.
    """
    change = {
        "embedding": embedding,
        "prompt": None if prompt is None else _text(prompt),
        "questions_per_chunk": _count(questions_per_chunk),
        "chunk_max_chars": chunk_max_chars,
        "chunk_overlap_chars": chunk_overlap_chars,
        "section_max_chars": section_max_chars,
        "ocr_languages": ocr_languages,
        "captions": captions,
        "prepend_questions": prepend_questions,
        "context": context,
    }
    change = {name: value for name, value in change.items() if value is not None}
    console = console_of()
    with client_of(url, key) as client:
        try:
            number = _start_or_find(client, console, collection, change, yes=yes)
            _follow(client, console, collection, number)
        except KeyboardInterrupt:
            console.print(f"The server continues: `foreask migrate {collection}` follows it again.")
            raise typer.Exit(INTERRUPTED) from None
        report = _gate(client, console, collection, number, labelled=labelled, accept_failures=accept_failures)
        if not report["open"] and not force:
            console.print(f"Build {number} was not switched; delete it with: foreask builds drop {collection} {number}")
            raise typer.Exit(CLOSED)
        client.switch_build(collection, number, force=force)
    console.print(f"{collection} is answered by build {number}; undo with: foreask builds rollback {collection}")


def _start_or_find(client: CliClient, console: Console, collection: str, change: Json, *, yes: bool) -> int:
    """Print the cost of a build and start it. Without changes, find the build that is being filled."""
    from cli import estimates
    from shared.domain.errors import InvalidInput

    if change:
        body = {"collection": collection, "migrate": change}
        if not estimates.is_confirmed(client, console, body, "Start?", yes=yes):
            raise typer.Abort
        return client.start_build(collection, **change).build
    open_builds = [b for b in client.builds(collection) if b.state in ("filling", "paused", "following")]
    if not open_builds:
        raise InvalidInput("Name at least one option to change: see `foreask migrate --help`.", field="build")
    return open_builds[-1].build


def _follow(client: CliClient, console: Console, collection: str, number: int) -> None:
    """Wait until a build contains every document, and each document is indexed."""
    from cli.meter import IngestCounts, Meter

    with Meter(console) as meter:
        for build in _poll(client, collection, number):
            done = sum(build.documents.get(state, 0) for state in ("ready", "degraded", "failed"))
            count = IngestCounts(build.source_documents, done, build.documents.get("failed", 0))
            meter.show(count)
            if build.state == "following" and done == build.copied:
                return


def _poll(client: CliClient, collection: str, number: int) -> Iterator[Build]:
    while True:
        yield client.build(collection, number)
        time.sleep(_POLL_SECONDS)


def _gate(
    client: CliClient, console: Console, collection: str, number: int, *, labelled: Path | None, accept_failures: int
) -> Json:
    from contextlib import suppress

    from cli import output
    from cli.commands.calibrate import read_labelled
    from shared.domain.errors import ForeaskError

    questions = None if labelled is None else read_labelled(labelled)
    events = client.gate(collection, number, questions=questions, accept_failures=accept_failures)
    try:
        report = _followed(console, events)
    except KeyboardInterrupt:
        with suppress(ForeaskError):
            client.cancel_gate(collection, number)
        raise
    output.print_gate(console, report)
    return report


def _followed(console: Console, events: Iterator[Event]) -> Json:
    """Follow the comparison of two builds until it is done, and return its report."""
    from shared.domain.errors import Unavailable

    with console.status("comparing both builds") as status:
        for event in events:
            if event.name == "progress" and event.data.get("state") == "queued":
                status.update("queued: the comparison waits for an index worker")
            elif event.name == "progress":
                status.update(f"comparing: {event.data['documents']:,} documents, {event.data['points']:,} points")
            elif event.name == "error":
                raise Unavailable(str(event.data.get("detail", "")), component="api")
            elif event.name == "done":
                return event.data
    raise Unavailable("The server closed the connection: the same command continues.", component="api")


def list_builds(collection: Name, *, as_json: AsJson = False, url: Url = LOCAL, key: Key = None) -> None:
    """List the builds of a collection."""
    from cli import output

    with client_of(url, key) as client:
        builds = client.builds(collection)
    if as_json:
        output.print_json(builds)
    else:
        console_of().print(output.builds_table(builds))


def gate(
    collection: Name,
    build: Number,
    *,
    labelled: Questions = None,
    accept_failures: AcceptedFailures = 0,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Compare a build with the live one. Exit code: 0 if the gate is open, 4 if it is closed.

    A worker compares. If the connection is lost, the same command follows the comparison again; Ctrl-C cancels it.
    """
    with client_of(url, key) as client:
        report = _gate(client, console_of(), collection, build, labelled=labelled, accept_failures=accept_failures)
    if not report["open"]:
        raise typer.Exit(CLOSED)


def switch(collection: Name, build: Number, *, force: Force = False, url: Url = LOCAL, key: Key = None) -> None:
    """Make a build live. Both builds continue to receive every change."""
    with client_of(url, key) as client:
        client.switch_build(collection, build, force=force)
    console_of().print(f"{collection} is answered by build {build}")


def rollback(collection: Name, *, url: Url = LOCAL, key: Key = None) -> None:
    """Switch back to the build that was live before."""
    from shared.domain.errors import NotFound

    with client_of(url, key) as client:
        earlier = [b for b in client.builds(collection) if b.live_until and b.state == "following"]
        if not earlier:
            raise NotFound(f"No other build of {collection} was live before.")
        number = max(earlier, key=lambda b: b.live_until or b.created_at).build
        client.switch_build(collection, number)
    console_of().print(f"{collection} is answered by build {number} again")


def pause(collection: Name, build: Number, *, url: Url = LOCAL, key: Key = None) -> None:
    """Pause filling a build. Documents that are being processed are finished."""
    _act("pause", collection, build, url, key)


def resume(collection: Name, build: Number, *, url: Url = LOCAL, key: Key = None) -> None:
    """Continue filling a build."""
    _act("resume", collection, build, url, key)


def drop(collection: Name, build: Number, *, url: Url = LOCAL, key: Key = None) -> None:
    """Delete a build that is not live. Paid questions and vectors are kept."""
    with client_of(url, key) as client:
        client.drop_build(collection, build)
    console_of().print(f"build {build} of {collection} is being deleted")


def _act(action: str, collection: str, build: int, url: str, key: str | None) -> None:
    with client_of(url, key) as client:
        state = (client.pause_build if action == "pause" else client.resume_build)(collection, build).state
    console_of().print(f"build {build} of {collection} is {state}")


def _text(path: Path) -> str:
    from shared.domain.errors import InvalidInput

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as UTF-8 text: {error}", field="prompt") from error


def _count(value: str | None) -> Any:
    return int(value) if value is not None and value.isdecimal() else value
