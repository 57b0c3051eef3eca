"""Asking: a model writes the questions that each chunk answers; what is not worth keeping is screened out."""

from shared.ingest.generate.generator import ask, content_key, strategy_for
from shared.ingest.generate.prompts import PROMPT_VERSION, validate_template
from shared.ingest.generate.quality import Screened, apply_similarity, floor_for, normalise, screen
from shared.ingest.generate.types import Asked, AskingOptions, BadQuestions, QuestionCount, Strategy, Subject

__all__ = [
    "PROMPT_VERSION",
    "Asked",
    "AskingOptions",
    "BadQuestions",
    "QuestionCount",
    "Screened",
    "Strategy",
    "Subject",
    "apply_similarity",
    "ask",
    "content_key",
    "floor_for",
    "normalise",
    "screen",
    "strategy_for",
    "validate_template",
]
