"""`foreask mcp`: the tools for language models, over standard input and output."""

from __future__ import annotations

import typer

from cli.server import LOCAL, Key, Url

_LOCAL = {"127.0.0.1", "localhost", "::1"}


def register(app: typer.Typer) -> None:
    app.command()(mcp)


def mcp(*, url: Url = LOCAL, key: Key = None) -> None:
    """Serve the Model Context Protocol on standard input and output: search, ask, and what else the key may do."""
    import asyncio

    asyncio.run(_serve(url, key))


async def _serve(url: str, key: str | None) -> None:
    import httpx

    from shared.mcp.server import serve_stdio

    headers = {"authorization": f"Bearer {key}"} if key else {}
    local = httpx.URL(url).host in _LOCAL  # a proxy cannot reach this machine
    timeout = httpx.Timeout(300, connect=5)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, trust_env=not local) as client:
        await serve_stdio(client)
