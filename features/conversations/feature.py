"""Conversations, as the scheduler and erasures use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from features.conversations.ledger import ERASED_TABLES, Conversations
from shared.services.features import Feature, Step
from shared.services.parts import Parts
from shared.settings import Settings

_FORGET_EVERY = timedelta(minutes=1)


async def forget(conversations: Conversations, settings: Settings) -> bool:
    """Delete some conversations whose retention, key or cited data has ended; return whether more may be due."""
    return await conversations.forget(timedelta(days=settings.conversation_retention_days))


def _steps(parts: Parts) -> Sequence[Step]:
    return [Step("forget_conversations", _FORGET_EVERY, partial(forget, parts.ledger[Conversations], parts.settings))]


CONVERSATIONS = Feature(steps=_steps, erased_tables=ERASED_TABLES)
