"""The trace of a query: the time of each stage, its counts, and the reason if it was skipped.

A stage records numbers only. Sentences are made of them when an explanation is requested.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from shared.process.telemetry import traces
from shared.query.retrieve.query import Channel, FusionName, ReturnUnit

StageName = Literal[
    "rewrite",
    "embed",
    "search",
    "fuse",
    "fetch",
    "check",
    "rerank",
    "diversity",
    "sections",
    "sentences",
    "return",
    "assemble",
    "record",
    "answer",
]
STAGES: tuple[StageName, ...] = get_args(StageName)  # in the order of a query


@dataclass(frozen=True, slots=True)
class RewriteFacts:
    """The number of texts searched in addition to the question."""

    texts: int


@dataclass(frozen=True, slots=True)
class EmbedFacts:
    """The number of questions that this stage embedded; `rewrite` embeds its texts itself."""

    questions: int


@dataclass(frozen=True, slots=True)
class SearchFacts:
    """The number of distinct chunks that each channel found."""

    chunks: Mapping[Channel, int]


@dataclass(frozen=True, slots=True)
class FusionFacts:
    """The number of fused chunks, and how many of them score below the minimum."""

    chunks: int
    fusion: FusionName
    below_min_score: int


@dataclass(frozen=True, slots=True)
class FetchFacts:
    """The number of chunks that the query has read."""

    chunks: int


@dataclass(frozen=True, slots=True)
class RerankFacts:
    """The number of chunks scored by the reranker."""

    chunks: int


@dataclass(frozen=True, slots=True)
class DiversityFacts:
    """The number of chunks chosen for diversity, and of candidates."""

    chosen: int
    candidates: int


@dataclass(frozen=True, slots=True)
class ReturnFacts:
    """The numbers of returned units and of matches; `duplicates` had the text of another unit."""

    units: int
    unit: ReturnUnit
    matches: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class AssemblyFacts:
    """Results of the budget: chunks with duplicate texts, chunks over the budget, and the tokens of the rest.

    `exact` means that the model's tokenizer counted the tokens; otherwise they are estimated.
    """

    shortened: int
    over_budget: int
    tokens: int
    exact: bool


StageFacts = (
    RewriteFacts
    | EmbedFacts
    | SearchFacts
    | FusionFacts
    | FetchFacts
    | RerankFacts
    | DiversityFacts
    | ReturnFacts
    | AssemblyFacts
)


@dataclass(slots=True)
class StageTrace:
    """One stage of a query.

    Args:
        milliseconds: summed over its runs; None if the stage is not timed separately.
        facts: counts; None if the stage has none.
        skipped: readable reason for skipping it.
    """

    name: StageName
    milliseconds: float | None = None
    facts: StageFacts | None = None
    skipped: str | None = None


class Trace:
    """The stages that a query has reached."""

    def __init__(self) -> None:
        self._stages: dict[StageName, StageTrace] = {}

    @contextmanager
    def timed(self, name: StageName) -> Iterator[None]:
        """Add the duration of the block to a stage, even if the block raises."""
        started = time.perf_counter()
        try:
            with traces.span(name):
                yield
        finally:
            elapsed = (time.perf_counter() - started) * 1000
            stage = self._stage(name)
            stage.milliseconds = round((stage.milliseconds or 0.0) + elapsed, 2)

    def record(self, name: StageName, facts: StageFacts) -> None:
        self._stage(name).facts = facts

    def forget_facts(self) -> None:
        """Remove the counts of all stages."""
        for stage in self._stages.values():
            stage.facts = None

    def skip(self, name: StageName, reason: str) -> None:
        """Record why a stage was skipped, replacing facts that it recorded before it failed."""
        stage = self._stage(name)
        stage.facts, stage.skipped = None, reason

    @property
    def stages(self) -> list[StageTrace]:
        """The stages that were reached, in the order of a query."""
        return [self._stages[name] for name in STAGES if name in self._stages]

    @property
    def milliseconds(self) -> dict[StageName, float]:
        return {stage.name: stage.milliseconds for stage in self.stages if stage.milliseconds is not None}

    @property
    def skipped(self) -> dict[StageName, str]:
        """Why stages were skipped, by stage."""
        return {stage.name: stage.skipped for stage in self.stages if stage.skipped is not None}

    def _stage(self, name: StageName) -> StageTrace:
        return self._stages.setdefault(name, StageTrace(name))
