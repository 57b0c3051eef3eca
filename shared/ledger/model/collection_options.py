"""The options of a collection as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shared.domain.corpus.collections import CollectionOptions
from shared.domain.stored import known_fields


def options_of(value: Mapping[str, Any]) -> CollectionOptions:
    fields = tuple((name, kind) for name, kind in value.get("filterable", ()))
    known = known_fields(value, CollectionOptions.__dataclass_fields__)
    return CollectionOptions(**known | {"filterable": fields})


def options_json(options: CollectionOptions) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(options).items() if value is not None}
