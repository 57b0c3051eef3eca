"""Clean up as the scheduler does."""

from __future__ import annotations

from features.feedback.ledger.feedback import Feedback
from features.feedback.retraction import delete_retracted
from shared.services.all import AllServices


async def clean(services: AllServices) -> None:
    """Do each step of the cleanup once, and delete the points of retracted questions."""
    await services.cleaner.clean()
    await delete_retracted(services.ledger[Feedback], services.index)
