"""The client for programs that use asyncio. The synchronous client is generated from this package."""

from foreask_client.asynchronous.client import AsyncClient

__all__ = ["AsyncClient"]
