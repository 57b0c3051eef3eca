"""Conversations, as the scheduler and erasures use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from shared.ledger.erasure.erased_tables import ErasedTable
from shared.services.features import Feature, Step
from shared.services.parts import Parts
from shared.settings import Settings

if TYPE_CHECKING:
    from features.conversations.ledger import Conversations

_FORGET_EVERY = timedelta(minutes=1)


async def forget(conversations: Conversations, settings: Settings) -> bool:
    """Delete some conversations whose retention, key or cited data has ended; return whether more may be due."""
    return await conversations.forget(timedelta(days=settings.conversation_retention_days))


def _steps(parts: Parts) -> Sequence[Step]:
    from features.conversations.ledger import Conversations

    return [Step("forget_conversations", _FORGET_EVERY, partial(forget, parts.ledger[Conversations], parts.settings))]


def _erased_tables() -> Sequence[ErasedTable]:
    from features.conversations.ledger import ERASED_TABLES

    return ERASED_TABLES


CONVERSATIONS = Feature(steps=_steps, erased_tables=_erased_tables)
