"""Evaluation: strategies run over one set on the same questions and embeddings, and what they are worth."""

from evaluation.cache import EvaluationCache
from evaluation.comparison import Change, changes
from evaluation.labelled import LabelledSet, read, read_questions
from evaluation.run import evaluate
from evaluation.strategies import STRATEGIES, Strategy, baseline_of, chosen
from evaluation.tools import Tools

__all__ = [
    "STRATEGIES",
    "Change",
    "EvaluationCache",
    "LabelledSet",
    "Strategy",
    "Tools",
    "baseline_of",
    "changes",
    "chosen",
    "evaluate",
    "read",
    "read_questions",
]
