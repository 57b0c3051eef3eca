"""Conversations: the last message is searched so that it is understood without the others."""

from __future__ import annotations

from collections.abc import Sequence

from shared.query.condense import CondensedQuestion, Turn, condense, joined
from shared.services.api import ApiServices


async def last_question(tenant: str, turns: Sequence[Turn], services: ApiServices) -> CondensedQuestion:
    """Return the last question of a conversation so that it is understood alone, with a model if one writes answers."""
    if services.condenser_for is None:
        return joined(turns)
    return await condense(services.condenser_for(tenant), turns)
