"""Routes of keys: create, list, change and revoke."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from functools import partial
from uuid import UUID

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.schemas.keys import KeyBody, KeyChange, KeyPage, KeyView, NewKeyView, SettingsKeyView
from shared.domain.access import key_texts
from shared.domain.access.keys import TENANT_SCOPES, UNLIMITED, Key, KeyLimits, KeySpecification, Scope
from shared.domain.errors import Conflict, Forbidden, InvalidInput
from shared.http import paging
from shared.http.access.auth import Caller, Manager, settings_name
from shared.http.openapi import problems
from shared.http.queries.searching import require_int64
from shared.http.replies import JsonReply
from shared.http.state import KeyCacheDep, ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.tenants.keys import Keys
from shared.services.api import ApiServices
from shared.services.prices import require_prices
from shared.vectors.schema.filters import caller_conditions

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=StrictRoute)

_FILTER_MAX_BYTES = 8 * 1024  # each process caches thousands of keys


@router.post(
    "",
    status_code=201,
    response_model=NewKeyView,
    responses=problems(400, 401, 409, 413, 415, 422),
)
async def create_key(
    request: Request, body: KeyBody, tenant: Manager, services: ServicesDep, key_cache: KeyCacheDep
) -> Response:
    """Create a key of the tenant. Only this reply contains it: the server stores its hash.

    A key can grant only its own scopes. Every process of the API accepts the new key at once.
    """
    new = _new_key(body, tenant)
    _require_may_create(request.state.caller, new, services)
    await _require_price(new.limits, services)
    key = key_texts.draw()
    created = await services.ledger[Keys].make(new, key_texts.hash_of(key), key_texts.prefix_of(key))
    key_cache.forget()
    return JsonReply(NewKeyView.of(created, key=key), 201)


@router.get("", response_model=KeyPage, responses=problems(400, 401, 422))
async def list_keys(
    tenant: Manager, services: ServicesDep, limit: paging.Limit = 50, cursor: paging.Cursor = None
) -> Response:
    """List the tenant's keys, newest first, including those revoked or expired in the last 90 days.

    Keys in the server's settings are listed in `from_settings`: only the settings can change them.
    """
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[Keys].page(tenant, after=after, limit=limit + 1)
    shown, following = paging.split_page(rows, limit, lambda key: (key.created_at.isoformat(), str(key.id)))
    of_settings = [
        SettingsKeyView(name=settings_name(key.sha256), scopes=sorted(TENANT_SCOPES))
        for key in services.settings.api_keys
        if key.tenant == tenant
    ]
    items = [KeyView.of(key) for key in shown]
    return JsonReply(KeyPage(items=items, next_cursor=following, from_settings=of_settings))


@router.patch("/{key_id}", response_model=KeyView, responses=problems(400, 401, 404, 409, 413, 415, 422))
async def update_key(
    *, request: Request, body: KeyChange, key_id: UUID, tenant: Manager, services: ServicesDep, key_cache: KeyCacheDep
) -> Response:
    """Change the limits or the end of a key. Within five seconds, every process of the API uses them.

    A key can change only keys whose scopes it has.
    """
    if body.limits is not None:
        await _require_price(KeyLimits(**body.limits.model_dump()), services)
    changed = await services.ledger[Keys].change(tenant, key_id, partial(_changed, body, request.state.caller))
    key_cache.forget()
    return JsonReply(KeyView.of(changed))


@router.delete("/{key_id}", status_code=204, responses=problems(401, 403, 404, 422))
async def revoke_key(
    *, request: Request, key_id: UUID, tenant: Manager, services: ServicesDep, key_cache: KeyCacheDep
) -> Response:
    """Revoke a key. Within five seconds, no process of the API accepts it.

    A key can revoke only keys whose scopes it has.
    """
    await services.ledger[Keys].revoke(tenant, key_id, partial(_require_scopes, request.state.caller, "revoke"))
    key_cache.forget()
    return Response(status_code=204)


def _new_key(body: KeyBody, tenant: str) -> KeySpecification:
    if body.filter is not None:
        require_int64(body.filter)
        caller_conditions(body.filter, None)  # reject a filter that no query could apply
        if len(orjson.dumps(body.filter)) > _FILTER_MAX_BYTES:
            raise InvalidInput(f"The filter of a key may have at most {_FILTER_MAX_BYTES:,} bytes.", field="filter")
    lifetime = None if body.expires_in_seconds is None else timedelta(seconds=body.expires_in_seconds)
    limits = UNLIMITED if body.limits is None else KeyLimits(**body.limits.model_dump())
    return KeySpecification(tenant, body.name, frozenset(map(Scope, body.scopes)), body.filter, lifetime, limits)


def _changed(body: KeyChange, caller: Caller, key: Key) -> Key:
    """Return the changed key.

    Raises:
        Forbidden: the key has a scope that the caller lacks.
        InvalidInput: the key has the scope `manage`, which has no limits.
    """
    _require_scopes(caller, "change", key)
    limits, expires_at = key.limits, key.expires_at
    if "limits" in body.model_fields_set:
        limits = UNLIMITED if body.limits is None else KeyLimits(**body.limits.model_dump())
    if "expires_in_seconds" in body.model_fields_set:
        lifetime = body.expires_in_seconds
        expires_at = None if lifetime is None else key.read_at + timedelta(seconds=lifetime)
    KeySpecification(key.tenant, key.name, key.scopes, key.filter, limits=limits)  # refuses limits that it would bypass
    return dataclasses.replace(key, limits=limits, expires_at=expires_at)


def _require_scopes(caller: Caller, action: str, key: Key) -> None:
    """Check that the caller has the scopes of a key.

    Raises:
        Forbidden: the key has a scope that the caller lacks.
    """
    if missing := key.scopes - caller.scopes:
        raise Forbidden(f"A key can {action} only keys with its own scopes, and this key lacks '{min(missing)}'.")


async def _require_price(limits: KeyLimits, services: ApiServices) -> None:
    if limits.cost_per_day is not None:  # list prices are loaded once, which takes 0.3 s
        await asyncio.to_thread(require_prices, services.settings, "cost_per_day")


def _require_may_create(caller: Caller, new: KeySpecification, services: ApiServices) -> None:
    if services.settings.is_keyless:
        raise Conflict(
            "This server does not require keys, so a key would have no effect. Set FOREASK_API_KEYS or"
            " FOREASK_OPERATOR_KEYS first."
        )
    if missing := new.scopes - caller.scopes:
        raise Forbidden(f"A key can grant only its own scopes, and this key lacks the scope '{min(missing)}'.")
