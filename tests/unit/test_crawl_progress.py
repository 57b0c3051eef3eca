"""Pages of an interrupted crawl fit into a note, and are continued by the same listing only."""

from dataclasses import replace
from uuid import UUID

import pytest

from features.sources.web.crawl.memory import MOST_NOTE_BYTES, MOST_PARENTS, Note, VisitOutcome
from features.sources.web.crawl.progress import RunPage

LISTING = f"{UUID(int=1)}/12345"
NOTE = Note(VisitOutcome.LISTED, "a" * 32, 'W/"' + "é" * 197, "d" * 64, "c" * 16, rank=20)
FOUND = RunPage(
    address="https://example.org/a",
    rank=20,
    hops=5,
    parents="0" * 16 * MOST_PARENTS,
    has_more_parents=True,
    outcome=None,
    text_hash=None,
    size_bytes=None,
    note=None,
)
PAGE = replace(FOUND, outcome="listed", text_hash="b" * 32, size_bytes=10**9, note=NOTE.encode())


def test_longest_page_fits_into_a_note():
    assert len(PAGE.encode(LISTING)) <= MOST_NOTE_BYTES


@pytest.mark.parametrize("page", [PAGE, FOUND])
def test_page_is_restored_by_its_listing_only(page):
    encoded = page.encode(LISTING)

    assert RunPage.decode(page.key, encoded, LISTING) == page
    assert RunPage.decode(page.key, encoded, f"{UUID(int=1)}/2") is None
    assert Note.decode(encoded) is None


def test_refused_page_is_visited_again():
    page = replace(PAGE, outcome=VisitOutcome.REFUSED)

    restored = RunPage.decode(page.key, page.encode(LISTING), LISTING)

    assert (restored.outcome, restored.note, restored.parents) == (None, None, PAGE.parents)
