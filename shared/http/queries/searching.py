"""The search of a query: its body is checked, chunks are found, and the query is logged."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

from fastapi import Request

from shared.domain.corpus.collections import Collection
from shared.domain.errors import Forbidden, InvalidInput
from shared.http.access.auth import Caller
from shared.http.access.collection_cache import CollectionCache
from shared.http.disconnects import while_connected
from shared.http.queries.notices import add_notices
from shared.http.queries.query_log import QueryLogWriter
from shared.http.schemas.queries import RetrieveBody
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.query.retrieve import LiveRetriever, Query, Retrieval, Weights
from shared.query.rewrite import RewriteOptions
from shared.services.api import ApiServices
from shared.vectors.schema.filters import metadata_conditions

B = TypeVar("B", bound=RetrieveBody)

_INT64 = 2**63


async def find_chunks(  # noqa: PLR0917
    request: Request,
    body: RetrieveBody,
    caller: Caller,
    services: ApiServices,
    collection_cache: CollectionCache,
    query_log: QueryLogWriter,
) -> Retrieval:
    """Find the chunks for a question, and record it. The search is cancelled if the client disconnects."""
    body = within_limits(body, caller, services)
    parameters = {f.name: getattr(body, f.name) for f in fields(Query) if hasattr(body, f.name)}
    parameters["restriction"] = caller.restriction
    parameters["candidates"] = body.explain == "candidates"
    parameters["expected"] = [str(chunk) for chunk in body.expected]
    parameters["weights"] = None if body.weights is None else Weights(**body.weights.model_dump())
    if body.rewrite is not None:
        parameters["rewriting"] = RewriteOptions(**body.rewrite.model_dump(exclude={"budget_ms"}))
        parameters["rewrite_budget"] = body.rewrite.budget

    async def query_of(collection: Collection) -> Query:
        if body.document_ids is None:
            return Query(**parameters)
        rows = await services.ledger[Documents].row_ids(collection, body.document_ids)
        ids = [rows.get(document_id, document_id) for document_id in body.document_ids]
        return Query(**{**parameters, "document_ids": ids})

    live = LiveRetriever(services.retriever, collection_cache.get)
    retrieval = await while_connected(request, live.retrieve(caller.tenant, body.collection, query_of))
    await add_notices(retrieval, body, caller, services.ledger[Collections])
    if not caller.reads_users_questions:
        retrieval.hide_users_questions()
    with retrieval.trace.timed("record"):
        if body.record:
            retrieval.query_id = await query_log.record(retrieval, body.question, caller.author_id)
    return retrieval


def within_limits(body: B, caller: Caller, services: ApiServices) -> B:
    """Check the options of a query before a model is called.

    Raises:
        Forbidden: a person requests details that only keys may see.
        InvalidInput: an option exceeds a limit of the settings or of the key, or the filter is malformed.
    """
    if caller.person is not None and (body.expected or body.explain == "candidates"):
        raise Forbidden("`expected` and the candidates of a query are for keys: they are about all documents.")
    body = _within_key(body, caller.limits.max_tokens)
    for field in ("top_k", "max_tokens"):
        most = getattr(services.settings.tuning, f"{field}_max")
        if getattr(body, field) > most:
            raise InvalidInput(f"{field} is at most {most:,} (FOREASK_TUNING__{field.upper()}_MAX).", field=field)
    require_int64(body.filter)
    if body.filter is not None:
        metadata_conditions(body.filter)
    return body


def _within_key(body: B, most: int | None) -> B:
    """Lower the default of `max_tokens` to the limit of the key.

    Raises:
        InvalidInput: the request asks for more.
    """
    if most is None or body.max_tokens <= most:
        return body
    if "max_tokens" in body.model_fields_set:
        raise InvalidInput(f"max_tokens is at most {most:,} for this key.", field="max_tokens")
    return body.model_copy(update={"max_tokens": most})


def require_int64(value: object) -> None:
    """Reject integers that do not fit into Qdrant's 64 bits.

    Raises:
        InvalidInput: the filter has such a number.
    """
    unchecked = [value]
    while unchecked:
        item = unchecked.pop()
        if isinstance(item, dict):
            unchecked += item.values()
        elif isinstance(item, list):
            unchecked += item
        elif isinstance(item, int) and not -_INT64 <= item < _INT64:
            raise InvalidInput("A number in the filter is too large.", field="filter")
