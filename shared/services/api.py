"""The API: submits and manages documents, and answers questions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from shared.broker.notices import Notices
from shared.broker.tenant_use import TenantUse
from shared.broker.wakeups import Wakeups
from shared.domain.corpus.collections import Collection
from shared.domain.spending.limit_use import LimitUse
from shared.ledger.ledger import Ledger
from shared.ledger.postgres.database import Database
from shared.providers.chat import ChatModel
from shared.providers.embedding import Embedders
from shared.providers.limiter.limiter import Limiter
from shared.providers.limiter.usage import usage_of
from shared.query.answer import Answerer
from shared.query.calibrate.calibrator import Calibrator
from shared.query.retrieve import Retriever
from shared.services.check import Finding, findings
from shared.services.parts import Parts
from shared.services.query import (
    answerer_of,
    condenser_of,
    query_embedders,
    retriever_of,
)
from shared.settings import Embedding, Settings
from shared.storage.uploads import Uploads
from shared.vectors.index import Index


@dataclass(frozen=True, slots=True)
class Limiters:
    """The limits of each provider, which are shared with all workers."""

    llm: Limiter
    embeddings: Mapping[str, Limiter]

    async def usage(self, tenant: str) -> list[LimitUse]:
        """Return the use of every limit, as visible to the tenant. If there are several embeddings, they are named.

        Raises:
            Unavailable: the broker is unavailable.
        """
        uses = await usage_of(self.llm, tenant)
        for name, limiter in self.embeddings.items():
            prefix = f"{name}: " if len(self.embeddings) > 1 else ""
            uses += [replace(use, name=prefix + use.name) for use in await usage_of(limiter, tenant)]
        return uses

    async def of_load(self, tenant: str, embedding: str) -> list[LimitUse]:
        """Return the limits of a load with this embedding; they are unknown if no setting describes it.

        Raises:
            Unavailable: the broker is unavailable.
        """
        limiter = self.embeddings.get(embedding)
        return await usage_of(self.llm, tenant) + (await usage_of(limiter, tenant) if limiter else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """The dependencies of the routes.

    Args:
        parts: the parts of the process, each created on first use, from which a feature makes its own objects.
        answerer_for: returns the answerer for a tenant, which is charged for the calls, and a collection; its third
            argument is whether links written by the model are kept.
        findings: checks every engine and model once, and yields the results.
        condenser_for: returns the model that condenses a conversation into its last question, charged to a tenant;
            None: the last message is used unchanged.
    """

    parts: Parts
    settings: Settings
    database: Database
    ledger: Ledger
    uploads: Uploads
    index: Index
    wakeups: Wakeups
    notices: Notices
    tenant_use: TenantUse
    limiters: Limiters
    embedders: Embedders
    retriever: Retriever
    calibrator: Calibrator
    answerer_for: Callable[[str, Collection | None, bool], Answerer]
    condenser_for: Callable[[str], ChatModel] | None
    findings: Callable[[], AsyncIterator[Finding]]

    @property
    def embeddings(self) -> Mapping[str, Embedding]:
        """The configured embeddings, by name."""
        return self.settings.served_embeddings()


def assemble(parts: Parts) -> ApiServices:
    limiters = Limiters(llm=parts.llm_limiter, embeddings=parts.embedding_limiters)
    return ApiServices(
        parts=parts,
        settings=parts.settings,
        database=parts.database,
        ledger=parts.ledger,
        uploads=parts.uploads,
        index=parts.index,
        wakeups=parts.wakeups,
        notices=parts.notices,
        tenant_use=parts.tenant_use,
        limiters=limiters,
        embedders=query_embedders(parts),
        retriever=retriever_of(parts),
        calibrator=parts.calibrator,
        answerer_for=answerer_of(parts),
        condenser_for=condenser_of(parts),
        findings=partial(findings, parts),
    )
