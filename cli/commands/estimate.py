"""The command that compares the costs of a load in all tiers, before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.connection import LOCAL, Collection, Key, Url, client_of, console_of
from shared.domain.errors import InvalidInput

if TYPE_CHECKING:
    from foreask_client.models import Json
    from rich.console import Console

    from cli.client import CliClient


def register(app: typer.Typer) -> None:
    app.command()(estimate)


def estimate(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Files, folders (recursively), globs, or one corpus.")
    ] = None,
    *,
    collection: Collection = "default",
    documents: Annotated[
        int | None, typer.Option(min=1, help="Number of documents of a corpus that is not here; needs --bytes.")
    ] = None,
    size_bytes: Annotated[
        int | None, typer.Option("--bytes", min=0, help="Size of its texts together, in bytes.")
    ] = None,
    pages: Annotated[int, typer.Option(min=0, help="Scanned pages of these documents, which have no size.")] = 0,
    model: Annotated[
        list[str] | None, typer.Option(help="Another language model of the provider, at its list price; repeatable.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of the texts of a corpus.")] = None,
    title: Annotated[str | None, typer.Option(help="Column of the titles of a corpus.")] = None,
    questions: Annotated[str | None, typer.Option(help="Column of the ready-made questions of a corpus.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the estimate as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Compare the costs of a load in the tiers standard, flex and batch. Nothing is uploaded or stored.

    Some of the files, or some rows of the corpus, are sent to the server as a sample. Content that is paid for already
    costs nothing. With --documents and --bytes no file is needed. Pictures are estimated as scanned pages.
    """
    from cli import output

    console = console_of()
    if (documents is None) != (size_bytes is None) or (documents is None) == (not paths):
        raise InvalidInput("Name files, or give both --documents and --bytes.")
    with client_of(url, key) as client:
        if documents is not None:
            load: Json = {"count": documents, "bytes": size_bytes, "pages": pages}
        else:
            load = _load_of(paths or [], client, console, text=text, title=title, questions=questions)
        found = client.estimate({"collection": collection, "documents": load, "models": model or []})
    if as_json:
        console.print_json(data=found)
        return
    output.say(console, output.estimate_line(found))
    console.print(output.tiers_table(found))


def _load_of(
    paths: list[str], client: CliClient, console: Console, *, text: str | None, title: str | None, questions: str | None
) -> Json:
    """Return the field `documents` of POST /v1/estimates.

    Raises:
        InvalidInput: no text is known before parsing.
    """
    from cli import corpus as corpora
    from cli import estimates, files, output
    from features.sources.tables.formats import Columns

    corpus = corpora.corpus_in(paths, Columns(None, text, title, (), questions))
    if corpus is not None:
        return estimates.of_corpus(corpus.survey())
    selection = files.select(paths, include=(), exclude=())
    load, left_out = estimates.of_files(selection.files, most_bytes=client.me().limits["upload_bytes"])
    if load is None:
        raise InvalidInput("The text of these files is known only after parsing: give --documents and --bytes.")
    if left_out:
        output.say(console, f"not estimated: {left_out:,} files, whose text is unknown before parsing")
    return load
