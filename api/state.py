"""Dependencies of routes: the objects that the application creates at its start."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from api.access.collection_cache import CollectionCache
from api.access.key_cache import KeyCache
from api.access.quotas import Quotas
from api.progress.readiness import Readiness
from api.query.evaluations import EvaluationRunner
from api.query.query_log import QueryLogWriter
from shared.services.api import ApiServices
from shared.vectors.sizes import Sizes


def _part(name: str) -> Any:
    """Return the dependency on a part of the application's state."""

    async def part(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(part)


ServicesDep = Annotated[ApiServices, _part("services")]
CollectionCacheDep = Annotated[CollectionCache, _part("collection_cache")]
KeyCacheDep = Annotated[KeyCache, _part("key_cache")]
QuotasDep = Annotated[Quotas, _part("quotas")]
ReadinessDep = Annotated[Readiness, _part("readiness")]
QueryLogDep = Annotated[QueryLogWriter, _part("query_log")]
EvaluationRunnerDep = Annotated[EvaluationRunner, _part("evaluation_runner")]
SizesDep = Annotated[Sizes, _part("sizes")]
