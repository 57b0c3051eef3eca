"""The build that an evaluation searches."""

from __future__ import annotations

from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict
from shared.domain.states import BuildState
from shared.ledger.builds.builds import Builds
from shared.ledger.model.collections import Collections


async def build_to_search(
    collections: Collections, builds: Builds, tenant: str, name: str, number: int | None
) -> Collection:
    """Return the build of a collection with a number; None: the live build.

    Raises:
        NotFound: there is no such collection or build.
        Conflict: the build does not have every document.
    """
    if number is None:
        return await collections.get(tenant, name)
    build = await builds.get(tenant, name, number)
    if build.state not in (BuildState.LIVE, BuildState.FOLLOWING):
        raise Conflict(f"Build {number} is {build.state}: an evaluation needs a build that is filled.", field="build")
    return await builds.collection(build)
