"""Conversations: the language model rewrites the last message so that it is understood without the others."""

from __future__ import annotations

from collections.abc import Sequence

from shared.query.condense import CondensedQuestion, Turn, condense
from shared.services.api import ApiServices


async def last_question(tenant: str, turns: Sequence[Turn], services: ApiServices) -> CondensedQuestion:
    """Return the last question of a conversation; unchanged if no model writes answers."""
    if services.condenser_for is None:
        return CondensedQuestion(turns[-1].text)
    return await condense(services.condenser_for(tenant), turns)
