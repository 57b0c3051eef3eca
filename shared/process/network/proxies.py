"""The proxy of each address, read from the environment in one way for all clients.

`HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY` name proxies, and `NO_PROXY` the addresses without one; names in lower case
precede. This machine and names without a dot, such as a container's, are always connected directly: a proxy cannot
reach them, and texts would leave the machine.
"""

from __future__ import annotations

import os
import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}
_PORT = re.compile(r"\[?(?P<host>[^\[\]]*?)\]?:(?P<port>\d+)")
_SEPARATOR = re.compile(r"[,\s]+")


def proxy_of(url: str) -> str | None:
    """Return the URL of the proxy for an address; None if it is connected directly.

    Raises:
        ValueError: the environment names a proxy that cannot be used; the message is a sentence without its password.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if is_near(host) or _is_exempt(host, parts.port or PORTS.get(parts.scheme)):
        return None
    return named_proxy(parts.scheme)


def named_proxy(scheme: str) -> str | None:
    """Return the URL of the proxy for addresses of a scheme, without regard to their hosts; raises as `proxy_of`."""
    for name in (f"{scheme}_proxy", "all_proxy"):
        if value := _variable(name):
            return _usable(value, name)
    return None


def is_near(host: str) -> bool:
    """Return whether a host is this machine, or a name without a dot, such as a container's."""
    address = _address(host)
    if address is None:
        return "." not in host or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _variable(name: str) -> str:
    """Return the value of a variable; an empty one in lower case hides the one in capitals, as for curl."""
    return (os.environ[name] if name in os.environ else os.environ.get(name.upper(), "")).strip()


def _usable(value: str, name: str) -> str:
    """Return the URL of a proxy; without a scheme it speaks HTTP."""
    url = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    variable = name.upper()
    if valid and parts.scheme.startswith("socks"):
        raise ValueError(
            f"{variable} names a SOCKS proxy, which foreask does not support: name an HTTP proxy, or list the address"
            " in NO_PROXY."
        )
    if not valid or parts.scheme not in PORTS:
        raise ValueError(f"{variable} names no proxy: it must have the form http://host:3128.")
    return url


def _is_exempt(host: str, port: int | None) -> bool:
    return any(_matches(entry.lower(), host, port) for entry in _SEPARATOR.split(_variable("no_proxy")) if entry)


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Return whether an entry of NO_PROXY covers a host: `*`, a name with its subdomains, an address or a range.

    A name or an address may have a port; an IPv6 address with a port has brackets.
    """
    if entry == "*":
        return True
    with_port = _PORT.fullmatch(entry)
    if with_port and (":" not in with_port["host"] or entry.startswith("[")):
        if int(with_port["port"]) != port:
            return False
        entry = with_port["host"]
    entry = entry.strip("[]")
    address = _address(host)
    if address is None:
        name = entry.lstrip("*").strip(".")
        return bool(name) and (host == name or host.endswith(f".{name}"))
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
