"""`foreask ask`: a question, the options of its search, and the explanation of its answer."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.server import LOCAL, Collection, Key, Url, client_of, console_of


class UnitChoice(StrEnum):
    CHUNK = "chunk"
    SECTION = "section"
    SENTENCES = "sentences"


class OrderChoice(StrEnum):
    SCORE = "score"
    SECTION = "section"


class RewriteForm(StrEnum):
    HYDE = "hyde"
    QUERIES = "queries"
    STEP_BACK = "step-back"
    ENTITIES = "entities"


def register(app: typer.Typer) -> None:
    app.command()(ask)


def ask(
    question: str,
    *,
    collection: Collection = "default",
    top_k: Annotated[int | None, typer.Option(help="Distinct chunks to answer from.")] = None,
    unit: Annotated[UnitChoice | None, typer.Option(help="What is read of each chunk that is found.")] = None,
    order: Annotated[
        OrderChoice | None, typer.Option(help="`section`: chunks under the same headings together.")
    ] = None,
    rewrite: Annotated[
        list[RewriteForm] | None, typer.Option(help="Search for this too, written by the language model.")
    ] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="Only documents with this metadata, e.g. year=2026.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each stage and channel found.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole reply as JSON.")] = False,
    show_chunks: Annotated[bool, typer.Option("--show-chunks", help="Print every chunk that was found.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Ask a question: the answer, then what it cites, with the question that matched and its score."""
    from cli import output

    choices: dict[str, Any] = {
        "top_k": top_k,
        "unit": unit,
        "order": order,
        "rewrite": {part.replace("-", "_"): True for part in rewrite} if rewrite else None,
        "filter": dict(map(condition, filters)) if filters else None,
        "explain": explain or None,
    }
    options = {name: value for name, value in choices.items() if value is not None}
    with client_of(url, key) as client:
        if as_json:
            output.print_json(client.query(question, collection=collection, **options))
        else:
            events = client.query_events(question, collection=collection, **options)
            output.print_answer(console_of(), events, show_chunks=show_chunks)


def condition(text: str) -> tuple[str, Any]:
    """Read `key=value`; a value that is not JSON is a text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text} is not KEY=VALUE, such as year=2026", param_hint="--filter")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
