"""Evaluations, as index workers and erasures use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.domain.jobs import JobKind
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.services.features import Feature
from shared.services.parts import Parts

if TYPE_CHECKING:
    from features.evaluation.job import EvaluationWork


def _work(parts: Parts) -> EvaluationWork:
    from features.evaluation.job import EvaluationWork
    from features.evaluation.ledger.evaluations import Evaluations
    from shared.ledger.builds.builds import Builds
    from shared.ledger.model.collections import Collections
    from shared.services.query import evaluated_retriever_of

    ledger = parts.ledger
    return EvaluationWork(ledger[Evaluations], ledger[Collections], ledger[Builds], evaluated_retriever_of(parts))


def _erased_tables() -> Sequence[ErasedTable]:
    from features.evaluation.ledger.labelled_sets import ERASED_TABLES

    return ERASED_TABLES


EVALUATION = Feature(erased_tables=_erased_tables, jobs={JobKind.EVALUATION: _work})
