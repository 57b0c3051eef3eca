"""Webhooks, as the scheduler and erasures use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING

from shared.ledger.erasure.erased_tables import ErasedTable
from shared.services.features import Feature, Step
from shared.services.parts import Parts

if TYPE_CHECKING:
    from features.webhooks.sender import Sender

_FORGET_EVERY = timedelta(hours=1)
_RETENTION = timedelta(days=30)  # of deliveries: an owner may read them, and send them again


def _steps(parts: Parts) -> Sequence[Step]:
    from features.webhooks.delivery import Deliverer
    from features.webhooks.ledger import DELIVERIES_ARE_DUE, Webhooks

    webhooks = parts.ledger[Webhooks]
    deliver = Deliverer(webhooks, _sender_of(parts)).deliver
    return [
        Step("deliver", parts.settings.tuning.reconcile_interval, deliver, DELIVERIES_ARE_DUE),
        Step("forget_deliveries", _FORGET_EVERY, partial(webhooks.forget, _RETENTION)),
    ]


def _sender_of(parts: Parts) -> Callable[[], Sender]:
    @cache
    def sender() -> Sender:
        from features.webhooks.sender import Sender

        made = Sender(private=parts.settings.webhooks_private_networks)
        parts.stack.push_async_callback(made.aclose)
        return made

    return sender


def _erased_tables() -> Sequence[ErasedTable]:
    from features.webhooks.ledger import ERASED_TABLES

    return ERASED_TABLES


WEBHOOKS = Feature(steps=_steps, erased_tables=_erased_tables)
