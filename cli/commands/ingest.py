"""The command that uploads files, folders and corpora."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.connection import LOCAL, Collection, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from foreask_client import Job
    from foreask_client.models import Json
    from rich.console import Console

    from cli.client import CliClient
    from cli.corpus import Corpus
    from cli.corpus_ingestion import CorpusLoad
    from cli.files import Selection
    from cli.ingestion import Until, UploadBatch

# Exit codes; 2 is a usage error.
DECLINED = 1
FAILED = 3
INTERRUPTED = 130

_CORPUS = "A corpus: JSON lines or Parquet"


class LaneOption(StrEnum):
    INTERACTIVE = "interactive"
    BULK = "bulk"
    BATCH = "batch"


class WaitFor(StrEnum):
    READY = "ready"
    SEARCHABLE = "searchable"
    NO = "no"


Paths = Annotated[list[str], typer.Argument(help="Files, folders (recursively), globs, or one corpus.")]
Lane = Annotated[
    LaneOption | None,
    typer.Option(help="`bulk` has lower priority than `interactive`; `batch` costs less and takes up to a day."),
]
Wait = Annotated[WaitFor, typer.Option(help="Wait until all questions or all texts are searchable, or do not wait.")]
Include = Annotated[list[str] | None, typer.Option(help="Only files that match this pattern, e.g. '*.pdf'.")]
Exclude = Annotated[list[str] | None, typer.Option(help="Skip files that match this pattern.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation of a large load.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column of the external ids.", rich_help_panel=_CORPUS)]
TextColumn = Annotated[str | None, typer.Option(help="Column of the texts.", rich_help_panel=_CORPUS)]
TitleColumn = Annotated[str | None, typer.Option(help="Column of the titles.", rich_help_panel=_CORPUS)]
MetadataColumns = Annotated[
    str | None, typer.Option(help="Columns of the metadata, e.g. lang,year.", rich_help_panel=_CORPUS)
]
QuestionsColumn = Annotated[
    str | None, typer.Option(help="Column of ready-made questions, a list.", rich_help_panel=_CORPUS)
]


ReadersColumn = Annotated[
    str | None,
    typer.Option(help="Column of the readers, a list; default: readable_by, if it exists.", rich_help_panel=_CORPUS),
]
ReadableBy = Annotated[
    list[str] | None,
    typer.Option(
        "--readable-by",
        metavar="READER",
        help="Readers of the documents: `everyone`, user:NAME or group:NAME, with commas or repeated.",
    ),
]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of a load of files or of a corpus.

    Args:
        key: idempotency key of the load.
        wait: state of the documents in which the command ends.
        yes: whether a large load needs no confirmation.
        readable_by: readers of documents that name none themselves; None: as before.
    """

    collection: str
    lane: LaneOption | None
    key: str
    wait: WaitFor
    yes: bool
    readable_by: Sequence[str] | None = None

    @property
    def until(self) -> Until:
        """The state of documents for which the command waits."""
        return "searchable" if self.wait is WaitFor.SEARCHABLE else "ready"


def register(app: typer.Typer) -> None:
    app.command()(ingest)


def ingest(
    paths: Paths,
    *,
    collection: Collection = "default",
    lane: Lane = None,
    wait: Wait = WaitFor.READY,
    include: Include = None,
    exclude: Exclude = None,
    id_column: IdColumn = None,
    text: TextColumn = None,
    title: TitleColumn = None,
    metadata: MetadataColumns = None,
    questions: QuestionsColumn = None,
    readers_column: ReadersColumn = None,
    readable_by: ReadableBy = None,
    yes: Yes = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Upload files and wait until their questions are generated and searchable.

    Queries find documents by their texts long before that: `--wait searchable` waits only for the texts.

    Hidden files in folders are left out. The external id of a file is its path relative to the current folder. An
    unchanged file costs nothing, and a changed file replaces its document.

    One file of JSON lines (.jsonl, .jsonl.gz) or Parquet is a corpus, and each row is a document. Its columns are named
    by the options, or have the names of BEIR: _id, text, title. To continue an interrupted load, repeat the command.
    Rows that name no readers get the readers of --readable-by.

    The upload is a job: `foreask jobs` lists, pauses or cancels it. The same command continues an interrupted upload.

    The cost is estimated first. On a terminal, a load of more than 1,000 calls needs a confirmation. Exit code: 0; 3 if
    a file or a row was not uploaded, each of which is named with the reason, or if a document failed.
    """
    from cli import corpus as corpora
    from cli import files
    from features.sources.named_readers import readers_in
    from features.sources.tables.formats import Columns

    names = tuple(name.strip() for name in (metadata or "").split(",") if name.strip())
    columns = Columns(id_column, text, title, names, questions, readers_column)
    readable = None if readable_by is None else readers_in(", ".join(readable_by))
    corpus = corpora.corpus_in(paths, columns)
    chosen = asdict(columns) if corpus is not None else {"include": include, "exclude": exclude}
    chosen |= {} if readable is None else {"readable_by": readable}
    options = LoadOptions(collection, lane, load_key(collection, paths, chosen), wait, yes, readable)
    console = console_of()
    with client_of(url, key) as client:
        try:
            if corpus is not None:
                _ingest_corpus(client, console, corpus, options)
            else:
                selection = files.select(paths, include=include or (), exclude=exclude or ())
                _ingest_files(client, console, selection, options)
        finally:
            _print_notice(client, console, collection)


def _print_notice(client: CliClient, console: Console, collection: str) -> None:
    """Print the notice of a collection, such as that its embedding model does not know the language of its texts."""
    from foreask_client.requests import collection_path, get

    from cli import output
    from shared.domain.errors import ForeaskError

    with suppress(ForeaskError):  # without a server or a permission there is nothing to add
        shown = client.send(get(collection_path(collection), dict[str, Any]))
        if shown["notice"]:
            output.say(console, f"! {shown['notice']}")


def load_key(collection: str, paths: Sequence[str], options: Mapping[str, object]) -> str:
    """Return the idempotency key of a load: the same source and options in the same collection have the same key."""
    source = [collection, [str(Path(path).absolute()) for path in paths], options]
    return f"foreask-ingest-{hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()[:32]}"


def _open_job(client: CliClient, console: Console, options: LoadOptions, documents: int) -> str:
    """Open the load of a source, or continue it; return its id."""
    from cli import output

    job = client.open_load(collection=options.collection, idempotency_key=options.key, documents=documents, reopen=True)
    output.say(console, f"job {job.id}" + (f": {job.message}" if job.state == "paused" else ""))
    return job.id


def _ingest_files(client: CliClient, console: Console, selection: Selection, options: LoadOptions) -> None:
    from cli import output
    from cli.ingestion import UploadBatch

    _print_selection(console, selection)
    client.health()  # without a server this is one error instead of one for each file
    _confirm_files(client, console, selection, options)
    batch = UploadBatch(len(selection.files) + len(selection.unreadable), dict(selection.unreadable))
    job = _open_job(client, console, options, len(selection.files))
    try:
        followed = _upload(client, console, selection, batch, options, job=job)
    except KeyboardInterrupt:
        output.print_batch(console, batch)
        output.say(console, f"The server continues with the uploaded files: see `foreask jobs watch {job}`.")
        raise typer.Exit(INTERRUPTED) from None
    output.print_batch(console, batch, followed)
    if batch.rejected or batch.states()["failed"]:
        raise typer.Exit(FAILED)


def _confirm_files(client: CliClient, console: Console, selection: Selection, options: LoadOptions) -> None:
    from cli import estimates, output

    files = len(selection.files)
    if files <= estimates.FEW_FILES:
        return
    most = client.me().limits["upload_bytes"]
    documents, left_out = estimates.of_files(selection.files, most_bytes=most)
    if left_out:
        output.say(console, f"not estimated: {left_out:,} of {files:,} files, whose text is unknown before parsing")
    if documents is not None and not _is_confirmed(client, console, documents, options):
        raise typer.Exit(DECLINED)


def _upload(
    client: CliClient,
    console: Console,
    selection: Selection,
    batch: UploadBatch,
    options: LoadOptions,
    *,
    job: str,
) -> Job | None:
    """Upload files and follow their documents; return their job, or None if it was not followed."""
    from cli.ingestion import follow, job_of, seconds_left_of, upload, waiting_reason
    from cli.meter import Meter

    followed, until = None, options.until
    lane = options.lane
    with Meter(
        console,
        why=lambda seconds: waiting_reason(client, batch, stalled_seconds=seconds),
        left=lambda: seconds_left_of(client, job),
    ) as meter:
        uploading = upload(
            client,
            selection.files,
            options.collection,
            lane.value if lane else None,
            batch,
            job=job,
            readable_by=options.readable_by,
        )
        for _ in uploading:
            meter.show(batch.count(until))
        client.close_job(job)
        if options.wait is not WaitFor.NO and batch.documents:
            for count in follow(client, batch, until):
                followed = job_of(client, job) or followed
                meter.show(count, followed)
    return followed


def _print_selection(console: Console, selection: Selection) -> None:
    from cli import output

    left_out = [
        f"{count} {reason}"
        for count, reason in ((selection.hidden, "hidden"), (selection.excluded, "by --include or --exclude"))
        if count
    ]
    note = f" (left out: {', '.join(left_out)})" if left_out else ""
    output.say(console, f"{len(selection.files) + len(selection.unreadable)} files{note}")


def _ingest_corpus(client: CliClient, console: Console, corpus: Corpus, options: LoadOptions) -> None:
    from cli import estimates, output
    from cli.corpus_ingestion import CorpusLoad
    from features.sources.tables.formats import Truncated

    client.health()
    survey = corpus.survey()
    output.say(console, f"{corpus.name}: {survey.rows:,} rows")
    if survey.sample and not _is_confirmed(client, console, estimates.of_corpus(survey), options):
        raise typer.Exit(DECLINED)
    load = CorpusLoad(survey.rows)
    job = _open_job(client, console, options, survey.rows)
    try:
        followed = _follow_corpus(client, console, corpus, load, options, job=job)
    except (KeyboardInterrupt, Truncated) as error:
        output.print_load(console, load)
        if isinstance(error, Truncated):
            raise
        output.say(console, "Repeat the command to continue: documents that are stored already are not uploaded twice.")
        raise typer.Exit(INTERRUPTED) from None
    output.print_load(console, load, followed)
    if load.rejected:
        raise typer.Exit(FAILED)
    if followed is not None and (failed := followed.documents.get("failed", 0)):
        output.say(console, f"{failed:,} documents failed: foreask dead-letters list -c {options.collection}")
        raise typer.Exit(FAILED)


def _follow_corpus(
    client: CliClient,
    console: Console,
    corpus: Corpus,
    load: CorpusLoad,
    options: LoadOptions,
    *,
    job: str,
) -> Job | None:
    """Upload a corpus and follow its job; return the job, or None if it was not followed."""
    from cli.corpus_ingestion import counts_of, follow, upload_rows
    from cli.ingestion import seconds_left_of, waiting_reason
    from cli.meter import IngestCounts, Meter

    followed = None
    with Meter(
        console,
        why=lambda seconds: waiting_reason(client, stalled_seconds=seconds),
        left=lambda: seconds_left_of(client, job),
    ) as meter:
        chosen: Literal["batch"] | None = "batch" if options.lane is LaneOption.BATCH else None
        uploading = upload_rows(
            client, corpus, options.collection, load, lane=chosen, job=job, readable_by=options.readable_by
        )
        for _ in uploading:
            meter.show(IngestCounts(load.total, uploaded=load.done))
        client.close_job(job)
        if options.wait is WaitFor.NO or load.done == load.rejected:
            return None
        for followed in follow(client, job, options.until):
            meter.show(counts_of(followed.documents, options.until), followed)
    return followed


def _is_confirmed(client: CliClient, console: Console, documents: Json, options: LoadOptions) -> bool:
    from cli import estimates

    load = {"collection": options.collection, "documents": documents}
    return estimates.is_confirmed(client, console, load, "Upload them?", yes=options.yes)
