"""Qdrant's own client, with which tests read points, and change them without the product."""

from __future__ import annotations

from qdrant_client import AsyncQdrantClient


def qdrant_client(services) -> AsyncQdrantClient:
    """Return a client that keeps no connection between requests, so that it need not be closed.

    It loads no certificates, which would take longer than most requests: the engine speaks plain HTTP.
    """
    return AsyncQdrantClient(url=services.settings.qdrant_url, timeout=60, check_compatibility=False, verify=False)


def is_upsert(method, path) -> bool:
    """Return whether a request of the product writes points."""
    return method == "PUT" and path.endswith("/points?wait=true")
