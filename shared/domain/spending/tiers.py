"""Service tiers: the price and the urgency at which a provider serves a call."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    """A service tier. The values are stored with costs, and `flex` is sent to providers."""

    STANDARD = "standard"
    FLEX = "flex"  # half the price, slower, and refused while the provider has no capacity left
    BATCH = "batch"  # half the price, within a day


def tier_of_reply(value: object) -> Tier:
    """Return the tier in which a provider served a call, by the field `service_tier` of its reply.

    A reply without the field is of the standard tier, whatever was requested: a provider that ignores the request for
    a tier charges the full price. Tiers above the standard tier (`priority`) are counted as standard.
    """
    return Tier.FLEX if value == "flex" else Tier.STANDARD
