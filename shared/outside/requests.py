"""Requests to the checked address of a host, whose name may resolve differently a moment later."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult

import httpx

from shared.process import network


def new_client(timeout_seconds: float) -> httpx.AsyncClient:
    """Return a client without redirects, proxies and lasting connections: a proxy would resolve the name itself.

    Each connection leads to an address that was just checked. A connection that stays open could be used for another
    host with the same address, whose certificate was not verified.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(
        verify=network.ssl_context(), trust_env=False, follow_redirects=False, limits=limits, timeout=timeout_seconds
    )


def pinned(
    client: httpx.AsyncClient,
    method: str,
    parts: SplitResult,
    address: str,
    *,
    headers: Mapping[str, str],
    content: bytes | None = None,
) -> httpx.Request:
    """Return a request to a host at this address.

    Args:
        client: client that sends it.
        method: such as GET.
        parts: parts of the URL, with the name of the host.
        address: address of the host, from `resolve`.
        headers: headers, without `host`.
        content: body.
    """
    return client.build_request(
        method,
        httpx.URL(parts.geturl()).copy_with(host=address),
        content=content,
        headers={"host": parts.netloc, **headers},
        extensions={"sni_hostname": parts.hostname or ""},  # the certificate is the name's, not the address's
    )
