"""The price of a filter: conditions without an index times the chunks of the collection."""

import pytest

from shared.domain.access.restriction import UNRESTRICTED, Restriction
from shared.domain.errors import InvalidInput
from shared.vectors.schema.filters import caller_conditions, require_affordable
from tests.support.planted import guards

FIELDS = (("department", "keyword"), ("year", "integer"), ("published", "datetime"))


def any_of(*filters):
    return {"any": list(filters)}


def refused(filter_, chunks, restriction=UNRESTRICTED):
    """Return the error of a filter in a collection of this size; None if it is possible."""
    conditions = caller_conditions(filter_, None, FIELDS, restriction)
    try:
        require_affordable(conditions, chunks)
    except InvalidInput as error:
        return error.message
    return None


@guards(
    "shared/vectors/schema/filters.py",
    "max(_FREE_CONDITIONS, _MAX_WORK // max(1, chunks))",
    "max(_FREE_CONDITIONS, _MAX_WORK)",
    means="a filter of 2 KB occupies Qdrant for seconds",
)
def test_undeclared_conditions_times_chunks_are_limited():
    dates = any_of(*({"n": {"gte": f"{year}-01-01"}} for year in range(1960, 2020)))

    assert refused(dates, 1_000) is None
    assert refused(dates, 4_000) == (
        "The filter has 60 conditions, or words of `text`, without an index, and a collection of 4,000 chunks allows"
        " 25: send fewer, or declare the field with `filterable` when you create the collection, which gives it an"
        " index ('n')."
    )


def test_few_conditions_are_possible_in_every_collection():
    filter_ = {"a": 1, "b": {"any": ["x", "y"]}, "not": {"c": None}, "d": {"text": "one"}}

    assert refused(filter_, 10**8) is None
    assert "('a', 'b', 'c' and 2 more)" in refused(filter_ | {"e": 2.5}, 10**8)


def test_declared_fields_cost_nothing():
    declared = [{"department": f"d{n}"} for n in range(20)]
    declared += [{"year": {"gte": n}} for n in range(20)]
    declared += [{"published": {"lt": "2026-01-01"}}] * 20

    assert refused(any_of(*declared), 10**8) is None


@guards(
    "shared/vectors/schema/filters.py",
    "max(1, len(words))",
    "1",
    means="a filter with thousands of words costs like one condition",
)
@pytest.mark.parametrize("separator", [" ", ",", "\u3000"])
def test_each_word_of_text_counts(separator):
    words = separator.join(f"w{n}" for n in range(90))

    assert refused({"title": {"text": words}}, 1_000) is None
    assert "has 90 conditions" in refused({"title": {"text": words}}, 2_000)


def test_conditions_of_key_count_too():
    filter_ = any_of(*({"x": n} for n in range(20)))

    assert refused(filter_, 4_000) is None
    assert "has 40 conditions" in refused(filter_, 4_000, Restriction(filter_))
