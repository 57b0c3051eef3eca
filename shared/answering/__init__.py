"""Answering: from numbered passages alone, with citations, in a generative and an extractive form."""

from shared.answering.answer import NOTHING_FOUND, Answer, Answerer, Form, Passage, nothing_found
from shared.answering.extractive import ExtractiveAnswerer
from shared.answering.generative import GenerativeAnswerer

__all__ = [
    "NOTHING_FOUND",
    "Answer",
    "Answerer",
    "ExtractiveAnswerer",
    "Form",
    "GenerativeAnswerer",
    "Passage",
    "nothing_found",
]
