"""The wiring: the dependencies of a process, which are created once from the settings and closed at its end.

Each role has a module that imports only the role's libraries: a parse worker loads neither Qdrant's client nor
OpenAI's.
`build` imports only the module of its role.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, overload

from shared.domain.queues import STAGES, WorkerRole
from shared.process.start import without
from shared.services.parts import Parts
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.services.all import AllServices
    from shared.services.api import ApiServices
    from shared.services.features import Feature
    from shared.services.scheduler import SchedulerServices
    from shared.services.worker import WorkerServices

Role = Literal["api", "scheduler", "all"] | WorkerRole

# Maximum connections of one process to PostgreSQL. A stage claims, settles and extends leases concurrently: a hundred
# workers of one stage fit into 400. Other processes are few, and do more concurrently.
_POOL_SIZES: Mapping[str, int] = {role: 4 * len(stages) for role, stages in STAGES.items()}
_POOL_SIZE = 10


@overload
def build(
    role: Literal["api"], settings: Settings, features: Sequence[Feature]
) -> AbstractAsyncContextManager[ApiServices]: ...
@overload
def build(
    role: Literal["scheduler"], settings: Settings, features: Sequence[Feature]
) -> AbstractAsyncContextManager[SchedulerServices]: ...
@overload
def build(
    role: Literal["all"], settings: Settings, features: Sequence[Feature]
) -> AbstractAsyncContextManager[AllServices]: ...
@overload
def build(
    role: WorkerRole, settings: Settings, features: Sequence[Feature] | None = None
) -> AbstractAsyncContextManager[WorkerServices]: ...
@asynccontextmanager
async def build(role: Role, settings: Settings, features: Sequence[Feature] | None = None) -> AsyncIterator[Any]:
    """Create the dependencies of a role; no engine is contacted before it is used.

    Args:
        role: role of the process; `all` is every role in one process, for tests and benchmarks.
        settings: settings of the process.
        features: the features, which the API, the scheduler and workers that do jobs need.

    Raises:
        InvalidInput: a setting required by the role is missing.
    """
    async with AsyncExitStack() as stack:
        with without("rich"):  # httpx would load it for its command line
            parts = Parts(settings, stack, pool_size=_POOL_SIZES.get(role, _POOL_SIZE), features=features)
            assembled = _assemble(role, parts)
        yield assembled


def _assemble(role: Role, parts: Parts) -> object:  # noqa: PLR0911 - one per role
    match role:
        case "api":
            from shared.services import api

            return api.assemble(parts)
        case "parse":
            from shared.services import parse

            return parse.assemble(parts)
        case "read":
            from shared.services import read

            return read.assemble(parts)
        case "generate":
            from shared.services import generate

            return generate.assemble(parts)
        case "index":
            from shared.services import index

            return index.assemble(parts)
        case "ingest":
            from shared.services import pipeline

            return pipeline.assemble(parts)
        case "scheduler":
            from shared.services import scheduler

            return scheduler.assemble(parts)
        case "all":
            from shared.services import all as everything

            return everything.assemble(parts)
