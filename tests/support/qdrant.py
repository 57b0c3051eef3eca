"""Qdrant's own client, with which tests read points, and change them without the product."""

from __future__ import annotations

from functools import cache

from qdrant_client import AsyncQdrantClient

from shared.settings import Settings


def qdrant_client(services) -> AsyncQdrantClient:
    """Return a client that keeps no connection between requests, so that it need not be closed."""
    return _client(services.settings.qdrant_url, **headers_of(services.settings))


def headers_of(settings: Settings) -> dict[str, str]:
    """Return the header with Qdrant's key, if it has one."""
    return {} if settings.qdrant_api_key is None else {"api-key": settings.qdrant_api_key.get_secret_value()}


@cache
def _client(url: str, **headers: str) -> AsyncQdrantClient:
    """Return the client of a server: a new one takes longer than most requests.

    The key is a header, because the client warns of a key without TLS. It loads no certificates, which would take as
    long again: the engine speaks plain HTTP.
    """
    return AsyncQdrantClient(url=url, headers=headers, timeout=60, check_compatibility=False, verify=False)


def is_upsert(method, path) -> bool:
    """Return whether a request of the product writes points."""
    return method == "PUT" and path.endswith("/points?wait=true")
