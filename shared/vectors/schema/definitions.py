"""Checks of the definitions of collections and payload indexes, by the models of Qdrant's client.

The models know every option of Qdrant and its type, so that a wrong one fails with its name. Tests check our
definitions. A process checks a layout with settings of the operator, and only when it creates a collection, because
importing the models takes 35 MB and up to a second of processor time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_collection(definition: Mapping[str, Any]) -> None:
    """Check the request that creates a collection.

    Raises:
        pydantic.ValidationError: Qdrant has no such option.
    """
    from qdrant_client.http.models import CreateCollection  # noqa: PLC0415 - as the module explains

    CreateCollection.model_validate(definition)


def check_index(schema: Mapping[str, Any]) -> None:
    """Check the definition of a payload index.

    Raises:
        pydantic.ValidationError: Qdrant has no such option.
    """
    from qdrant_client.http.models import CreateFieldIndex  # noqa: PLC0415 - as the module explains

    CreateFieldIndex.model_validate({"field_name": "key", "field_schema": schema})
