"""The ordered merge of a listing with items finds the same differences as a comparison of two mappings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.sources.ledger.listings import StoredItem
from features.sources.source import Entry
from features.sources.syncing.merge import ListedPage, PartLimits, merged, require_ascending, shown
from shared.domain.corpus.document_fields import is_text
from shared.domain.errors import Permanent

KEYS = st.text(st.sampled_from("ab/ü€\U0001f600"), min_size=1, max_size=4)
VERSIONS = st.dictionaries(KEYS, st.sampled_from("12"), max_size=20)


def entries_of(versions, **options):
    return [Entry(key, versions[key], **options) for key in sorted(versions, key=str.encode)]


def items_of(versions, *, is_marked=False):
    return [StoredItem(key, versions[key], is_marked) for key in sorted(versions, key=str.encode)]


@settings(deadline=None)
@given(VERSIONS, VERSIONS, st.integers(1, 5))
def test_merge_equals_comparison_of_mappings(listed, stored, most):
    parts = list(merged(ListedPage(entries_of(listed), None), items_of(stored), "", PartLimits(fetched=most)))

    assert {e.key for part in parts for e in part.fetched} == {k for k in listed if listed[k] != stored.get(k)}
    assert {key for part in parts for key in part.new} == listed.keys() - stored.keys()
    assert [key for part in parts for key in part.missing] == sorted(stored.keys() - listed.keys(), key=str.encode)
    assert sum(part.unchanged for part in parts) == sum(listed[k] == stored.get(k) for k in listed)
    assert sum(part.seen for part in parts) == len(listed)
    assert all(len(part.fetched) <= most for part in parts)


@settings(deadline=None)
@given(VERSIONS, VERSIONS, st.integers(1, 5), st.data())
def test_merge_continues_after_any_part(listed, stored, most, data):
    """A worker that continues after a saved part finds the rest, and nothing twice."""
    limits = PartLimits(fetched=most)
    parts = list(merged(ListedPage(entries_of(listed), None), items_of(stored), "", limits))
    saved = data.draw(st.integers(0, len(parts)))
    after = parts[saved - 1].after if saved else ""
    entries = [entry for entry in entries_of(listed) if entry.key > after]
    items = [item for item in items_of(stored) if item.key > after]

    again = list(merged(ListedPage(entries, None), items, after, limits))

    found = parts[:saved] + again
    assert [e.key for part in found for e in part.fetched] == [e.key for part in parts for e in part.fetched]
    assert [key for part in found for key in part.missing] == [key for part in parts for key in part.missing]


@settings(deadline=None)
@given(st.text(), st.text())
def test_order_of_characters_equals_order_of_bytes(one, other):
    """PostgreSQL and object stores compare bytes, and the merge compares characters."""
    if is_text(one) and is_text(other):
        assert (one < other) == (one.encode() < other.encode())


def test_part_is_limited_by_bytes():
    entries = [Entry(key, "1", size) for key, size in [("a", 6), ("b", 6), ("c", 50), ("d", 1), ("e", None)]]
    parts = merged(ListedPage(entries, None), [], "", PartLimits(fetched_bytes=10, unknown_bytes=9))
    assert [[entry.key for entry in part.fetched] for part in parts] == [["a", "b"], ["c"], ["d", "e"]]


def test_items_after_end_of_page_are_not_missing():
    (part,) = merged(ListedPage([Entry("b", "1")], "c"), items_of({"a": "1", "b": "1", "d": "1"}), "", PartLimits())
    assert (part.missing, part.unchanged, part.after) == (["a"], 1, "c")


def test_item_that_exists_again_is_present():
    (part,) = merged(ListedPage([Entry("a", "1")], None), items_of({"a": "1"}, is_marked=True), "", PartLimits())
    assert part.present == ["a"]


def test_refused_entry_is_neither_fetched_nor_missing():
    entries = [Entry("a", "2", refused="It is locked."), Entry("b\0", "1"), Entry("c", "1")]
    (part,) = merged(ListedPage(entries, None), items_of({"a": "1", "c": "1"}), "", PartLimits())
    assert (part.fetched, part.missing, part.unchanged) == ([], [], 1)
    assert [(entry.key, entry.reason) for entry in part.refused] == [
        ("a", "It is locked."),
        ("b\\x00", "Its name contains the character NUL: rename it."),
    ]


@pytest.mark.parametrize("key", ["a", "b"])
def test_repeated_or_smaller_key_is_out_of_order(key):
    with pytest.raises(Permanent, match=f"'{key}' follows 'b'. Nothing was deleted"):
        require_ascending("b", Entry(key, "1"))


def test_shown_key_can_be_stored():
    assert shown("a\0b\ud800" + "x" * 300) == "a\\x00b\\ud800" + "x" * 196
