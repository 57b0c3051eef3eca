"""An evaluation on this machine: its engines, its run and its output."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import uvloop
from rich.console import Console
from rich.markup import escape

from cli.client import CliClient
from cli.meter import Stages
from cli.output import say
from cli.tables import Table
from features.evaluation.comparison import StrategyDifference
from features.evaluation.results import FILE, Json
from features.evaluation.strategies import select_baseline, select_strategies
from foreask_evaluation import markdown as as_markdown
from foreask_evaluation import page as as_html
from foreask_evaluation import served
from foreask_evaluation.cache import EvaluationCache
from foreask_evaluation.labelled import read_questions, read_set
from foreask_evaluation.run import evaluate
from foreask_evaluation.services import EvaluationServices
from foreask_evaluation.table import DIFFERENCE_HEADINGS, HEADINGS, QUALITY, cells, difference_cells, heading, sentences
from foreask_evaluation.vectors import CachedEmbedder
from shared.process.hardening import private_files
from shared.query.answer import Answerer, ExtractiveAnswerer, GenerativeAnswerer, unrelated_cosine
from shared.query.rewrite import Rewriter
from shared.services.embedders import embedder_of
from shared.services.llm import chat_of
from shared.services.reranking import reranker_of
from shared.settings import EMBEDDED_LLM, Settings
from shared.vectors.index import Index

_TABLE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """The options of an evaluation.

    Args:
        folder: folder of the labelled set.
        strategies: names of strategies; None: all strategies that need no other model.
        baseline: name of the strategy with which the others are compared; None: `text`, if it is among them.
        generate: whether a model may write questions, which costs money, if the set has none.
        answers: whether answers are also evaluated, from the configured model or, without one, as quotations.
    """

    folder: Path
    strategies: list[str] | None = None
    baseline: str | None = None
    generate: bool = False
    answers: bool = False


def run(request: EvaluationRequest, settings: Settings, console: Console) -> Json:
    """Evaluate, with embedded engines unless the settings name others. A stopped run continues."""
    strategies = select_strategies(request.strategies)
    baseline = select_baseline(request.baseline, strategies)
    labelled = read_set(request.folder)
    work = settings.data_dir / "evaluation"
    needs = _Needs(
        generates=request.generate and labelled.questions is None,
        answers=request.answers,
        writes_answers=_writes_answers(settings),
        rewrites=any(strategy.rewriting for strategy in strategies) and _has_model(settings),
    )
    with (
        private_files(),
        _engines(settings, work, needs) as complete,
        EvaluationCache(work / "cache.sqlite") as cache,
        Stages(console) as stages,
    ):

        async def evaluated() -> Json:
            async with _services(complete, cache, stages, needs) as services:
                return await evaluate(services, labelled, strategies, baseline)

        return uvloop.run(evaluated())


@dataclass(frozen=True, slots=True)
class _Needs:
    """Uses of language models in a run. Without `writes_answers`, answers are quotations."""

    generates: bool
    answers: bool
    writes_answers: bool
    rewrites: bool

    @property
    def llm(self) -> bool:
        return self.generates or self.rewrites or (self.answers and self.writes_answers)


def _writes_answers(settings: Settings) -> bool:
    if settings.answering is not None:
        return settings.answering == "generative"
    return _has_model(settings)


def _has_model(settings: Settings) -> bool:
    """Return whether a language model is configured that can do more than generate questions."""
    return settings.llm_model not in (None, EMBEDDED_LLM)


@contextmanager
def _engines(settings: Settings, work: Path, needs: _Needs) -> Iterator[Settings]:
    """Start the engines whose URLs are not set, and yield the settings with their URLs."""
    if settings.qdrant_url and settings.embedding_base_url and (settings.llm_base_url or not needs.llm):
        yield settings  # does not import the embedded engines, which may not be installed
        return
    from cli.launcher import SPINS_OF_OPENMP, embedded_llm_settings
    from embedded.stack import Stack

    for name, value in SPINS_OF_OPENMP.items():
        os.environ.setdefault(name, value)  # the engines inherit it
    tuned = settings.model_copy(update=embedded_llm_settings(settings))
    with Stack(tuned, work, engines=("qdrant", "embedding", "llm") if needs.llm else ("qdrant", "embedding")) as stack:
        yield stack.settings


def run_served(
    client: CliClient, collection: str, questions: Path, request: EvaluationRequest, console: Console
) -> Json:
    """Evaluate a collection on a server, in its current state."""
    strategies = select_strategies(request.strategies)
    possible = [strategy for strategy in strategies if strategy.layout == "chunks"]  # the layout of the server
    baseline = select_baseline(request.baseline, possible or strategies)
    labelled, label_field = read_questions(questions, collection)
    with Stages(console) as stages:
        return served.evaluate(client, labelled, label_field, strategies, baseline=baseline, progress=stages.show)


@asynccontextmanager
async def _services(
    settings: Settings, cache: EvaluationCache, stages: Stages, needs: _Needs
) -> AsyncIterator[EvaluationServices]:
    async with AsyncExitStack() as stack:
        index = Index(*settings.qdrant_addresses(), api_key=settings.qdrant_api_key)
        stack.push_async_callback(index.aclose)
        embedder = embedder_of(settings, stack)
        chat = chat_of(settings, stack) if needs.llm else None
        services = EvaluationServices(settings, embedder, index, cache, chat if needs.generates else None, stages.show)
        answerer: Answerer | None = None
        if needs.answers:
            quoting = ExtractiveAnswerer(CachedEmbedder(services), unrelated=unrelated_cosine(services.model))
            answerer = GenerativeAnswerer(chat) if chat and needs.writes_answers else quoting
        rewriter = Rewriter(lambda _: chat, settings.tuning.rewrite_budget) if chat and needs.rewrites else None
        yield replace(services, answerer=answerer, rewriter=rewriter, reranker=reranker_of(settings, stack))


def write(results: Json, output: Path) -> None:
    """Write the results as JSON, Markdown and HTML into a folder. Only this user can read the new files."""
    with private_files():
        output.mkdir(parents=True, exist_ok=True)
        (output / FILE).write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2))
        (output / "results.md").write_text(as_markdown.page(results), encoding="utf-8")
        (output / "results.html").write_text(as_html.page(results), encoding="utf-8")


def show(results: Json, console: Console) -> None:
    """Print the quality of each strategy, then its cost, then notes about the results."""
    say(console, heading(results))
    rows = [cells(row) for row in results["rows"]]
    bold = [row["strategy"] == results["default"] for row in results["rows"]]
    _print(console, HEADINGS[:QUALITY], [row[:QUALITY] for row in rows], bold)
    _print(console, (HEADINGS[0], *HEADINGS[QUALITY:]), [[row[0], *row[QUALITY:]] for row in rows], bold)
    for sentence in sentences(results):
        say(console, sentence)


def show_differences(differences: Sequence[StrategyDifference], console: Console) -> None:
    say(console, "nDCG@10, in this run and in the earlier run:")
    _print(console, DIFFERENCE_HEADINGS, [difference_cells(d) for d in differences], [False] * len(differences))


def _print(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[bool]) -> None:
    """Print a table in its full width, because wrapped lines are better than truncated numbers."""
    table = Table()
    for name in headings:
        table.add_column(name, justify="left" if name == headings[0] else "right", no_wrap=True)
    for row, is_bold in zip(rows, bold, strict=True):
        table.add_row(*map(escape, row), style="bold" if is_bold else None)
    console.width = max(console.width, _TABLE_WIDTH)
    console.print(table, crop=False)


def print_stopped(console: Console) -> None:
    say(console, "stopped; the same command continues from here")
