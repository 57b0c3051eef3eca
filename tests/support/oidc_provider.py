"""The OpenID provider of the package `oidc-provider-mock`, as a process, and a person who signs in there."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import orjson

from embedded.ports import free_port
from tests.support.api import WITHOUT_CERTIFICATES
from tests.support.waiting import TIMEOUT_SECONDS


@asynccontextmanager
async def providing(*users: Mapping[str, Any], token_seconds: int = 3_600) -> AsyncIterator[str]:
    """Run the provider with users, whose claims are given, and yield its address."""
    port = free_port()
    arguments = [argument for user in users for argument in ("--user-claims", orjson.dumps(user).decode())]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--token-max-age", str(token_seconds)),
        *arguments,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        await _answering(url, process)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def signed_in(address: str, user: str) -> Mapping[str, str]:
    """Sign in as a user at an address of the provider; return the parameters with which it sends the person back."""
    async with _client() as client:
        assert (await client.get(address)).status_code == 200
        reply = await client.post(address, data={"sub": user})
        assert reply.status_code == 302, reply.text
        query = parse_qs(urlsplit(reply.headers["location"]).query)
        return {name: values[0] for name, values in query.items()}


async def _answering(url: str, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS), _client() as client:
        while True:
            assert process.returncode is None
            try:
                await client.get(f"{url}/jwks")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=TIMEOUT_SECONDS)
