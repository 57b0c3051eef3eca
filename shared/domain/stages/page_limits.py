"""The limits of tenants for pages that are read by OCR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The maximum number of pages that are read for a tenant on a day in UTC; None: unlimited.

    Args:
        of_tenants: limits of tenants that have their own.
        of_others: limit of every other tenant.
    """

    of_tenants: Mapping[str, int | None] = field(default_factory=dict)
    of_others: int | None = None

    @property
    def exist(self) -> bool:
        return any(limit is not None for limit in (*self.of_tenants.values(), self.of_others))

    def for_tenant(self, tenant: str) -> int | None:
        return self.of_tenants.get(tenant, self.of_others)
