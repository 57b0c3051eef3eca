"""The part of a tenant's documents that a caller can find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Restriction:
    """Conditions that hold for every document of a caller, whatever the caller sends.

    Args:
        filter: filter over metadata, of a key; None: none.
        principals: the readers that a person matches (see `shared.domain.access.persons`); None: a key, which reads
            every document.
    """

    filter: Mapping[str, Any] | None = None
    principals: tuple[str, ...] | None = None

    @property
    def is_partial(self) -> bool:
        """Whether there may be documents of the tenant that the caller must not know of."""
        return self.filter is not None or self.principals is not None


UNRESTRICTED = Restriction()
