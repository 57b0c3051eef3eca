"""Hosts of sources that are not pages: their names are resolved and checked, and connections use a checked address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from features.sources.errors import COMPONENT
from shared.domain.errors import Misconfigured, Unavailable
from shared.outside import addresses

PRIVATE_SETTING = "FOREASK_SOURCES_PRIVATE_NETWORKS"


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that a source may reach.

    Args:
        private: whether private addresses are allowed.
        permits: whether the operator allows an address, such as `git+https://host/path`, for the tenant and the secret.
    """

    private: bool = False
    permits: Callable[[str], bool] = lambda _: True

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, to one of which the caller must connect.

        Raises:
            Misconfigured: one of them may not be visited.
            Unavailable: the host has no address now.
        """
        with _converted(host):
            return await addresses.resolve_host(host, port, private=self.private, setting=PRIVATE_SETTING)

    def addresses_in_thread(self, host: str, port: int) -> list[str]:
        """Return the same as `addresses`, for a thread without an event loop."""
        with _converted(host):
            return addresses.resolve_host_in_thread(host, port, private=self.private, setting=PRIVATE_SETTING)


@contextmanager
def _converted(host: str) -> Iterator[None]:
    try:
        yield
    except addresses.UnknownHost as error:
        raise Unavailable(f"{host} cannot be reached: {error}.", component=COMPONENT) from error
    except addresses.ForbiddenAddress as error:
        raise Misconfigured(f"{host} cannot be reached: {error}.", component=COMPONENT) from error
