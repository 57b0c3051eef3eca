"""Evaluation: strategies are compared over one set, on the same questions and embeddings."""

from evaluation.cache import EvaluationCache
from evaluation.labelled import LabelledSet, read_questions, read_set
from evaluation.run import evaluate
from evaluation.services import EvaluationServices
from shared.query.evaluate.comparison import StrategyDifference, compare
from shared.query.evaluate.strategies import STRATEGIES, Strategy, select_baseline, select_strategies

__all__ = [
    "STRATEGIES",
    "EvaluationCache",
    "EvaluationServices",
    "LabelledSet",
    "Strategy",
    "StrategyDifference",
    "compare",
    "evaluate",
    "read_questions",
    "read_set",
    "select_baseline",
    "select_strategies",
]
