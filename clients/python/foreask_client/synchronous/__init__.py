"""The client for programs without asyncio, generated from `foreask_client.asynchronous`: do not edit."""

from foreask_client.synchronous.client import Client

__all__ = ["Client"]
