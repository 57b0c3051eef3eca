"""Answering: only from numbered passages, with citations, in a generative and an extractive form."""

from shared.query.answer.answer import (
    NOTHING_FOUND,
    Answer,
    Answerer,
    Form,
    IncompleteReason,
    Passage,
    Support,
    nothing_found,
)
from shared.query.answer.certainty import unrelated_cosine
from shared.query.answer.extractive import ExtractiveAnswerer
from shared.query.answer.generative import GenerativeAnswerer

__all__ = [
    "NOTHING_FOUND",
    "Answer",
    "Answerer",
    "ExtractiveAnswerer",
    "Form",
    "GenerativeAnswerer",
    "IncompleteReason",
    "Passage",
    "Support",
    "nothing_found",
    "unrelated_cosine",
]
