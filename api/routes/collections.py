"""Routes of collections: list, show, create, change and reindex."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Hashable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from shared.domain.corpus.collections import Collection, CollectionOptions
from shared.domain.errors import ForeaskError
from shared.domain.states import DocumentState
from shared.http import paging
from shared.http.access.auth import Manager, Reader
from shared.http.access.collection_cache import require_served
from shared.http.bodies import PROMPT_BODY
from shared.http.collection_options import require_context_possible, require_embedding, require_sizes_fit
from shared.http.language_notices import notices_of_languages
from shared.http.openapi import problems, replies
from shared.http.replies import JsonReply
from shared.http.schemas.collections import (
    CollectionChange,
    CollectionPage,
    CollectionView,
    NumberedStateView,
    OptionsInForceView,
    ReindexReply,
)
from shared.http.schemas.common import CollectionName
from shared.http.state import CollectionCacheDep, ServicesDep, SizesDep
from shared.http.strict_route import StrictRoute
from shared.ingest.generate.prompts import cache_warning
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import MOST_CONFIRMED, Collections
from shared.services.api import ApiServices
from shared.services.options import options_in_force
from shared.vectors.sizes import CachedCount, CollectionSizes, Sizes

router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=StrictRoute)

_POINTS_SECONDS = 2.0
_AT_ONCE = 8
_OUTDATED = "Whether only documents are parsed that an older reader has read: see `outdated` of `GET /v1/status`"


@router.get("", response_model=CollectionPage, responses=problems(400, 401, 422, 503))
async def list_collections(
    tenant: Reader,
    services: ServicesDep,
    sizes: SizesDep,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List collections by name."""
    after = paging.read_cursor(cursor, paging.read_name) or ""
    rows = await services.ledger[Collections].page(tenant, after=after, limit=limit + 1)
    collections, following = paging.split_page(rows, limit, lambda collection: (collection.name,))
    views = await _views(tenant, collections, services, sizes)
    return JsonReply(CollectionPage(items=views, next_cursor=following))


@router.get("/{name}", response_model=CollectionView, responses=problems(401, 404, 422, 503))
async def get_collection(name: CollectionName, tenant: Reader, services: ServicesDep, sizes: SizesDep) -> Response:
    """Return a collection: its options, and the number of its documents and points."""
    collection = await services.ledger[Collections].get(tenant, name)
    return JsonReply(await _whole_view(tenant, collection, services, sizes))


@router.put(
    "/{name}",
    response_model=CollectionView,
    responses=replies(
        {201: {"model": CollectionView, "description": "The collection was created"}},
        *(400, 401, 409, 413, 415, 422, 503),
    ),
)
async def put_collection(
    change: Annotated[CollectionChange, PROMPT_BODY],
    name: CollectionName,
    tenant: Manager,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
    *,
    sizes: SizesDep,
) -> Response:
    """Create a collection, or replace its options; they apply to documents that are parsed from now on.

    `filterable` fields can be added only before the first document; declared fields are kept. The `embedding` can be
    set only before the first document, too; if it is absent, the embedding is unchanged.
    """
    require_sizes_fit(change, services.settings)
    require_context_possible(change, services.settings)
    chosen = _embedding(change, services)
    before = await services.ledger[Collections].find(tenant, name)
    if before and chosen in (None, before.embedding_model):
        require_served(before, services.embeddings)
    collection = await services.ledger[Collections].ensure(
        tenant,
        name,
        embedding_model=chosen or services.settings.embedding_model or "",
        options=_options(change),
        description=change.description,
        replace_embedding=chosen is not None,
        most=services.settings.limits_of(tenant).collections,
    )
    collection_cache.forget(tenant, name)
    view = await _whole_view(tenant, collection, services, sizes)
    return JsonReply(view, 200 if before else 201)


@router.post(
    "/{name}/reindex", status_code=202, response_model=ReindexReply, responses=problems(401, 404, 409, 422, 503)
)
async def reindex_collection(
    name: CollectionName,
    tenant: Manager,
    services: ServicesDep,
    outdated: Annotated[bool, Query(description=_OUTDATED)] = False,
) -> Response:
    """Parse every document again, generate its questions and index it. Until then queries see the old content.

    Questions of an unchanged chunk, prompt and model are reused: the language model is called only for the others.
    The reindex is a job: GET /v1/jobs/{id} has its progress. While it is open, a second one is answered 409.
    """
    collection = require_served(await services.ledger[Collections].get(tenant, name), services.embeddings)
    started = await services.ledger[Documents].reindex(collection, outdated=outdated)
    services.wakeups.wake("parse")
    return JsonReply(ReindexReply(documents=started.documents, job_id=started.job_id), 202)


def _options(change: CollectionChange) -> CollectionOptions:
    options = change.model_dump(exclude={"embedding", "description"})
    return CollectionOptions(**options | {"filterable": tuple((change.filterable or {}).items())})


def _embedding(change: CollectionChange, services: ApiServices) -> str | None:
    """Return the name of the embedding that the caller chose.

    Raises:
        InvalidInput: the settings describe no embedding of that name.
    """
    if change.embedding is not None:
        require_embedding(change.embedding, services)
    return change.embedding


async def _whole_view(
    tenant: str, collection: Collection, services: ApiServices, sizes: CollectionSizes
) -> CollectionView:
    """Return a view with the values of all options."""
    (view,) = await _views(tenant, [collection], services, sizes)
    values = {
        name: OptionsInForceView.of(options_in_force(services.settings, options))
        for name, options in (("effective", collection.options), ("defaults", CollectionOptions()))
    }
    return view.model_copy(update=values)


async def _views(
    tenant: str, collections: Sequence[Collection], services: ApiServices, sizes: CollectionSizes
) -> list[CollectionView]:
    documents = await services.ledger[Collections].document_counts(tenant, [c.id for c in collections])
    changes = await services.ledger[Collections].last_changes(tenant)
    # They change with every document that is shown, finished or deleted.
    markers = [(changes.get(c.id), *sorted(documents[c.id].items())) for c in collections]
    points, chunks, builds = await asyncio.gather(
        _points(collections, markers, services.ledger[Collections], sizes.points),
        _counts(collections, markers, sizes.chunks),
        services.ledger[Builds].states(tenant, [c.name for c in collections]),
    )
    languages = await notices_of_languages(collections, services.embeddings, services.ledger[Collections])
    return [
        CollectionView.of(
            collection,
            notice=" ".join(
                filter(None, (languages.get(collection.id), cache_warning(collection.options.prompt or "")))
            )
            or None,
            documents={DocumentState(s): n for s, n in documents[collection.id].items()},
            points=None if count is None else count.number,
            points_age_seconds=None if count is None else round(count.age.total_seconds(), 3),
            chunks=None if count_of_chunks is None else count_of_chunks.number,
            builds=[NumberedStateView.of(each) for each in builds[collection.name]],
            effective=None,
            defaults=None,
        )
        for collection, count, count_of_chunks in zip(collections, points, chunks, strict=True)
    ]


async def _points(
    collections: Sequence[Collection], markers: Sequence[Hashable], ledger: Collections, sizes: Sizes
) -> list[CachedCount | None]:
    """Return the number of points of each collection; None as in `_counts`."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def confirmed(collection: Collection, counted: CachedCount | None) -> CachedCount | None:
        # An old count of a few points would hide a new document; an old count of many is nearly right.
        if counted is None or counted.is_current or counted.number >= MOST_CONFIRMED:
            return counted
        async with gate:
            number = await ledger.confirmed_points(collection.id)
        return dataclasses.replace(counted, number=max(counted.number, number))

    counts = await _counts(collections, markers, sizes)
    return list(await asyncio.gather(*map(confirmed, collections, counts)))


async def _counts(
    collections: Sequence[Collection], markers: Sequence[Hashable], sizes: Sizes
) -> list[CachedCount | None]:
    """Return the count of each collection.

    The result has None for a collection that Qdrant refuses to count, or has never counted and does not count within
    two seconds.
    """
    gate = asyncio.Semaphore(_AT_ONCE)

    async def count(collection: Collection, marker: Hashable) -> CachedCount | None:
        async with gate:
            try:
                async with asyncio.timeout(_POINTS_SECONDS):
                    counted: CachedCount | None = await sizes.at(collection.location, marker)
            except ForeaskError:
                return None
            except TimeoutError:
                return sizes.last(collection.location)
            return counted

    return list(await asyncio.gather(*map(count, collections, markers)))
