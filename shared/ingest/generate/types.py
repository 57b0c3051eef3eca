"""The input, the options and the result of generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared.domain.corpus.chunks import ChunkContent, ChunkContext
from shared.domain.errors import BadReply
from shared.domain.spending.usage import Usage

Strategy = Literal["list", "per-question"]
QuestionCount = int | Literal["auto"]

_CHARS_PER_QUESTION = 200
_FEWEST, _MOST = 3, 10
_SMALL_MODELS = ("smollm2-135m", "smollm2-360m")


def strategy_for(model_name: str) -> Strategy:
    """Return the strategy for a model: `per-question` for very small models, `list` for all others."""
    return "per-question" if model_name.lower().startswith(_SMALL_MODELS) else "list"


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options of generation.

    Args:
        strategy: the number of calls of a chunk: one for all questions, or one for each.
        questions_per_chunk: number of questions.
        template: replaces the strategy's default prompt.
        context: whether the call also writes a line of context and search terms; see `writes_context`.
    """

    strategy: Strategy = "list"
    questions_per_chunk: QuestionCount = "auto"
    template: str | None = None
    context: bool = False

    def count_for(self, content: ChunkContent) -> int:
        """Return the number of questions to generate: as configured, or one per 200 characters, from 3 to 10."""
        if self.questions_per_chunk != "auto":
            return self.questions_per_chunk
        return min(_MOST, max(_FEWEST, round(len(content.text) / _CHARS_PER_QUESTION)))

    def writes_context(self, content: ChunkContent) -> bool:
        """Return whether the call for a chunk also writes its context.

        A very small model cannot write it, and a picture has a description instead.
        """
        return self.context and self.strategy == "list" and content.picture is None


@dataclass(frozen=True, slots=True)
class PromptInUse:
    """The prompt that is sent for a text.

    Args:
        template: the prompt with its placeholders, which a collection may replace.
        instructions: the fixed instructions next to it.
        version: version of the instructions and of the repair of replies.
    """

    template: str
    instructions: str
    version: str


@dataclass(frozen=True, slots=True)
class GeneratedQuestions:
    """The model's unfiltered questions.

    Args:
        questions: the questions.
        usage: tokens billed for all calls together.
        calls: number of calls.
        text: a picture's description.
        faults: faults of earlier replies that were repaired.
        context: the chunk's context; None if it was not requested, or the reply has none.
    """

    questions: tuple[str, ...]
    usage: Usage
    calls: int
    text: str | None = None
    faults: tuple[str, ...] = ()
    context: ChunkContext | None = None


class BadQuestions(BadReply):
    """The model's replies contained no questions after repairs.

    `usage` and `calls` were billed anyway; `faults` has the fault of each reply.
    """

    def __init__(self, message: str, *, usage: Usage, calls: int, faults: tuple[str, ...]) -> None:
        super().__init__(message)
        self.usage = usage
        self.calls = calls
        self.faults = faults
