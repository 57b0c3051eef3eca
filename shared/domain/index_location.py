"""Places: where in Qdrant the points of a collection are."""

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
    """Where the points of a tenant's collection are.

    Args:
        index_name: the collection in Qdrant, which tenants share.
        build: names this collection's points there.
    """

    index_name: str
    tenant: str
    build: str


def vector_space(model: str, dimensions: int | None = None, query_prefix: str = "", passage_prefix: str = "") -> str:
    """Name what vectors must have in common to be compared. It ends the name of their collection in Qdrant.

    Args:
        model: the model as its server calls it. A digest keeps names apart that are alike in safe characters.
        dimensions: the size that the model is asked for; None: the model has one size, which Qdrant knows.
        query_prefix: what stands in front of questions.
        passage_prefix: what stands in front of texts.
    """
    prefixes = ("", query_prefix, passage_prefix) if query_prefix or passage_prefix else ()
    digest = hashlib.sha256("\0".join((model, *prefixes)).encode()).hexdigest()[:8]
    parts = [_UNSAFE.sub("-", model).strip("-.")[:_MODEL_CHARACTERS], digest]
    if dimensions is not None:
        parts.append(str(dimensions))
    return "-".join(part for part in parts if part)


def is_in_space(index_name: str, space: str) -> bool:
    """Whether a collection in Qdrant has the vectors of a space, whatever deployment it is of."""
    return index_name.endswith(f"-{space}")


@dataclass(slots=True)
class IndexNames:
    """The names of Qdrant's collections: one for each vector space, whose collections share it.

    Args:
        prefix: of the deployment.
        spaces: of the embeddings that the settings describe, by their names.
    """

    prefix: str
    spaces: Mapping[str, str] = field(default_factory=dict)

    def of(self, embedding: str) -> str:
        """Name the collection in Qdrant of an embedding. A name that no setting describes stands for its model."""
        return f"{self.prefix}-{self.spaces.get(embedding) or vector_space(embedding)}"


def index_location_of(index_name: str, tenant: str, collection_id: UUID) -> IndexLocation:
    """The place of a collection's points. Each collection has one build, of its own id."""
    return IndexLocation(index_name, tenant, collection_id.hex)
