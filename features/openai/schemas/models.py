"""Collections as models, and requests for embeddings, which are always rejected."""

from __future__ import annotations

from typing import Literal

from features.openai.schemas.common import OPEN
from shared.http.schemas.common import BodyModel, ReplyModel, example


class ModelView(ReplyModel):
    """A collection, as a model."""

    model_config = example(id="handbook", object="model", created=1_790_000_000, owned_by="foreask")

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["foreask"] = "foreask"


class ModelList(ReplyModel):
    """All collections as models, ordered by name."""

    model_config = example(
        object="list", data=[{"id": "handbook", "object": "model", "created": 1_790_000_000, "owned_by": "foreask"}]
    )

    object: Literal["list"] = "list"
    data: list[ModelView]


class EmbeddingsBody(BodyModel):
    """A request that is always rejected."""

    model_config = OPEN | example(model="handbook", input="How much leave do I get?")
