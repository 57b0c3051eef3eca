"""Generation: a model writes the questions that each chunk answers; the filter drops the bad ones."""

from shared.ingest.generate.generator import content_key, generate_questions, key_of, requests, strategy_for
from shared.ingest.generate.prompts import PROMPT_VERSION, cache_warning, validate_template
from shared.ingest.generate.quality import FilteredQuestion, filter_by_similarity, filter_by_text, floor_for, normalise
from shared.ingest.generate.types import BadQuestions, GeneratedQuestions, GenerationOptions, QuestionCount, Strategy

__all__ = [
    "PROMPT_VERSION",
    "BadQuestions",
    "FilteredQuestion",
    "GeneratedQuestions",
    "GenerationOptions",
    "QuestionCount",
    "Strategy",
    "cache_warning",
    "content_key",
    "filter_by_similarity",
    "filter_by_text",
    "floor_for",
    "generate_questions",
    "key_of",
    "normalise",
    "requests",
    "strategy_for",
    "validate_template",
]
