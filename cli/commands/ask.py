"""`foreask ask`: a question, the options of its search, and the explanation of its answer."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.connection import LOCAL, Collection, Key, Url, client_of, console_of


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
    top_k: Annotated[int | None, typer.Option(help="Number of distinct chunks for the answer.")] = None,
    unit: Annotated[UnitChoice | None, typer.Option(help="Part of each chunk that is used for the answer.")] = None,
    order: Annotated[
        OrderChoice | None, typer.Option(help="Order of the chunks; `section`: grouped by heading.")
    ] = None,
    rewrite: Annotated[
        list[RewriteForm] | None, typer.Option(help="Also search with a rewritten question; repeatable.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="Only documents with this metadata, e.g. year=2026; repeatable."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print the results of each stage and channel.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the complete reply as JSON.")] = False,
    show_chunks: Annotated[bool, typer.Option("--show-chunks", help="Print all chunks of the result.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Print the answer to a question, then its citations with the matched questions and scores."""
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
    """Parse `key=value`. A value that is not JSON is a text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text} is not KEY=VALUE, such as year=2026", param_hint="--filter")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
