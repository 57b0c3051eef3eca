"""Checks of every server before it serves."""

from __future__ import annotations

import asyncio
import ipaddress
from urllib.parse import urlsplit

import structlog

from shared.domain.errors import Unavailable
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.revision import require_schema
from shared.services import Role
from shared.services.ingest import require_prices
from shared.settings import Settings, require

log = structlog.get_logger()


async def check_start(settings: Settings, role: Role) -> None:
    """Check conditions that would otherwise fail later, during work.

    An unavailable ledger is not an error, because it may return, as during any outage.

    Raises:
        InvalidInput: this code cannot run on the ledger's schema, no ledger is configured, or a limit in money needs a
            price that is unknown.
    """
    if role in ("api", "generate"):
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
    host = parts.hostname or ""
    if parts.scheme != "http" or not {".", ":"} & set(host):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return not host.endswith(".localhost")
