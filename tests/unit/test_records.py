"""Rows of the ledger become dataclasses by the types of their fields."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError

from shared.ledger.postgres.records import record


class Color(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Size:
    width: int = 1


@dataclass(frozen=True, slots=True)
class Box:
    id: UUID
    color: Color
    ids: tuple[int, ...]
    size: Size
    label: str | None = None


ROW = {"id": uuid4(), "color": "red", "ids": [1, 2], "size": {"width": 3, "of_a_newer_release": 1}}


def test_columns_become_values_of_field_types():
    assert record(Box, ROW) == Box(ROW["id"], Color.RED, (1, 2), Size(3))


def test_unknown_columns_are_ignored():
    assert record(Box, ROW | {"of_a_newer_release": 1}) == record(Box, ROW)


def test_given_fields_replace_columns():
    assert record(Box, ROW | {"label": "a"}, label="b").label == "b"


def test_unknown_word_is_rejected():
    with pytest.raises(ValidationError, match="color"):
        record(Box, ROW | {"color": "blue"})
