"""The parts shared by roles: each is created on first use, and closed when the process ends."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shared.broker.wakeups import Wakeups
from shared.domain.corpus.index_location import IndexNames
from shared.domain.retry import RetryPolicy
from shared.ledger.ledger import Ledger, StoreTerms
from shared.ledger.postgres.database import Database
from shared.process.identity import instance
from shared.process.telemetry import metrics
from shared.services.limits import limits_of_a_tenant, limits_of_tenants, page_limits
from shared.services.prices import budget_terms
from shared.settings import Embedding, Settings, require

if TYPE_CHECKING:  # the parts below import these when they are made: not every role has them
    from shared.broker.notices import Notices
    from shared.broker.tenant_keys import TenantKeys
    from shared.broker.tenant_use import TenantUse
    from shared.confined.reading import Readers
    from shared.ingest.index.finish import Finisher
    from shared.ingest.options import IngestDefaults
    from shared.ingest.parse.isolation.sandbox import ParsingSandbox
    from shared.ledger.postgres.election import Election
    from shared.maintenance.orphans import Orphans
    from shared.providers.batches import BatchProvider
    from shared.providers.chat import OpenAIChat
    from shared.providers.embedding import OpenAIEmbedder
    from shared.providers.limiter.limiter import Limiter
    from shared.query.calibrate.calibrator import Calibrator
    from shared.services.features import Feature
    from shared.storage.references import Originals
    from shared.storage.uploads import Uploads
    from shared.vectors.index import Index

T = TypeVar("T")


class Parts:
    """Creates each part at most once.

    Args:
        settings: settings of the process.
        stack: closes the parts.
        pool_size: maximum connections to PostgreSQL, unless configured.
        features: the optional features; None for roles that need none of them.
    """

    def __init__(
        self,
        settings: Settings,
        stack: AsyncExitStack,
        *,
        pool_size: int = 10,
        features: Sequence[Feature] | None = None,
    ) -> None:
        self.settings = settings
        self.stack = stack
        self._features = features
        self._pool_size = pool_size
        self._made: dict[Callable[[Parts], Any], Any] = {}

    @property
    def features(self) -> Sequence[Feature]:
        """The optional features.

        Raises:
            ValueError: the process did not pass them: without them, an erasure would leave their rows, and its
                check would not find them.
        """
        if self._features is None:
            raise ValueError("This role needs the features: pass `FEATURES` to `build`.")
        return self._features

    def once(self, make: Callable[[Parts], T]) -> T:
        """Return a part of a feature, which `make` creates on first use."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("T", self._made[make])

    @cached_property
    def database(self) -> Database:
        database = Database(
            require(self.settings.database_url, "FOREASK_DATABASE_URL").get_secret_value(),
            pool_size=self.settings.database_pool_size or self._pool_size,
            timeout=self.settings.tuning.transaction_timeout,
            pooler=self.settings.database_pooler,
        )
        self.stack.push_async_callback(database.aclose)
        metrics.CONNECTIONS.set_function(database.connections)
        metrics.POOL_SIZE.set(self.settings.database_pool_size or self._pool_size)
        return database

    @cached_property
    def ledger(self) -> Ledger:
        settings = self.settings
        terms = StoreTerms(
            worker=self.worker,
            lease=settings.tuning.lease,
            weights=settings.tenant_weights,
            limits=limits_of_tenants(settings),
            other_limits=limits_of_a_tenant(settings),
            page_limits=page_limits(settings),
            budgets=budget_terms(settings),
            index_names=self.index_names,
            embeddings=list(self.embeddings),
            sync_deletion_after=settings.tuning.sync_deletion_after,
        )
        return Ledger(self.database, terms)

    @cached_property
    def election(self) -> Election:
        """The candidacy of this process for the role of the working scheduler."""
        from shared.ledger.postgres.election import Election

        return Election(self.database)

    @cached_property
    def embeddings(self) -> dict[str, Embedding]:
        return self.settings.served_embeddings()

    @cached_property
    def index_names(self) -> IndexNames:
        spaces = {name: embedding.space for name, embedding in self.embeddings.items()}
        return IndexNames(self.settings.qdrant_prefix, spaces)

    @cached_property
    def wakeups(self) -> Wakeups:
        url = require(self.settings.redis_url, "FOREASK_REDIS_URL").get_secret_value()
        tuning = self.settings.tuning
        wakeups = Wakeups(url, timeout=tuning.broker_timeout, pause=tuning.broker_pause)
        self.stack.push_async_callback(wakeups.aclose)
        return wakeups

    @cached_property
    def notices(self) -> Notices:
        from shared.broker.notices import Notices

        url = require(self.settings.redis_url, "FOREASK_REDIS_URL").get_secret_value()
        notices = Notices(url, timeout=self.settings.tuning.broker_timeout)
        self.stack.push_async_callback(notices.aclose)
        return notices

    @cached_property
    def tenant_use(self) -> TenantUse:
        from shared.broker.tenant_use import TenantUse

        use = TenantUse(require(self.settings.redis_url, "FOREASK_REDIS_URL").get_secret_value())
        self.stack.push_async_callback(use.aclose)
        return use

    @cached_property
    def tenant_keys(self) -> TenantKeys:
        from shared.broker.tenant_keys import TenantKeys

        url = require(self.settings.redis_url, "FOREASK_REDIS_URL").get_secret_value()
        keys = TenantKeys(url, timeout=self.settings.tuning.broker_timeout)
        self.stack.push_async_callback(keys.aclose)
        return keys

    @cached_property
    def uploads(self) -> Uploads:
        from shared.ledger.tenants.deployment import DeploymentIdentity
        from shared.storage.opening import open_uploads

        settings = self.settings
        folder = settings.data_dir / "uploads"
        return open_uploads(settings.store_url, settings.store_config(), folder, self.ledger[DeploymentIdentity])

    @cached_property
    def originals(self) -> Originals:
        """The reader of uploads whose bytes were not copied."""
        from shared.storage.references import NoOriginals

        makers = [feature.originals for feature in self.features if feature.originals is not None]
        return makers[0](self) if makers else NoOriginals()

    @cached_property
    def readers(self) -> Readers:
        """Confined processes that read contents of sources."""
        from shared.confined.reading import Readers, ReadLimits

        readers = Readers(ReadLimits(self.settings.parse_timeout, self.settings.tuning.parse_memory_bytes))
        self.stack.push_async_callback(readers.aclose)
        return readers

    @cached_property
    def sandbox(self) -> ParsingSandbox:
        """Confined processes that parse files."""
        from shared.services.parse import sandbox_of

        return sandbox_of(self)

    @cached_property
    def orphans(self) -> Orphans:
        from shared.ledger.documents.documents import Documents
        from shared.ledger.tenants.deployment import DeploymentIdentity
        from shared.maintenance.orphans import Orphans

        return Orphans(self.uploads, self.ledger[Documents], self.ledger[DeploymentIdentity])

    @cached_property
    def ingest_defaults(self) -> IngestDefaults:
        from shared.services.ingest import ingest_defaults

        return ingest_defaults(self.settings, require(self.settings.llm_model, "FOREASK_LLM_MODEL"))

    @cached_property
    def retries(self) -> RetryPolicy:
        tuning = self.settings.tuning
        return RetryPolicy(tuning.max_attempts, tuning.retry_base, tuning.retry_ceiling)

    @cached_property
    def index(self) -> Index:
        from shared.vectors.index import Index
        from shared.vectors.schema.layout import Layout

        settings = self.settings
        urls = settings.qdrant_addresses()
        layout = Layout(
            shards=settings.qdrant_shards,
            replicas=settings.qdrant_replicas,
            write_consistency=settings.qdrant_write_consistency,
            quantization=settings.qdrant_quantization,
            on_disk=settings.qdrant_on_disk,
            hnsw_m=settings.qdrant_hnsw_m,
            hnsw_ef_construct=settings.qdrant_hnsw_ef_construct,
        )
        # Processes start with different addresses, which distributes the load over the nodes.
        notices = self.notices if settings.redis_url is not None else None
        nodes = random.sample(urls, len(urls))
        index = Index(*nodes, api_key=settings.qdrant_api_key, layout=layout, notices=notices)
        self.stack.push_async_callback(index.aclose)
        return index

    @cached_property
    def finisher(self) -> Finisher:
        from shared.ingest.index.finish import Finisher
        from shared.ledger.work.finishing import Finishing
        from shared.ledger.work.leftovers import Leftovers

        return Finisher(self.ledger[Finishing], self.ledger[Leftovers], self.index)

    @cached_property
    def calibrator(self) -> Calibrator:
        from shared.services.query import calibrator_of

        return calibrator_of(self)

    @cached_property
    def chat(self) -> OpenAIChat:
        from shared.services.llm import chat_of

        return chat_of(self.settings, self.stack)

    @cached_property
    def batch_api(self) -> BatchProvider:
        from shared.services.llm import batch_api_of

        return batch_api_of(self.settings, self.stack)

    @cached_property
    def embedders(self) -> dict[str, OpenAIEmbedder]:
        from shared.services.embedders import embedders_of

        return embedders_of(self.settings, self.stack)

    @cached_property
    def llm_limiter(self) -> Limiter:
        from shared.services.llm import llm_limiter_of

        return llm_limiter_of(self.settings, self.chat, self.stack)

    @cached_property
    def embedding_limiters(self) -> dict[str, Limiter]:
        """The limiter of each embedding's provider, by the embedding's name."""
        from shared.services.embedders import embedding_limiter_of

        return {
            name: embedding_limiter_of(self.settings, self.embeddings[name], embedder, self.stack)
            for name, embedder in self.embedders.items()
        }

    @cached_property
    def worker(self) -> str:
        """The name of this process in its claims."""
        return instance()
