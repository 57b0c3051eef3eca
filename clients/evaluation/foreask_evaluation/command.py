"""The command that measures strategies with labelled questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.connection import LOCAL, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from rich.console import Console

    from features.evaluation.results import Json
    from foreask_evaluation.local import EvaluationRequest

INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    app.command(name="eval")(evaluate)


def evaluate(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A BEIR folder (corpus.jsonl, queries.jsonl, qrels.tsv), or the output of an earlier run."),
    ] = None,
    *,
    output: Annotated[Path | None, typer.Option(help="Folder for results.json, .md and .html.")] = None,
    strategies: Annotated[str | None, typer.Option(help="Only these strategies, separated by commas.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Strategy to compare with; default: text.")] = None,
    generate: Annotated[
        bool, typer.Option("--generate", help="Generate questions with the LLM if the set has none.")
    ] = False,
    answers: Annotated[
        bool,
        typer.Option("--answers", help="Also score answers: of the LLM if one is configured, otherwise quotations."),
    ] = False,
    compare: Annotated[Path | None, typer.Option(help="Output of an earlier run to compare with.")] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", "-c", help="A collection on a server instead of a folder.")
    ] = None,
    questions: Annotated[
        Path | None, typer.Option(help="Labelled questions, JSONL: question, and external_ids or chunk_ids.")
    ] = None,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Compare search strategies with questions whose answers are known, on one set of embeddings.

    A folder needs no server: the command starts the engines and models that the settings do not name. Vectors and
    replies of models are cached, so that a stopped run continues and a second run costs nothing. A collection is
    searched on its server, in its current state.
    """
    from features.evaluation.comparison import compare as compare_runs
    from features.evaluation.results import FILE, read_results
    from foreask_evaluation import local

    _check(folder, collection, questions)
    console = console_of()
    earlier = read_results(compare) if compare else None
    request = local.EvaluationRequest(
        folder or Path(), strategies.split(",") if strategies else None, baseline, generate, answers
    )
    if collection is not None and questions is not None:
        with client_of(url, key) as client:
            results = local.run_served(client, collection, questions, request, console)
        _report(console, results, output)
    elif earlier is not None and (request.folder / FILE).is_file() and not (request.folder / "corpus.jsonl").exists():
        results = read_results(request.folder)
    else:
        results = _run(console, request)
        _report(console, results, output)
    if earlier is not None:
        local.show_differences(compare_runs(results, earlier), console)


def _check(folder: Path | None, collection: str | None, questions: Path | None) -> None:
    from shared.domain.errors import InvalidInput

    if (folder is None) == (collection is None):
        raise InvalidInput("Name a folder, or a collection with --collection and --questions.", field="folder")
    if (collection is None) != (questions is None):
        raise InvalidInput("--collection and --questions require each other.", field="questions")


def _run(console: Console, request: EvaluationRequest) -> Json:
    from foreask_evaluation import local
    from shared.settings import load

    try:
        return local.run(request, load(), console)
    except KeyboardInterrupt:
        local.print_stopped(console)
        raise typer.Exit(INTERRUPTED) from None


def _report(console: Console, results: Json, output: Path | None) -> None:
    from cli.output import say
    from foreask_evaluation import local
    from shared.settings import load

    local.show(results, console)
    output = output or load().data_dir / "evaluation" / "results" / results["set"]
    local.write(results, output)
    say(console, f"Written: {output / 'results.html'}, results.md, results.json")
