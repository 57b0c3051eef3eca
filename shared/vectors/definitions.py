"""Definitions of collections and payload indexes, checked by the models of Qdrant's client before they are sent.

The models know every option of Qdrant and its type, so that a wrong one fails here, with its name. Importing them takes
35 MB and half a second of processor time: it is done only when a collection or an index is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def collection(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request that creates a collection.

    Raises:
        pydantic.ValidationError: Qdrant has no such option.
    """
    from qdrant_client.http.models import CreateCollection  # noqa: PLC0415 - as the module explains

    return CreateCollection.model_validate(definition).model_dump(mode="json", exclude_none=True)


def payload_index(key: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request that creates the index of a payload field.

    Raises:
        pydantic.ValidationError: Qdrant has no such option.
    """
    from qdrant_client.http.models import CreateFieldIndex  # noqa: PLC0415 - as the module explains

    request = CreateFieldIndex.model_validate({"field_name": key, "field_schema": schema})
    return request.model_dump(mode="json", exclude_none=True)
