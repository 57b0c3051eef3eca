"""Authentication: the key alone decides the tenant, and what the request may do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

import structlog
from fastapi import Depends, Request

from shared.domain.errors import Forbidden, InvalidInput, Unauthorized
from shared.domain.keys import TENANT_SCOPES, Scope
from shared.settings import Settings

TENANT_WITHOUT_KEYS = "default"


def require_safe(settings: Settings) -> None:
    """Refuse to serve other machines without keys.

    Raises:
        InvalidInput: no keys are set, and the API would listen on more than loopback.
    """
    if not settings.api_keys and not _is_loopback(settings.api_host):
        raise InvalidInput(
            f"Without keys the API serves this machine alone, and {settings.api_host} is more than that: set"
            " FOREASK_API_KEYS=tenant:key, or FOREASK_API_HOST=127.0.0.1.",
            field="api_host",
        )


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent the request; `request.state.caller` has it once a route's scope was checked.

    Args:
        tenant: whose key it is; None is the operator.
        key_name: under which the key is logged; None where the API is keyless.
        scopes: what the key may do.
        filter: a condition that each query of the key carries.
    """

    tenant: str | None
    key_name: str | None
    scopes: frozenset[Scope]
    filter: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """The dependency of a route that declares its scope."""

    scope: Scope

    async def __call__(self, request: Request) -> str:
        """Return the tenant that the request's key speaks for; the operator's is empty.

        Raises:
            Unauthorized: the key is absent or unknown. Where no keys are set: the request came from a page of another
                site in this machine's browser.
            Forbidden: the key lacks the scope.
        """
        caller = _authenticate(request, request.app.state.settings)
        structlog.contextvars.bind_contextvars(tenant=caller.tenant)  # the request's log lines name it
        request.state.caller = caller
        if self.scope not in caller.scopes:
            raise Forbidden(f"This needs a key with the scope '{self.scope}', which this key lacks.")
        return caller.tenant or ""


# The tenant of a request whose key has the scope.
Reader = Annotated[str, Depends(Needs(Scope.READ))]
Asker = Annotated[str, Depends(Needs(Scope.ASK))]
Writer = Annotated[str, Depends(Needs(Scope.WRITE))]
Manager = Annotated[str, Depends(Needs(Scope.MANAGE))]


def _authenticate(request: Request, settings: Settings) -> Caller:
    if not settings.api_keys:
        _require_local(request)
        return Caller(TENANT_WITHOUT_KEYS, None, TENANT_SCOPES)
    key = _key(request)
    if key is None:
        raise Unauthorized("Send a key: `Authorization: Bearer KEY` or `X-API-Key: KEY`.")
    digest = hashlib.sha256(key.encode()).digest()
    caller = None
    for api_key in settings.api_keys:  # every key is compared, so that the time says nothing about which one fits
        if compare_digest(api_key.sha256, digest):
            caller = Caller(api_key.tenant, f"settings:{digest.hex()[:8]}", TENANT_SCOPES)
    if caller is None:
        raise Unauthorized("The key is unknown.")
    return caller


def _key(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get("x-api-key") or None


def _require_local(request: Request) -> None:
    # A web page could reach loopback by a name that resolves to it, or by a form that posts to it.
    origin = request.headers.get("origin")
    hosts = [urlsplit(f"//{request.headers.get('host', '')}").hostname]
    if origin is not None:
        hosts.append(urlsplit(origin).hostname)
    if not all(host and _is_loopback(host) for host in hosts):
        raise Unauthorized("Without keys only local programs are served: call 127.0.0.1, or set FOREASK_API_KEYS.")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
