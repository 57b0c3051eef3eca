"""The strategies that are compared: rows of one table, over the same questions and embeddings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from shared.domain.errors import InvalidInput
from shared.query.retrieve import CHANNELS, Channel, FusionName
from shared.query.rewrite import RewriteOptions

Layout = Literal["chunks", "joined", "prepended"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to index and to search.

    Args:
        layout: the texts to embed; see `evaluation.layouts`.
        rewriting: the texts that a model writes to search for too, with a call for each query.
        rerank: whether a reranker orders the best chunks.
    """

    name: str
    channels: tuple[Channel, ...]
    fusion: FusionName = "scores"
    layout: Layout = "chunks"
    rewriting: RewriteOptions = RewriteOptions()
    rerank: bool = False

    @property
    def only_questions(self) -> bool:
        """Whether the strategy searches nothing without questions, or only points that another strategy searches."""
        return self.layout != "chunks" or self.channels == ("questions",)

    @property
    def uses_questions(self) -> bool:
        return self.layout != "chunks" or "questions" in self.channels


DEFAULT = "default"
BASELINE = "text"
STRATEGIES = (
    Strategy(DEFAULT, CHANNELS),
    Strategy("questions", ("questions",)),
    Strategy("text", ("text",)),
    Strategy("bm25", ("bm25",)),
    Strategy("text+bm25 rrf", ("text", "bm25"), "rrf"),
    Strategy("questions joined", ("questions",), layout="joined"),
    Strategy("questions prepended", ("text",), layout="prepended"),
    Strategy("default prepended", CHANNELS, layout="prepended"),
    Strategy("mean", CHANNELS, "mean"),
    Strategy("all rrf", CHANNELS, "rrf"),
    Strategy("max", CHANNELS, "max"),
)
# Each query has a price or needs another server, so these run only by name.
BY_NAME = (
    Strategy("default hyde", CHANNELS, rewriting=RewriteOptions(hyde=True)),
    Strategy("default queries", CHANNELS, rewriting=RewriteOptions(queries=3)),
    Strategy("default step-back", CHANNELS, rewriting=RewriteOptions(step_back=True)),
    Strategy("default rerank", CHANNELS, rerank=True),
)


def select_strategies(names: Iterable[str] | None) -> tuple[Strategy, ...]:
    """Look up strategies by name; None selects all that need no model other than embeddings.

    Raises:
        InvalidInput: no strategy has one of the names.
    """
    if names is None:
        return STRATEGIES
    by_name = {strategy.name: strategy for strategy in (*STRATEGIES, *BY_NAME)}
    selected = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    unknown = [name for name in selected if name not in by_name]
    if unknown or not selected:
        fault = f"There is no strategy {unknown[0]}" if unknown else "No strategy is named"
        raise InvalidInput(f"{fault}; there are: {', '.join(by_name)}.", field="strategies")
    return tuple(by_name[name] for name in selected)


def select_baseline(name: str | None, strategies: Iterable[Strategy]) -> str:
    """Return the strategy with which others are compared: the named one, or else `text`, or else the first.

    Raises:
        InvalidInput: the named one is not among the strategies.
    """
    names = [strategy.name for strategy in strategies]
    if name is not None and name not in names:
        raise InvalidInput(f"The baseline {name} is not among the strategies: {', '.join(names)}.", field="baseline")
    return name or (BASELINE if BASELINE in names else names[0])
