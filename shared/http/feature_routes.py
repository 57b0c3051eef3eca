"""The routes that a feature adds to the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter


@dataclass(frozen=True, slots=True)
class FeatureRoutes:
    """The routes of a feature.

    Args:
        routers: its routers.
        tag: name and description of its section in the OpenAPI description; None if its routes are in another one.
    """

    routers: tuple[APIRouter, ...]
    tag: Mapping[str, str] | None = None
