"""Commands for sources: add, list, change, sync, approve and remove them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.commands.jobs import FAILED, INTERRUPTED, WITHHELD, follow
from cli.connection import LOCAL, AnyCollection, Collection, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from foreask_client import Sync

    from cli.client import CliClient

_SYNCS = 5  # shown of a source

sources_app = typer.Typer(help="Keep collections in sync with folders, buckets, repositories, sites and programs.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the source.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the documents of the sync are finished.")]
Options = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Option of its kind; may be repeated.")
]
Secret = Annotated[str | None, typer.Option(help="Name of the operator's setting with its secret.")]
Schedule = Annotated[str | None, typer.Option(help='Times of its syncs, such as "0 3 * * *".')]
TimeZone = Annotated[str | None, typer.Option(help="Time zone of the schedule, such as Europe/Berlin; default: UTC.")]
Share = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Part of its documents that one sync may delete without approval; default: 0.1."),
]
CopyFiles = Annotated[
    bool | None,
    typer.Option(
        "--copy-files/--no-copy-files",
        help="Copy the files of a folder, bucket or repository, so that versions that the source has lost can be read"
        " again; default: do not copy.",
    ),
]


Readers = Annotated[
    list[str] | None,
    typer.Option(
        "--readers",
        metavar="'PATTERN = READER, …'",
        help="Readers of the documents whose names match: `legal/** = group:legal`; may be repeated, the first match"
        " counts, and no person reads the others.",
    ),
]


class DocumentsChoice(StrEnum):
    KEEP = "keep"
    DELETE = "delete"


def register(app: typer.Typer) -> None:
    app.add_typer(sources_app, name="sources", no_args_is_help=True)
    sources_app.command("list")(list_)
    for command in (add, show, change, sync, approve, remove):
        sources_app.command()(command)
    app.command()(sync)


def add(
    name: Name,
    uri: Annotated[
        str | None,
        typer.Argument(
            metavar="ADDRESS",
            help="Address, such as file:///srv/wiki or s3://bucket/folder; none is needed with --kind push.",
        ),
    ] = None,
    *,
    collection: Collection = "default",
    kind: Annotated[str | None, typer.Option(help="Kind of source; default: by the address.")] = None,
    option: Options = None,
    secret: Secret = None,
    schedule: Schedule = None,
    time_zone: TimeZone = None,
    max_delete_share: Share = None,
    copy_files: CopyFiles = None,
    readers: Readers = None,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Add a source to a collection. `foreask sync NAME` syncs it now, unless a program pushes its entries."""
    from cli import output

    if uri is None and kind != "push":
        raise typer.BadParameter("Name the address of the source.", param_hint="ADDRESS")
    with client_of(url, key) as client:
        added = client.add_source(
            name,
            uri or f"push://{name}",
            collection=collection,
            kind=kind,
            options=_options(option or ()) | _rules(readers),
            secret_name=secret,
            schedule=schedule,
            time_zone=time_zone or "UTC",
            max_delete_share=max_delete_share,
            copy_files=copy_files,
        )
    output.print_source(console_of(), added)


def list_(collection: AnyCollection = None, *, as_json: AsJson = False, url: Url = LOCAL, key: Key = None) -> None:
    """List sources, each with its next and its newest sync."""
    from cli import output

    with client_of(url, key) as client:
        sources = list(client.sources(collection=collection))
    if as_json:
        output.print_json(sources)
    else:
        console_of().print(output.sources_table(sources))


def show(name: Name, *, as_json: AsJson = False, url: Url = LOCAL, key: Key = None) -> None:
    """Show a source with its last syncs, and the deletions that need approval."""
    from itertools import islice

    from cli import output

    with client_of(url, key) as client:
        source = client.source(name)
        syncs = [] if source.removing else list(islice(client.syncs(name), _SYNCS))
        withheld = None if source.removing else client.withheld_deletions(name)
    if as_json:
        output.print_json({"source": source, "syncs": syncs, "withheld": withheld})
    else:
        output.print_source(console_of(), source, syncs, withheld)


def change(
    name: Name,
    *,
    uri: Annotated[str | None, typer.Option(help="New address.")] = None,
    option: Options = None,
    secret: Secret = None,
    schedule: Annotated[str | None, typer.Option(help='New times of its syncs; "" removes the schedule.')] = None,
    time_zone: TimeZone = None,
    max_delete_share: Share = None,
    copy_files: CopyFiles = None,
    readers: Readers = None,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Confirm that documents are deleted whose entries the source lacks afterwards."),
    ] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Change a source. Any --option replaces its options; --copy-files and --readers change only themselves."""
    from cli import output

    changes = {"uri": uri, "secret_name": secret, "time_zone": time_zone, "max_delete_share": max_delete_share}
    given: dict[str, Any] = {field: value for field, value in changes.items() if value is not None}
    given |= {} if option is None else {"options": _options(option)}
    given |= {} if schedule is None else {"schedule": schedule or None}
    with client_of(url, key) as client:
        own = _rules(readers) | ({} if copy_files is None else {"copy_files": copy_files})
        if own:
            options = given["options"] if "options" in given else client.source(name).options
            given["options"] = options | own
        changed = client.change_source(name, given, confirm=confirm)
    output.print_source(console_of(), changed)


def sync(name: Name, *, wait: Wait = False, url: Url = LOCAL, key: Key = None) -> None:
    """Sync a source now.

    Exit code with --wait: 0; 3 if it failed or documents have errors; 4 if deletions are withheld.
    """
    with client_of(url, key) as client:
        _finish(client, client.start_sync(name), wait=wait)


def approve(
    name: Name,
    *,
    deletions: Annotated[
        int, typer.Option(min=1, help="Maximum number; if more entries are missing by then, nothing is deleted.")
    ],
    wait: Wait = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Approve withheld deletions: the source is listed again. Exit codes as `foreask sync`."""
    with client_of(url, key) as client:
        _finish(client, client.approve_deletions(name, deletions), wait=wait)


def remove(
    name: Name,
    *,
    documents: Annotated[DocumentsChoice, typer.Option(help="Keep or delete its documents.")],
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Remove a source, with or without its documents."""
    with client_of(url, key) as client:
        client.remove_source(name, documents=documents.value)
    print(f"source {name} is being removed")


def _finish(client: CliClient, started: Sync, *, wait: bool) -> None:
    """Report a started sync, or follow it to its end and exit with its result."""
    from cli import output

    console = console_of()
    if not wait:
        output.say(console, f"started: foreask jobs watch {started.id}")
        return
    try:
        job = follow(client, console, started.id)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    done = next(each for each in client.syncs(started.source) if each.id == started.id)
    output.print_sync(console, done)
    if job.pause_reason == "approval":
        output.print_withheld(console, started.source, client.withheld_deletions(started.source))
        raise typer.Exit(WITHHELD)
    if job.state != "done":
        output.print_job(console, job)
        raise typer.Exit(FAILED)


def _rules(readers: list[str] | None) -> dict[str, Any]:
    """Return rules of readers as an option, which has one in each line; none without rules."""
    return {"readers": "\n".join(readers)} if readers else {}


def _options(pairs: Iterable[str]) -> dict[str, Any]:
    """Return options by name.

    Raises:
        InvalidInput: a pair has no `=`.
    """
    from shared.domain.errors import InvalidInput

    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise InvalidInput(f"'{pair}' is not an option: write --option NAME=VALUE.", field="option")
        options[name] = value
    return options
