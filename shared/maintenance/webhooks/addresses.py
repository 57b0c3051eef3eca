"""Addresses of webhooks: a tenant's address must not lead into the server's own network."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from shared.domain.errors import InvalidInput

MAX_URL_CHARS = 2_000

_RESOLVE_SECONDS = 5
# An unresponsive name server blocks these threads only, and no other work of the process.
_RESOLVERS = ThreadPoolExecutor(16, thread_name_prefix="resolve")
_PORTS = {"http": 80, "https": 443}
# Addresses that a gateway translates to IPv4, possibly of this network.
_TRANSLATED = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")))


class ForbiddenAddress(Exception):
    """The host has no address, or a forbidden one; the message is a sentence."""


def parse(url: str) -> SplitResult:
    """Return the parts of an address.

    Raises:
        InvalidInput: it is not https:// or http:// with a host, or it contains a name and password.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or len(url) > MAX_URL_CHARS or not url.isascii() or any(c.isspace() or c < " " for c in url):
        raise InvalidInput("The address of a webhook is like https://example.org/hook.", field="url")
    if "@" in parts.netloc:
        raise InvalidInput("The address has a name or password in it: check the signature instead.", field="url")
    return parts


async def resolve(parts: SplitResult, *, private: bool) -> str:
    """Return an address of the host that may be connected to.

    Every address of the host must be public. The caller must connect to the returned address, not to the host's name,
    which may resolve differently.

    Raises:
        ForbiddenAddress: there is none, or one of them is private and private ones are not allowed.
    """
    find = partial(
        socket.getaddrinfo, parts.hostname or "", parts.port or _PORTS[parts.scheme], type=socket.SOCK_STREAM
    )
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().run_in_executor(_RESOLVERS, find)
    except TimeoutError as error:
        raise ForbiddenAddress(f"the host's name was not resolved within {_RESOLVE_SECONDS} s") from error
    except (OSError, UnicodeError) as error:
        raise ForbiddenAddress("the host's name has no address") from error
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses:
        raise ForbiddenAddress("the host's name has no address")
    if not private and not all(map(is_public, addresses)):
        raise ForbiddenAddress("the host has a private address, which FOREASK_WEBHOOKS_PRIVATE does not allow")
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an address is one of the internet, and of one host."""
    parsed: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        elif any(parsed in network for network in _TRANSLATED):
            return False
    return parsed.is_global and not parsed.is_multicast
