"""Roots: the addresses that an operator allows as sources of a tenant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from shared.domain.errors import InvalidInput
from shared.sources.addresses import Address

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
        """Check an address.

        The links of a folder's path are resolved first, so that a link below a root cannot lead out of it.

        Raises:
            InvalidInput: it is not allowed.
        """
        if not self._everything and not any(_is_below(address, root) for root in self._roots):
            problem = f"{address.uri} is not below a root of this tenant"
            raise InvalidInput(f"{problem}: ask the operator to add it to FOREASK_SOURCE_ROOTS.", field="uri")


def real_folder(address: Address) -> Path:
    """Return the path of a `file:` address without links; the folder need not exist."""
    return Path("/", *address.segments).resolve()


def _is_below(address: Address, root: Address) -> bool:
    if address.scheme != "file" or root.scheme != "file":
        return address.is_below(root)
    return real_folder(address).is_relative_to(real_folder(root))
