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
        layout: what is embedded; see `evaluation.layouts`.
        rewriting: what else is searched for, written by a model, with a call for each query.
        rerank: whether a reranker orders the best.
    """

    name: str
    channels: tuple[Channel, ...]
    fusion: FusionName = "scores"
    layout: Layout = "chunks"
    rewriting: RewriteOptions = RewriteOptions()
    rerank: bool = False

    @property
    def only_questions(self) -> bool:
        """Whether it is nothing, or another strategy, where there are no questions."""
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
    Strategy("all rrf", CHANNELS, "rrf"),
    Strategy("max", CHANNELS, "max"),
)
# Each query has a price or needs a server of its own: they are run where they are named.
BY_NAME = (
    Strategy("default hyde", CHANNELS, rewriting=RewriteOptions(hyde=True)),
    Strategy("default queries", CHANNELS, rewriting=RewriteOptions(queries=3)),
    Strategy("default step-back", CHANNELS, rewriting=RewriteOptions(step_back=True)),
    Strategy("default rerank", CHANNELS, rerank=True),
)


def chosen(names: Iterable[str] | None) -> tuple[Strategy, ...]:
    """Look strategies up by name; None is all that need no model beside the embeddings.

    Raises:
        InvalidInput: there is none of a name.
    """
    if names is None:
        return STRATEGIES
    known = {strategy.name: strategy for strategy in (*STRATEGIES, *BY_NAME)}
    wanted = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        what = f"There is no strategy {unknown[0]}" if unknown else "No strategy is named"
        raise InvalidInput(f"{what}; there are: {', '.join(known)}.", field="strategies")
    return tuple(known[name] for name in wanted)


def baseline_of(name: str | None, strategies: Iterable[Strategy]) -> str:
    """The strategy that others are compared with: the named one, else text alone, else the first.

    Raises:
        InvalidInput: the named one is not among the strategies.
    """
    names = [strategy.name for strategy in strategies]
    if name is not None and name not in names:
        raise InvalidInput(f"The baseline {name} is not among the strategies: {', '.join(names)}.", field="baseline")
    return name or (BASELINE if BASELINE in names else names[0])
