"""Authentication: the key alone decides the tenant."""

from __future__ import annotations

import hashlib
from hmac import compare_digest
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

import structlog
from fastapi import Depends, Request

from api.quotas import Quotas
from shared.domain.errors import InvalidInput, Unauthorized
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


async def tenant_of(request: Request) -> str:
    """Return the tenant that the request's key speaks for.

    Raises:
        Unauthorized: the key is absent or unknown. Where no keys are set: the request came from a page of another site
            in this machine's browser.
    """
    tenant = _authenticate(request, request.app.state.settings)
    structlog.contextvars.bind_contextvars(tenant=tenant)  # the request's log lines name it
    return tenant


async def tenant_within_limits(request: Request, tenant: Annotated[str, Depends(tenant_of)]) -> str:
    """Count the request for its tenant, and have the reply say how many are left.

    Raises:
        TooManyRequests: none are.
    """
    quotas: Quotas = request.app.state.quotas
    request.state.headers = await quotas.take_request(tenant)
    return tenant


Tenant = Annotated[str, Depends(tenant_within_limits)]


def _authenticate(request: Request, settings: Settings) -> str:
    if not settings.api_keys:
        _require_local(request)
        return TENANT_WITHOUT_KEYS
    key = _key(request)
    if key is None:
        raise Unauthorized("Send a key: `Authorization: Bearer KEY` or `X-API-Key: KEY`.")
    digest = hashlib.sha256(key.encode()).digest()
    tenant = None
    for api_key in settings.api_keys:  # every key is compared, so that the time says nothing about which one fits
        if compare_digest(api_key.sha256, digest):
            tenant = api_key.tenant
    if tenant is None:
        raise Unauthorized("The key is unknown.")
    return tenant


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
