"""Roots: the addresses that an operator allows as sources of a tenant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from shared.domain.errors import InvalidInput
from shared.settings.source_addresses import OF_FOLDERS, Address

EVERYTHING = "*"


class Roots:
    """The allowed addresses of a tenant; without any, no address is allowed.

    Args:
        prefixes: URIs; an address is allowed if it is one of them or below it. `*` allows every address.

    Raises:
        InvalidInput: a prefix is not a URI.
    """

    def __init__(self, prefixes: Iterable[str] = ()) -> None:
        given = list(prefixes)
        self._everything = EVERYTHING in given
        self._roots = [Address.parse(prefix) for prefix in given if prefix != EVERYTHING]

    def require(self, address: Address) -> None:
        """Check an address, which must be `without_links`.

        Raises:
            InvalidInput: it is not allowed.
        """
        if not self._everything and not any(address.is_below(without_links(root)) for root in self._roots):
            problem = f"{address.uri} is not below a root of this tenant"
            raise InvalidInput(f"{problem}: ask the operator to add it to FOREASK_SOURCE_ROOTS.", field="uri")

    def permits(self, uri: str) -> bool:
        """Return whether the address of a server, such as the target of a redirect, is allowed."""
        try:
            self.require(Address.parse(uri))
        except InvalidInput:
            return False
        return True


def without_links(address: Address) -> Address:
    """Return an address whose path has no links, so that a link below a root cannot lead out of it.

    Only paths of folders have links. A folder that does not exist has none.

    Raises:
        InvalidInput: the links lead to themselves.
    """
    if address.scheme not in OF_FOLDERS:
        return address
    try:
        path = Path("/", *address.segments).resolve()
    except (OSError, RuntimeError):
        raise InvalidInput("The address has a link that leads to itself.", field="uri") from None
    return replace(address, segments=path.parts[1:])
