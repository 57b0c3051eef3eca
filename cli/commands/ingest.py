"""The command that hands in files, folders and corpora."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.server import LOCAL, Collection, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from foreask_client.models import Json
    from rich.console import Console

    from cli.client import Client
    from cli.corpus import Corpus
    from cli.corpus_ingestion import CorpusLoad
    from cli.files import Selection
    from cli.ingestion import Until, UploadBatch

# Exit codes; 2 is a usage error.
NOT_TAKEN = 1
FAILED = 3
INTERRUPTED = 130

_CORPUS = "A corpus: JSON lines or Parquet"


class Lane(StrEnum):
    INTERACTIVE = "interactive"
    BULK = "bulk"


class WaitFor(StrEnum):
    READY = "ready"
    SEARCHABLE = "searchable"
    NO = "no"


def register(app: typer.Typer) -> None:
    app.command()(ingest)


def ingest(
    paths: Annotated[list[str], typer.Argument(help="Files, folders (with everything in them), globs, or one corpus.")],
    *,
    collection: Collection = "default",
    lane: Annotated[Lane | None, typer.Option(help="`bulk` waits behind `interactive`.")] = None,
    wait: Annotated[
        WaitFor, typer.Option(help="Stay until each document is found with its questions, or by its text.")
    ] = (WaitFor.READY),
    include: Annotated[list[str] | None, typer.Option(help="Take only files like this, e.g. '*.pdf'.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave out files like this.")] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column of the documents' names.", rich_help_panel=_CORPUS)
    ] = None,
    text: Annotated[str | None, typer.Option(help="The column of the texts.", rich_help_panel=_CORPUS)] = None,
    title: Annotated[str | None, typer.Option(help="The column of the titles.", rich_help_panel=_CORPUS)] = None,
    metadata: Annotated[
        str | None, typer.Option(help="Columns to filter by, e.g. lang,year.", rich_help_panel=_CORPUS)
    ] = None,
    questions: Annotated[
        str | None, typer.Option(help="The column of ready-made questions, a list.", rich_help_panel=_CORPUS)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a large load begins.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Hand in files and follow them until their questions are written and searchable, too.

    Documents are found by their texts long before that: `--wait searchable` stays until then.

    Hidden files in folders are left out. A file's path from here is its name. An unchanged file costs nothing, and a
    changed file replaces its document.

    One file of JSON lines (.jsonl, .jsonl.gz) or Parquet is a corpus, each of whose rows is a document, where columns
    are named or are those of BEIR: _id, text, title. Whatever breaks off is begun again by the same command.

    A load is estimated first; one of more than 1,000 calls is asked about on a terminal. Exit code: 0, 1 when a file or
    a row was not taken, 3 when a document failed.
    """
    from cli import corpus as corpora
    from cli import files

    names = tuple(name.strip() for name in (metadata or "").split(",") if name.strip())
    columns = corpora.Columns(id_column, text, title, names, questions)
    corpus = corpora.corpus_in(paths, columns)
    console = console_of()
    with client_of(url, key) as client:
        if corpus is not None:
            _take_corpus(client, console, corpus, collection=collection, wait=wait, yes=yes)
        else:
            selection = files.select(paths, include=include or (), exclude=exclude or ())
            _take_files(client, console, selection, collection=collection, lane=lane, wait=wait, yes=yes)


def _take_files(
    client: Client,
    console: Console,
    selection: Selection,
    *,
    collection: str,
    lane: Lane | None,
    wait: WaitFor,
    yes: bool,
) -> None:
    from cli import output
    from cli.ingestion import UploadBatch

    _print_selection(console, selection)
    client.health()  # without a server this is one error, not one for each file
    _agree_to_files(client, console, selection, collection, yes=yes)
    batch = UploadBatch(len(selection.files))
    try:
        _hand_in(client, console, selection, batch, collection=collection, lane=lane, wait=wait)
    except KeyboardInterrupt:
        output.print_batch(console, batch)
        output.say(console, "The server goes on with what it has: see `foreask status`.")
        raise typer.Exit(INTERRUPTED) from None
    output.print_batch(console, batch)
    if batch.refused:
        raise typer.Exit(NOT_TAKEN)
    if batch.states()["failed"]:
        raise typer.Exit(FAILED)


def _agree_to_files(client: Client, console: Console, selection: Selection, collection: str, *, yes: bool) -> None:
    from cli import estimates, output

    files = len(selection.files)
    if files <= estimates.FEW_FILES:
        return
    documents, left_out = estimates.of_files(selection.files)
    if left_out:
        output.say(console, f"not estimated: {left_out:,} of {files:,} files, whose text is unknown before it is read")
    if documents is not None and not _agreed(client, console, collection, documents, yes=yes):
        raise typer.Exit(NOT_TAKEN)


def _hand_in(
    client: Client,
    console: Console,
    selection: Selection,
    batch: UploadBatch,
    *,
    collection: str,
    lane: Lane | None,
    wait: WaitFor,
) -> None:
    from cli.ingestion import follow, upload
    from cli.meter import Meter

    until: Until = "searchable" if wait is WaitFor.SEARCHABLE else "ready"
    with Meter(console) as meter:
        for _ in upload(client, selection.files, collection, lane.value if lane else None, batch):
            meter.show(batch.count(until))
        if wait is not WaitFor.NO and batch.documents:
            for count in follow(client, batch, until):
                meter.show(count)


def _print_selection(console: Console, selection: Selection) -> None:
    from cli import output

    left_out = [
        f"{count} {reason}"
        for count, reason in ((selection.hidden, "hidden"), (selection.excluded, "by --include or --exclude"))
        if count
    ]
    note = f" (left out: {', '.join(left_out)})" if left_out else ""
    output.say(console, f"{len(selection.files)} files{note}")


def _take_corpus(
    client: Client, console: Console, corpus: Corpus, *, collection: str, wait: WaitFor, yes: bool
) -> None:
    from cli import estimates, output
    from cli.corpus import Truncated
    from cli.corpus_ingestion import CorpusLoad

    client.health()
    survey = corpus.survey()
    output.say(console, f"{corpus.name}: {survey.rows:,} rows")
    if survey.sample and not _agreed(client, console, collection, estimates.of_corpus(survey), yes=yes):
        raise typer.Exit(NOT_TAKEN)
    load = CorpusLoad(survey.rows)
    try:
        failed = _follow_corpus(client, console, corpus, load, collection=collection, wait=wait)
    except (KeyboardInterrupt, Truncated) as error:
        output.print_load(console, load)
        if isinstance(error, Truncated):
            raise
        output.say(console, "Begin again with the same command: what is there already is not handed in twice.")
        raise typer.Exit(INTERRUPTED) from None
    output.print_load(console, load)
    if load.refused:
        raise typer.Exit(NOT_TAKEN)
    if failed:
        output.say(console, f"{failed:,} documents failed: foreask dead list -c {collection}")
        raise typer.Exit(FAILED)


def _follow_corpus(
    client: Client, console: Console, corpus: Corpus, load: CorpusLoad, *, collection: str, wait: WaitFor
) -> int:
    """Hand a corpus in and follow it; return how many documents of the collection failed meanwhile."""
    from cli.corpus_ingestion import follow, hand_in, open_documents, states_of
    from cli.meter import Stages

    before = states_of(client, collection)
    with Stages(console) as stages:
        for _ in hand_in(client, corpus, collection, load):
            stages.show("handed in", load.done, load.total)
        if wait is WaitFor.NO or load.done == load.refused:
            return 0
        until: Until = "searchable" if wait is WaitFor.SEARCHABLE else "ready"
        for states in follow(client, collection, until):
            there = sum(states.values())
            stages.show(until, there - open_documents(states, until), there)
    return max(0, states.get("failed", 0) - before.get("failed", 0))


def _agreed(client: Client, console: Console, collection: str, documents: Json, *, yes: bool) -> bool:
    from cli import estimates

    return estimates.agreed(
        client, console, {"collection": collection, "documents": documents}, "Hand them in?", yes=yes
    )
