"""Evaluation: strategies run over one set on the same questions and embeddings, and what they are worth."""

from shared.evaluation.comparison import Change, changes
from shared.evaluation.kept import Kept
from shared.evaluation.labelled import LabelledSet, read, read_questions
from shared.evaluation.run import evaluate
from shared.evaluation.strategies import STRATEGIES, Strategy, baseline_of, chosen
from shared.evaluation.tools import Tools

__all__ = [
    "STRATEGIES",
    "Change",
    "Kept",
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
