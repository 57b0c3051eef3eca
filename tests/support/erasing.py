"""The scheduler's steps that erase data."""

from features.erasure.feature import ERASURE


def erasure_steps(services):
    """Return the steps by name."""
    return {step.name: step.work for step in ERASURE.steps(services.parts)}


async def erase(services):
    """Delete some remaining rows of an erasure; return whether more may be left."""
    return await erasure_steps(services)["erase"]()


async def clean(services):
    """Do each step of the cleanup once, then proceed with an erasure."""
    await services.cleaner.clean()
    await erase(services)
