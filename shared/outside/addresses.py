"""Addresses outside foreask: a tenant's address must not lead into the server's own network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from shared.domain.errors import InvalidInput

MAX_URL_CHARS = 2_000

_RESOLVE_SECONDS = 5
# An unresponsive name server blocks these threads only, and no other work of the process. It blocks a lookup for up to
# 30 s.
_RESOLVERS = ThreadPoolExecutor(128, thread_name_prefix="resolve")
# Running lookups: messages to a host share one, so that a slow host occupies one thread.
_RUNNING: dict[tuple[str, int], Future[list[str]]] = {}
_PORTS = {"http": 80, "https": 443}
# IANA allocates IPv6 addresses of hosts from this network alone. All translated, mapped, site-local and link-local
# addresses are outside it, as are multicast and segment routing.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# The networks of IANA's special-purpose registries, except IPv6 networks outside 2000::/3. The tables include globally
# reachable networks of anycast services, which neither receive messages nor serve pages. `is_global` is not used,
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
# Networks that are never visited, whatever the operator allows: a request to them can return the credentials of this
# machine. No site, repository or database has such an address.
_NEVER_VISITED = {
    "169.254.0.0/16": "link-local; metadata of most clouds",
    "100.100.100.200/32": "metadata of Alibaba Cloud",
    "168.63.129.16/32": "host of virtual machines in Azure",
    "192.0.0.192/32": "metadata of Oracle Cloud",
    "fe80::/10": "link-local",
    "fd00:ec2::/32": "metadata and time of Amazon Web Services",
    "fd20:ce::254/128": "metadata of Google Cloud",
}
# IPv6 networks whose addresses contain an IPv4 address, which the network may deliver to. Each tuple has the positions
# of its bytes; the prefix of the last network may have any of these lengths (RFC 6052, 2.2; RFC 8215).
_WITH_IPV4 = {
    "::/96": [(12, 13, 14, 15)],  # IPv4-compatible
    "::ffff:0:0/96": [(12, 13, 14, 15)],  # IPv4-mapped
    "::ffff:0:0:0/96": [(12, 13, 14, 15)],  # IPv4-translated
    "64:ff9b::/96": [(12, 13, 14, 15)],  # NAT64
    "2002::/16": [(2, 3, 4, 5)],  # 6to4
    "64:ff9b:1::/48": [(6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15)],  # NAT64 of an own network
}
_IPV4_NETWORKS = tuple(map(IPv4Network, _SPECIAL_IPV4))
_IPV6_NETWORKS = tuple(map(IPv6Network, _SPECIAL_IPV6))
_NEVER_NETWORKS = tuple(map(ip_network, _NEVER_VISITED))
_IPV4_POSITIONS = tuple((IPv6Network(network), positions) for network, positions in _WITH_IPV4.items())


class ForbiddenAddress(Exception):
    """The host has no address, or a forbidden one; the message is a sentence."""


class UnknownHost(ForbiddenAddress):
    """The host's name has no address now: another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """The use of an address, for messages.

    Args:
        name: such as "a page".
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
    """Return an address of the host that may be connected to; raises as `resolve_host`."""
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    return (await resolve_host(host, port, private=private, setting=purpose.setting))[0]


async def resolve_host(host: str, port: int, *, private: bool, setting: str) -> list[str]:
    """Return the addresses of a host, in the order of preference. There is at least one.

    The caller must connect to a returned address, not to the host's name, which may resolve differently.

    Args:
        host: name or address of the host.
        port: port of the host.
        private: whether private addresses are allowed. Addresses that can return credentials of this machine never are.
        setting: variable that allows private addresses.

    Raises:
        UnknownHost: there is none.
        ForbiddenAddress: one of them may not be visited.
    """
    with _lookup_errors():
        async with asyncio.timeout(_RESOLVE_SECONDS):
            # A caller that does not wait any longer must not cancel the lookup of the others.
            found = await asyncio.shield(asyncio.wrap_future(_lookup(host, port)))
    return _permitted(found, private=private, setting=setting)


def resolve_host_in_thread(host: str, port: int, *, private: bool, setting: str) -> list[str]:
    """Return the same as `resolve_host`, for a thread without an event loop."""
    with _lookup_errors():
        found = _lookup(host, port).result(_RESOLVE_SECONDS)
    return _permitted(found, private=private, setting=setting)


@contextmanager
def _lookup_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise UnknownHost(f"the host's name was not resolved within {_RESOLVE_SECONDS} s") from error
    except (OSError, UnicodeError) as error:
        raise UnknownHost("the host's name has no address") from error


def _permitted(found: list[str], *, private: bool, setting: str) -> list[str]:
    if not found:
        raise UnknownHost("the host's name has no address")
    if not private and not all(map(is_public, found)):
        raise ForbiddenAddress(f"the host has a private address, which {setting} does not allow")
    if any(map(is_never_visited, found)):
        raise ForbiddenAddress("the host has a link-local address or one of a cloud's metadata, which is never visited")
    return found


def _lookup(host: str, port: int) -> Future[list[str]]:
    """Return the running lookup of a host, or start one."""
    running = _RUNNING.get((host, port))
    if running is None:
        running = _RUNNING[host, port] = _RESOLVERS.submit(_addresses, host, port)
        running.add_done_callback(lambda _: _RUNNING.pop((host, port), None))
    return running


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(address: str) -> bool:
    """Return whether an address is a global unicast address, and not in a network with a special purpose."""
    parsed: IPv4Address | IPv6Address | None = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        if parsed in _GLOBAL_UNICAST:
            return not any(parsed in network for network in _IPV6_NETWORKS)
        parsed = parsed.ipv4_mapped
    return parsed is not None and not any(parsed in network for network in _IPV4_NETWORKS)


def is_never_visited(address: str) -> bool:
    """Return whether an address can return credentials of this machine, in any form that leads to it."""
    parsed = ip_address(address.partition("%")[0])
    return any(each in network for each in (parsed, *_translated(parsed)) for network in _NEVER_NETWORKS)


def _translated(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses to which a network may translate an IPv6 address."""
    for network, each in _IPV4_POSITIONS:
        if address in network:
            yield from (IPv4Address(bytes(address.packed[at] for at in positions)) for positions in each)
