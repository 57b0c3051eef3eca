"""Places: where in Qdrant the points of a collection are."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from uuid import UUID

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")  # a name is a folder of Qdrant, and a part of its addresses
_MODEL_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Place:
    """Where the points of a tenant's collection are.

    Args:
        index_name: the collection in Qdrant, which tenants share.
        build: names this collection's points there.
    """

    index_name: str
    tenant: str
    build: str


def index_name(prefix: str, model: str, dimensions: int | None) -> str:
    """Name the collection in Qdrant of all collections of an embedding model.

    Args:
        prefix: of the deployment.
        model: the model as its server calls it. A digest of it keeps names apart that are alike in safe characters.
        dimensions: the size that the model is asked for; None: the model has one size, which Qdrant knows.
    """
    digest = hashlib.sha256(model.encode()).hexdigest()[:8]
    parts = [prefix, _UNSAFE.sub("-", model).strip("-.")[:_MODEL_CHARACTERS], digest]
    if dimensions is not None:
        parts.append(str(dimensions))
    return "-".join(part for part in parts if part)


def place_of(index_name: str, tenant: str, collection_id: UUID) -> Place:
    """The place of a collection's points. Each collection has one build, of its own id."""
    return Place(index_name, tenant, collection_id.hex)
