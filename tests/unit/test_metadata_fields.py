"""Fields of metadata, and fields of a filter that no document has."""

import pytest

from shared.domain.corpus.metadata_fields import MOST_KNOWN_FIELDS, fields_of, unknown_fields
from shared.vectors.schema import filters


def test_fields_include_nested_ones_and_their_parents():
    metadata = {"a": 1, "b": {"c": [1, {"d": None}], "e f": "x"}, "g[0]": 1, "long" * 51: 1}

    assert fields_of(metadata) == {"a", "b", "b.c", "b.c.d", "b.e f", "g"}


@pytest.mark.parametrize(
    ("names", "unknown"),
    [
        (["a", "b.c"], []),
        (["b.c[].d", "b.c[3].d"], []),
        (["x", "b.x", "x"], ["x", "b.x"]),
        (["long" * 51], []),
    ],
)
def test_unknown_fields_are_named_once_in_order(names, unknown):
    assert unknown_fields(names, ["a", "b", "b.c", "b.c.d"]) == unknown


def test_too_many_fields_make_no_field_unknown():
    present = [str(number) for number in range(MOST_KNOWN_FIELDS)]

    assert unknown_fields(["x"], present[1:]) == ["x"]
    assert unknown_fields(["x"], present) == []


def test_filter_has_fields_of_all_its_conditions():
    filter_ = {"a": 1, "any": [{"b": {"none": ["all"]}}, {"not": {"all": [{"c.d": None}, {"a": 2}]}}]}

    assert list(filters.fields_of(filter_)) == ["a", "b", "c.d", "a"]
