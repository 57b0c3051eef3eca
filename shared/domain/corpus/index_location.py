"""Locations of points in Qdrant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")  # a name is a folder of Qdrant, and a part of its addresses
_MODEL_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class IndexLocation:
    """The location of a collection's points.

    Args:
        index_name: collection in Qdrant, shared by tenants.
        tenant: owner of the points.
        build: name of this collection's points there.
    """

    index_name: str
    tenant: str
    build: str


def vector_space(model: str, dimensions: int | None = None, query_prefix: str = "", passage_prefix: str = "") -> str:
    """Name the vector space of an embedding. The name is the end of its collection's name in Qdrant.

    Args:
        model: the server's name of the model. A digest distinguishes names that are equal in safe characters.
        dimensions: requested size; None if the model has one size, which Qdrant knows.
        query_prefix: prefix of questions.
        passage_prefix: prefix of texts.
    """
    prefixes = ("", query_prefix, passage_prefix) if query_prefix or passage_prefix else ()
    digest = hashlib.sha256("\0".join((model, *prefixes)).encode()).hexdigest()[:8]
    parts = [_UNSAFE.sub("-", model).strip("-.")[:_MODEL_CHARACTERS], digest]
    if dimensions is not None:
        parts.append(str(dimensions))
    return "-".join(part for part in parts if part)


def is_in_space(index_name: str, space: str) -> bool:
    """Return whether a collection in Qdrant, of any deployment, has the vectors of a space."""
    return index_name.endswith(f"-{space}")


@dataclass(slots=True)
class IndexNames:
    """The names of Qdrant's collections: one per vector space, shared by its collections.

    Args:
        prefix: prefix of the deployment.
        spaces: vector spaces of the configured embeddings, by name.
    """

    prefix: str
    spaces: Mapping[str, str] = field(default_factory=dict)

    def for_embedding(self, embedding: str) -> str:
        """Name the collection in Qdrant of an embedding. A name without a setting means the model of that name."""
        return f"{self.prefix}-{self.spaces.get(embedding) or vector_space(embedding)}"


def index_location_of(index_name: str, tenant: str, collection_id: UUID) -> IndexLocation:
    """Return the location of a collection's points. Each collection row is a build with its own id."""
    return IndexLocation(index_name, tenant, collection_id.hex)
