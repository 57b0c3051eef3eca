"""Leases on claimed rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim on a row. A settlement with an outdated token has no effect."""

    id: UUID
    version: int
    token: int


@dataclass(frozen=True, slots=True)
class LeaseExtension:
    """The result of an extension of leases, as fencing tokens. A lease whose token is in neither set is lost.

    Args:
        extended: extended leases.
        locked: valid leases that were not extended, because another transaction has locked their rows.
    """

    extended: Collection[int]
    locked: Collection[int] = ()
