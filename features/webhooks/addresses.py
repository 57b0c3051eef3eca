"""Addresses of webhooks."""

from __future__ import annotations

from functools import partial

from shared.outside import addresses

_PURPOSE = addresses.Purpose(
    name="a webhook",
    example="https://example.org/hook",
    credentials="verify the signature instead",
    setting="FOREASK_WEBHOOKS_PRIVATE_NETWORKS",
)

parse = partial(addresses.parse, purpose=_PURPOSE)
resolve = partial(addresses.resolve, purpose=_PURPOSE)
