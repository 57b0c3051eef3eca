"""Evaluation: strategies run over one set on the same questions and embeddings, and what they are worth."""

from shared.evaluation.comparison import Change, changes
from shared.evaluation.kept import Kept
from shared.evaluation.labelled import LabelledSet, read
from shared.evaluation.run import evaluate
from shared.evaluation.strategies import BASELINE, STRATEGIES, Strategy, chosen
from shared.evaluation.tools import Tools

__all__ = [
    "BASELINE",
    "STRATEGIES",
    "Change",
    "Kept",
    "LabelledSet",
    "Strategy",
    "Tools",
    "changes",
    "chosen",
    "evaluate",
    "read",
]
