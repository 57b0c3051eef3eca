"""Rows of dlt become entries. The destination itself is tested with dlt when its package is released."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from foreask_dlt.rows import Columns, entries_of

TABLE = {
    "name": "articles",
    "columns": {
        "tenant": {"primary_key": True},
        "id": {"primary_key": True},
        "gone": {"hard_delete": True},
        "text": {"data_type": "text"},
    },
}


def test_row_becomes_entry_with_its_columns():
    row = {"tenant": "a", "id": 7, "text": "# Leave", "title": "Leave", "url": "https://x/7", "gone": False}
    row |= {"updated_at": datetime(2026, 1, 1, tzinfo=UTC), "price": Decimal("1.5"), "tags": ["a"], "empty": None}
    columns = Columns(version="updated_at", metadata=["price", "tags", "empty", "updated_at"])
    readers = {"readable_by": "group:a, user:ada"}

    (entry,) = entries_of([row | readers], TABLE, columns)

    assert entry == {
        "key": "articles/a/7",
        "text": "# Leave",
        "version": "2026-01-01 00:00:00+00:00",
        "title": "Leave",
        "url": "https://x/7",
        "readable_by": ["group:a", "user:ada"],
        "metadata": {"price": "1.5", "tags": ["a"], "updated_at": "2026-01-01T00:00:00+00:00"},
    }


def test_hard_deleted_row_is_deleted_entry():
    rows = [{"tenant": "a", "id": 1, "gone": True}, {"tenant": "a", "id": 2, "gone": None, "text": "T"}]
    assert list(entries_of(rows, TABLE, Columns())) == [
        {"key": "articles/a/1", "deleted": True},
        {"key": "articles/a/2", "text": "T"},
    ]


def test_row_without_key_is_an_error():
    with pytest.raises(ValueError, match="no value in tenant, id"):
        list(entries_of([{"id": 1, "text": "T"}], TABLE, Columns()))
    with pytest.raises(ValueError, match="no primary key"):
        list(entries_of([{"id": 1}], {"name": "a", "columns": {}}, Columns()))
    (entry,) = entries_of([{"slug": "s", "text": "T"}], {"name": "a", "columns": {}}, Columns(id="slug"))
    assert entry["key"] == "a/s"
