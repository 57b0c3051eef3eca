"""An evaluation on this machine: the engines that it needs, the run, and what is written of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import uvloop
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli import served
from cli.client import Client
from cli.meter import Stages
from cli.output import say
from evaluation import Change, EvaluationCache, Tools, baseline_of, chosen, evaluate, read, read_questions
from evaluation import markdown as as_markdown
from evaluation import page as as_html
from evaluation.results import FILE, Json
from evaluation.table import CHANGE_HEADINGS, HEADINGS, QUALITY, cells, change_cells, heading, sentences
from evaluation.vectors import CachedEmbedder
from shared.query.answer import Answerer, ExtractiveAnswerer, GenerativeAnswerer
from shared.query.rewrite import Rewriter
from shared.services.providers import chat_of, embedder_of, reranker_of
from shared.settings import EMBEDDED_LLM, Settings, require
from shared.vectors.index import Index

_TABLE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What is to be evaluated.

    Args:
        folder: the labelled set.
        strategies: by name; None is all.
        baseline: the strategy that the others are compared with; None is text alone, if it is among them.
        ask: whether questions may be written, and paid for, where the set has none.
        answers: whether questions are answered too, by the configured model, or in quotations where there is none.
    """

    folder: Path
    strategies: list[str] | None = None
    baseline: str | None = None
    ask: bool = False
    answers: bool = False


def run(wanted: EvaluationRequest, settings: Settings, console: Console) -> Json:
    """Evaluate, with embedded engines where the settings name no others; a run that was stopped goes on."""
    strategies = chosen(wanted.strategies)
    baseline = baseline_of(wanted.baseline, strategies)
    labelled = read(wanted.folder)
    work = settings.data_dir / "evaluation"
    needs = _Needs(
        chat=wanted.ask and labelled.questions is None,
        answers=wanted.answers,
        generates=_generates(settings),
        rewrites=any(strategy.rewriting for strategy in strategies) and _has_model(settings),
    )
    with (
        _engines(settings, work, needs) as complete,
        EvaluationCache(work / "kept.sqlite") as kept,
        Stages(console) as stages,
    ):

        async def evaluated() -> Json:
            async with _tools(complete, kept, stages, needs) as tools:
                return await evaluate(tools, labelled, strategies, baseline)

        return uvloop.run(evaluated())


@dataclass(frozen=True, slots=True)
class _Needs:
    """Which models a run needs beside embeddings: `generates` says that answers are written, not quoted."""

    chat: bool
    answers: bool
    generates: bool
    rewrites: bool

    @property
    def llm(self) -> bool:
        return self.chat or self.rewrites or (self.answers and self.generates)


def _generates(settings: Settings) -> bool:
    if settings.answering is not None:
        return settings.answering == "generative"
    return _has_model(settings)


def _has_model(settings: Settings) -> bool:
    """Whether there is a language model that can do more than write questions."""
    return settings.llm_model not in (None, EMBEDDED_LLM)


@contextmanager
def _engines(settings: Settings, work: Path, needs: _Needs) -> Iterator[Settings]:
    """The settings with every URL that is needed, and the engines behind those that were not given."""
    if settings.qdrant_url and settings.embedding_base_url and (settings.llm_base_url or not needs.llm):
        yield settings  # which also works where the embedded engines are not installed
        return
    from cli.launcher import SPINS_OF_OPENMP, suited
    from embedded.stack import Stack

    for name, value in SPINS_OF_OPENMP.items():
        os.environ.setdefault(name, value)  # the engines inherit it
    own = settings.model_copy(update=suited(settings))
    with Stack(own, work, engines=("qdrant", "embedding", "llm") if needs.llm else ("qdrant", "embedding")) as stack:
        yield stack.settings


def run_served(client: Client, collection: str, questions: Path, wanted: EvaluationRequest, console: Console) -> Json:
    """Evaluate a collection on a server, as it stands there."""
    strategies = chosen(wanted.strategies)
    baseline = baseline_of(wanted.baseline, strategies)
    labelled, kind = read_questions(questions, collection)
    with Stages(console) as stages:
        return served.evaluate(client, labelled, kind, strategies, baseline=baseline, progress=stages.show)


@asynccontextmanager
async def _tools(settings: Settings, kept: EvaluationCache, stages: Stages, needs: _Needs) -> AsyncIterator[Tools]:
    async with AsyncExitStack() as stack:
        index = Index(require(settings.qdrant_url, "FOREASK_QDRANT_URL"), settings.qdrant_api_key)
        stack.push_async_callback(index.aclose)
        embedder = embedder_of(settings, stack)
        chat = chat_of(settings, stack) if needs.llm else None
        tools = Tools(settings, embedder, index, kept, chat if needs.chat else None, stages.show)
        answerer: Answerer | None = None
        if needs.answers:
            answerer = (
                GenerativeAnswerer(chat) if chat and needs.generates else ExtractiveAnswerer(CachedEmbedder(tools))
            )
        rewriter = Rewriter(lambda _: chat, settings.tuning.rewrite_budget) if chat and needs.rewrites else None
        yield replace(tools, answerer=answerer, rewriter=rewriter, reranker=reranker_of(settings, stack))


def write(results: Json, output: Path) -> None:
    """Write the results as JSON, Markdown and HTML into a folder."""
    output.mkdir(parents=True, exist_ok=True)
    (output / FILE).write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2))
    (output / "results.md").write_text(as_markdown.page(results), encoding="utf-8")
    (output / "results.html").write_text(as_html.page(results), encoding="utf-8")


def show(results: Json, console: Console) -> None:
    """Print how good each strategy is, then what each costs, then what must be known to read that."""
    say(console, heading(results))
    rows = [cells(row) for row in results["rows"]]
    bold = [row["strategy"] == results["default"] for row in results["rows"]]
    _print(console, HEADINGS[:QUALITY], [row[:QUALITY] for row in rows], bold)
    _print(console, (HEADINGS[0], *HEADINGS[QUALITY:]), [[row[0], *row[QUALITY:]] for row in rows], bold)
    for sentence in sentences(results):
        say(console, sentence)


def show_changes(found: Sequence[Change], console: Console) -> None:
    say(console, "nDCG@10, now and in the run that it is compared with:")
    _print(console, CHANGE_HEADINGS, [change_cells(change) for change in found], [False] * len(found))


def _print(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[bool]) -> None:
    """Print a table in its own width: a narrow terminal had better scroll or wrap than read cut numbers."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in headings:
        table.add_column(name, justify="left" if name == headings[0] else "right", no_wrap=True)
    for row, is_bold in zip(rows, bold, strict=True):
        table.add_row(*map(escape, row), style="bold" if is_bold else None)
    console.width = max(console.width, _TABLE_WIDTH)
    console.print(table, crop=False)


def say_stopped(console: Console) -> None:
    say(console, "stopped; the same command goes on where this ended")
