"""The stores of a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

from shared.domain.corpus.index_location import IndexNames
from shared.domain.spending.budgets import BudgetTerms
from shared.domain.spending.rates import Rates
from shared.domain.stages.page_limits import PageLimits
from shared.ledger.postgres.database import Database

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTerms:
    """The terms of a process that some stores need in addition to its database.

    Args:
        worker: name of the process in its claims.
        lease: duration of a claim.
        weights: weights of tenants that differ from 1.
        limits: limits of tenants for the language model.
        other_limits: limits of every other tenant.
        page_limits: limits of tenants for pages.
        budgets: prices and the budgets of the settings.
        index_names: the Qdrant collections of the served embeddings.
        embeddings: names of the served embeddings.
        sync_deletion_after: time between two listings that must both lack an item before it is deleted.
    """

    worker: str
    lease: timedelta
    weights: Mapping[str, float]
    limits: Mapping[str, Rates]
    other_limits: Rates
    page_limits: PageLimits
    budgets: BudgetTerms
    index_names: IndexNames
    embeddings: Sequence[str]
    sync_deletion_after: timedelta


@runtime_checkable
class _StoreWithTerms(Protocol):
    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self: ...


class Ledger:
    """The stores of a process: `ledger[Documents]` is made on first use.

    A store is named by its class, so a process imports the stores that it uses, and no others.

    Args:
        database: the ledger's database.
        terms: the terms of the process.
    """

    def __init__(self, database: Database, terms: StoreTerms) -> None:
        self._database = database
        self._terms = terms
        self._stores: dict[type, Any] = {}

    def __getitem__(self, kind: type[S]) -> S:
        if kind not in self._stores:
            self._stores[kind] = self._make(kind)
        return cast("S", self._stores[kind])

    def _make(self, kind: type[Any]) -> object:
        if issubclass(kind, _StoreWithTerms):
            return kind.of_process(self._database, self._terms)
        return kind(self._database)
