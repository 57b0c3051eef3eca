"""The API: documents are handed in and looked after, and questions are answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.broker.wakeups import Wakeups
from shared.estimates.estimator import Estimator
from shared.ledger import Ledger
from shared.ledger.database import Database
from shared.providers.limiter.limiter import Limiter
from shared.providers.limiter.usage import LimitUse
from shared.query.answer import Answerer
from shared.query.calibrate.calibrator import Calibrator
from shared.query.retrieve import Retriever
from shared.services.parts import Parts
from shared.services.query import answerer_of, calibrator_of, retriever_of
from shared.settings import Settings
from shared.storage.uploads import Uploads
from shared.vectors.index import Index


@dataclass(frozen=True, slots=True)
class Limiters:
    """The limits of each provider, shared with the whole pool."""

    llm: Limiter
    embedding: Limiter
    embedding_name: str

    async def usage(self, tenant: str) -> list[LimitUse]:
        """How much of every limit is used, as the tenant may see it.

        Raises:
            Unavailable: the broker is away.
        """
        return await self.llm.usage(tenant) + await self.embedding.usage(tenant)

    async def of_load(self, tenant: str, embedding: str) -> list[LimitUse]:
        """The limits of a load that is embedded with this model.

        Raises:
            Unavailable: the broker is away.
        """
        return await self.usage(tenant) if embedding == self.embedding_name else await self.llm.usage(tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """What the routes use.

    Args:
        answerer_for: the answerer of a tenant, on whose account it calls the language model.
    """

    settings: Settings
    database: Database
    ledger: Ledger
    uploads: Uploads
    index: Index
    wakeups: Wakeups
    limiters: Limiters
    estimator: Estimator
    retriever: Retriever
    calibrator: Calibrator
    answerer_for: Callable[[str], Answerer]


def assemble(parts: Parts) -> ApiServices:
    limiters = Limiters(parts.llm_limiter, parts.embedding_limiter, parts.embedder.name)
    ledger = parts.ledger
    estimator = Estimator(parts.settings, ledger.collections, ledger.estimates, parts.chat.name, limiters.of_load)
    return ApiServices(
        settings=parts.settings,
        database=parts.database,
        ledger=ledger,
        uploads=parts.uploads,
        index=parts.index,
        wakeups=parts.wakeups,
        limiters=limiters,
        estimator=estimator,
        retriever=retriever_of(parts),
        calibrator=calibrator_of(parts),
        answerer_for=answerer_of(parts),
    )
