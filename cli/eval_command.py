"""The command that measures strategies on a labelled set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.server import console_of

if TYPE_CHECKING:
    from rich.console import Console

    from shared.evaluation.results import Json

INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    app.command(name="eval")(evaluate)


def evaluate(
    folder: Annotated[
        Path,
        typer.Argument(help="A BEIR folder: corpus.jsonl, queries.jsonl, qrels.tsv; or the output of an earlier run."),
    ],
    *,
    output: Annotated[Path | None, typer.Option(help="Where results.json, .md and .html are written.")] = None,
    strategies: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Compare with this strategy; default: text.")] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Have the LLM write questions where the set has none.")] = False,
    compare: Annotated[Path | None, typer.Option(help="The output of an earlier run to compare with.")] = None,
) -> None:
    """Measure ways of searching on questions whose answers are known, over one set of embeddings.

    Needs no server: engines and models that the settings do not name are started for it. What is embedded or asked for
    is kept, so that a run that was stopped goes on and another costs nothing.
    """
    from cli import evaluation  # noqa: PLC0415 - loaded when needed, so that help is quick
    from shared.evaluation.comparison import changes  # noqa: PLC0415
    from shared.evaluation.results import FILE, read  # noqa: PLC0415

    console = console_of()
    earlier = read(compare) if compare else None
    saved = compare is not None and (folder / FILE).is_file() and not (folder / "corpus.jsonl").exists()
    names = strategies.split(",") if strategies is not None else None
    results = read(folder) if saved else _run(console, folder, output, names, baseline, ask=ask)
    if earlier is not None:
        evaluation.show_changes(changes(results, earlier), console)


def _run(
    console: Console, folder: Path, output: Path | None, names: list[str] | None, baseline: str | None, *, ask: bool
) -> Json:
    from cli import evaluation  # noqa: PLC0415
    from cli.output import say  # noqa: PLC0415
    from shared.settings import load  # noqa: PLC0415

    settings = load()
    try:
        results = evaluation.run(evaluation.Wanted(folder, names, baseline, ask), settings, console)
    except KeyboardInterrupt:
        evaluation.say_stopped(console)
        raise typer.Exit(INTERRUPTED) from None
    evaluation.show(results, console)
    output = output or settings.data_dir / "evaluation" / "results" / results["set"]
    evaluation.write(results, output)
    say(console, f"Written: {output / 'results.html'}, results.md, results.json")
    return results
