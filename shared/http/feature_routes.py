"""The routes that a feature adds to the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fastapi import APIRouter, FastAPI

from shared.http.access.auth import Caller
from shared.services.api import ApiServices
from shared.settings import Settings


class UndescribedEndpoint(Protocol):
    """An endpoint that is not described by OpenAPI."""

    def install(self, app: FastAPI) -> None:
        """Add it to an application."""

    async def aclose(self) -> None:
        """Close it when the application stops."""


@dataclass(frozen=True, slots=True)
class FeatureRoutes:
    """The routes of a feature.

    Args:
        routers: its routers.
        tag: name and description of its section in the OpenAPI description; None if its routes are in another one.
        facts: returns its fields of the reply of GET /v1/me to a caller; None if it has none.
        endpoint: makes its endpoint of an application; None if it has none.
        status: returns its fields of the reply of GET /v1/status to a tenant; None if it has none.
        open_work: returns its fields of the reply of GET /v1/status and of status events; None if it has none.
    """

    routers: tuple[APIRouter, ...] = ()
    tag: Mapping[str, str] | None = None
    facts: Callable[[Caller, Settings], Mapping[str, int]] | None = None
    endpoint: Callable[[], UndescribedEndpoint] | None = None
    status: Callable[[str, ApiServices], Awaitable[Mapping[str, object]]] | None = None
    open_work: Callable[[str, ApiServices], Awaitable[Mapping[str, object]]] | None = None
