"""Addresses outside foreask: a tenant's address must not lead into the server's own network."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from shared.domain.errors import InvalidInput

MAX_URL_CHARS = 2_000

_RESOLVE_SECONDS = 5
# An unresponsive name server blocks these threads only, and no other work of the process. It blocks a lookup for up to
# 30 s, which is six rounds of deliveries to 20 webhooks.
_RESOLVERS = ThreadPoolExecutor(128, thread_name_prefix="resolve")
# Running lookups: messages to a host share one, so that a slow host occupies one thread.
_RUNNING: dict[tuple[str, int], Future[list[str]]] = {}
_PORTS = {"http": 80, "https": 443}
# IANA allocates IPv6 addresses of hosts from this network alone. All translated, mapped, site-local and link-local
# addresses are outside it, as are multicast and segment routing.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# The networks of IANA's special-purpose registries, except IPv6 networks outside 2000::/3. The tables include globally
# reachable networks of anycast services, which neither receive webhooks nor serve pages. `is_global` is not used,
# because its result depends on the release of Python.
_SPECIAL_IPV4 = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by the customers of a carrier; metadata of Alibaba Cloud",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "host of virtual machines in Azure; not in a registry",
    "169.254.0.0/16": "link-local; metadata of most clouds",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignments; metadata of Oracle Cloud",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "AS112",
    "192.52.193.0/24": "multicast tunnels (AMT)",
    "192.88.99.0/24": "relays of 6to4",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "AS112",
    "198.18.0.0/15": "benchmarks",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved, and broadcast",
}
_SPECIAL_IPV6 = {
    "2001::/23": "protocol assignments: Teredo, benchmarks, AMT, AS112, ORCHID, DRIP",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4, which is translated to IPv4",
    "2620:4f:8000::/48": "AS112",
    "3fff::/20": "documentation",
}
_IPV4_NETWORKS = tuple(map(IPv4Network, _SPECIAL_IPV4))
_IPV6_NETWORKS = tuple(map(IPv6Network, _SPECIAL_IPV6))


class ForbiddenAddress(Exception):
    """The host has no address, or a forbidden one; the message is a sentence."""


class UnknownHost(ForbiddenAddress):
    """The host's name has no address now: another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """The use of an address, for messages.

    Args:
        name: such as "a webhook".
        example: an address of the right form.
        credentials: remedy for an address with a user name or password, as a clause.
        setting: variable that allows private addresses.
        field: field of the request that contains the address.
    """

    name: str
    example: str
    credentials: str
    setting: str
    field: str = "url"


def parse(url: str, purpose: Purpose) -> SplitResult:
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
        message = f"The address of {purpose.name} must have the form {purpose.example}."
        raise InvalidInput(message, field=purpose.field)
    if "@" in parts.netloc:
        message = f"The address contains a user name or password: {purpose.credentials}."
        raise InvalidInput(message, field=purpose.field)
    return parts


async def resolve(parts: SplitResult, purpose: Purpose, *, private: bool) -> str:
    """Return an address of the host that may be connected to.

    Every address of the host must be public. The caller must connect to the returned address, not to the host's name,
    which may resolve differently.

    Raises:
        UnknownHost: there is none.
        ForbiddenAddress: one of them is private, and private ones are not allowed.
    """
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            # A caller that does not wait any longer must not cancel the lookup of the others.
            addresses = await asyncio.shield(asyncio.wrap_future(_lookup(parts)))
    except TimeoutError as error:
        raise UnknownHost(f"the host's name was not resolved within {_RESOLVE_SECONDS} s") from error
    except (OSError, UnicodeError) as error:
        raise UnknownHost("the host's name has no address") from error
    if not addresses:
        raise UnknownHost("the host's name has no address")
    if not private and not all(map(is_public, addresses)):
        raise ForbiddenAddress(f"the host has a private address, which {purpose.setting} does not allow")
    return addresses[0]


def _lookup(parts: SplitResult) -> Future[list[str]]:
    """Return the running lookup of a host, or start one."""
    key = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    running = _RUNNING.get(key)
    if running is None:
        running = _RUNNING[key] = _RESOLVERS.submit(_addresses, *key)
        running.add_done_callback(lambda _: _RUNNING.pop(key, None))
    return running


def _addresses(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def is_public(address: str) -> bool:
    """Return whether an address is a global unicast address, and not in a network with a special purpose."""
    parsed: IPv4Address | IPv6Address | None = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        if parsed in _GLOBAL_UNICAST:
            return not any(parsed in network for network in _IPV6_NETWORKS)
        parsed = parsed.ipv4_mapped
    return parsed is not None and not any(parsed in network for network in _IPV4_NETWORKS)
