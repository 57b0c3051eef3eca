"""`foreask-mcp`: serve the tools over standard input and output."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreask_client import AsyncClient

LOCAL = "http://127.0.0.1:8350"
DEFAULT = "default"
_TIMEOUT_SECONDS = 300.0


def run() -> None:
    """Run the command. An invalid URL is reported as one sentence on stderr, with exit code 1."""
    parser = argparse.ArgumentParser(
        prog="foreask-mcp", description="Serve the documents of a foreask server as MCP tools, over stdin and stdout."
    )
    parser.add_argument(
        "--url", default=os.environ.get("FOREASK_URL", LOCAL), help=f"URL of the server; FOREASK_URL; default: {LOCAL}"
    )
    parser.add_argument("--key", default=os.environ.get("FOREASK_API_KEY"), help="API key; FOREASK_API_KEY")
    parser.add_argument(
        "--token",
        default=os.environ.get("FOREASK_TOKEN"),
        help="signed token of a person instead of a key; FOREASK_TOKEN",
    )
    parser.add_argument("--as-user", help="act for this user; the key needs the scope delegate")
    parser.add_argument("--as-groups", default="", help="groups of this user, separated by commas")
    parser.add_argument(
        "--collection",
        default=os.environ.get("FOREASK_COLLECTION", DEFAULT),
        help=f"collection of calls that name none; FOREASK_COLLECTION; default: {DEFAULT}",
    )
    options = parser.parse_args()
    groups = tuple(group for group in options.as_groups.split(",") if group)
    try:
        client = client_of(options.url, options.token or options.key, options.as_user, groups)
    except ValueError as error:
        sys.exit(str(error))
    serve(client, options.collection)


def client_of(url: str, key: str | None, user: str | None = None, groups: Sequence[str] = ()) -> AsyncClient:
    """Return the client that the tools use.

    Args:
        url: the server's URL.
        key: API key, or the signed token of a person; None if the server requires none.
        user: name of the person for whom the key acts.
        groups: groups of this person.

    Raises:
        ValueError: the URL is not a valid HTTP URL, or there are groups without a user.
    """
    from foreask_client import AsyncClient  # noqa: PLC0415  --help does not need it

    return AsyncClient(url, key, user=user, groups=groups, timeout_seconds=_TIMEOUT_SECONDS, attempts=1)


def serve(client: AsyncClient, collection: str) -> None:
    """Serve standard input and output until it ends, then close the client.

    Args:
        client: the client that the tools use.
        collection: the collection of calls that name none.
    """
    asyncio.run(_serve(client, collection))


async def _serve(client: AsyncClient, collection: str) -> None:
    from foreask_mcp.server import serve_stdio  # noqa: PLC0415  the SDK takes 0.3 s to load

    async with client:
        await serve_stdio(client, collection)
