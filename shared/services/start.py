"""Checks of every server before it serves."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import structlog

from shared.domain.errors import InvalidInput, Unavailable
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.revision import require_schema
from shared.process import network
from shared.process.network.certificates import unusable_variable
from shared.process.network.proxies import is_near
from shared.services import Role
from shared.services.prices import require_prices
from shared.settings import Settings, require

log = structlog.get_logger()


async def check_start(settings: Settings, role: Role) -> None:
    """Check conditions that would otherwise fail later, during work.

    An unavailable ledger is not an error, because it may return, as during any outage.

    Raises:
        InvalidInput: this code cannot run on the ledger's schema, no ledger is configured, or a limit in money needs a
            price that is unknown.
    """
    check_network(settings)
    if role in ("api", "generate", "ingest"):
        await _check_prices(settings)
    if role == "api" and settings.qdrant_api_key is not None:
        for url in filter(travels_openly, settings.qdrant_addresses()):
            log.warning("qdrant.key_without_tls", host=urlsplit(url).hostname)
    url = require(settings.database_url, "FOREASK_DATABASE_URL").get_secret_value()
    database = Database(url, pool_size=1, pooler=settings.database_pooler)
    try:
        await require_schema(database)
    except Unavailable as error:
        log.warning("schema.unchecked", reason=error.message)
    finally:
        await database.aclose()


def check_network(settings: Settings) -> None:
    """Check the variables of the network, and warn about addresses that most servers do not have.

    Raises:
        InvalidInput: a file of certificates is missing, or a proxy cannot be used.
    """
    if (name := unusable_variable()) is not None:
        raise InvalidInput(f"{name} names a file that does not exist.", field=name)
    qdrant = settings.qdrant_addresses() if settings.qdrant_url else []
    models = model_urls(settings)
    try:
        for url in (*models.values(), *(url for url in qdrant if url.startswith("https:"))):
            network.proxy_of(url)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    for component, url in models.items():
        if (hint := hint_of(url)) is not None:
            log.warning("provider.unusual_address", component=component, hint=hint)


def model_urls(settings: Settings) -> dict[str, str]:
    """Return the base URLs of the models in use, by component and name."""
    urls = {"llm": settings.llm_url if settings.llm_model else None, "rerank": settings.rerank_base_url}
    urls |= {f"embedding {name}": embedding.base_url for name, embedding in settings.served_embeddings().items()}
    return {component: url for component, url in urls.items() if url}


def hint_of(url: str) -> str | None:
    """Return the part that a base URL of a model server may lack, as a sentence; None if it looks complete."""
    if urlsplit(url).path.strip("/"):
        return None
    return "its base URL has no path; most servers need /v1 at its end"


async def _check_prices(settings: Settings) -> None:
    """Check that limits in money can be kept.

    Raises:
        InvalidInput: they cannot, because the price of a model is unknown.
    """
    for name in ("cost_per_day", "query_cost_per_day"):
        if any(getattr(limits, name) is not None for limits in settings.tenant_limits.values()):
            # list prices are loaded once, which takes 0.3 s
            await asyncio.to_thread(require_prices, settings, f"{name} in FOREASK_TENANT_LIMITS")


def travels_openly(url: str) -> bool:
    """Return whether requests to a URL without TLS leave this machine and its containers' networks.

    A name without a dot is a container, or a machine of the same network.
    """
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_near(parts.hostname or "")
