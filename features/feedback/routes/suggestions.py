"""The route of suggested questions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from features.feedback.domain import Suggestion
from features.feedback.ledger.suggestions import Suggestions
from features.feedback.schemas import SuggestionList, SuggestionView
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.ids import chunk_of_point
from shared.http.access.auth import Asker, Caller
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName
from shared.http.state import ServicesDep
from shared.ledger.model.collections import Collections
from shared.services.api import ApiServices
from shared.vectors.schema.filters import caller_conditions, visible_points
from shared.vectors.searches import chunk_search

router = APIRouter(prefix="/v1", tags=["queries"])


@router.get(
    "/collections/{name}/suggestions", response_model=SuggestionList, responses=problems(401, 404, 422, 502, 503)
)
async def list_suggestions(
    request: Request,
    name: CollectionName,
    tenant: Asker,
    services: ServicesDep,
    *,
    limit: Annotated[int, Query(ge=1, le=20)] = 3,
) -> Response:
    """Suggest questions that the documents of a collection answer, from different documents.

    They are generated questions, or questions submitted with documents, never users' questions. They change at midnight
    UTC. The filter of the key applies; a person sees only questions of documents that the person may read.
    """
    collection = await services.ledger[Collections].get(tenant, name)
    caller: Caller = request.state.caller
    found = await services.ledger[Suggestions].for_day(collection.id, datetime.now(UTC).date(), caller.principals)
    if caller.filter is not None:
        found = await _within_filter(collection, found, caller, services)
    return JsonReply(SuggestionList(items=[SuggestionView.of(each) for each in found[:limit]]))


async def _within_filter(
    collection: Collection, found: Sequence[Suggestion], caller: Caller, services: ApiServices
) -> list[Suggestion]:
    """Return the suggestions whose chunks the caller's queries can find."""
    if not found:
        return []
    conditions = caller_conditions(None, None, collection.options.filterable, caller.restriction)
    listed = chunk_search(visible_points(collection.location, conditions), [str(each.chunk_id) for each in found])
    hits = (await services.index.search(collection.location.index_name, [listed]) or [[]])[0]
    visible = {chunk_of_point(hit.id)[0] for hit in hits}
    return [each for each in found if str(each.chunk_id) in visible]
