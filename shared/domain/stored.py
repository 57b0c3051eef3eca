"""Stored values in JSON, which another release may have written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def known_fields(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Return the fields of a stored value that exist in this release.

    During an update, processes of the next release may store more fields. A field that is missing keeps its default.
    """
    return {name: values[name] for name in fields if name in values}
