"""Tallies equal the counted rows after any changes, no matter how many of the changes have been folded into them."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.model.counters import Counters
from tests.conftest import Library
from tests.integration.test_interleavings import run
from tests.support.api import work
from tests.support.counters import DIFFERENCES


@pytest.fixture(params=[False, True], ids=["unfolded", "folded"])
async def fold(request, services):
    """Return a function that folds the changes into tallies, or does nothing."""

    async def fold():
        if request.param:
            assert not await services.ledger[Counters].fold(timedelta())
            assert await run(services, "SELECT * FROM tally_changes") == []

    return fold


async def test_counters_match_rows_after_every_change(services, library, provider, fold):
    provider.script(malformed_containing="lighthouse")
    first = await library.add("A text about the harbour.", "a.md")
    await library.add("A text about a lighthouse.", "b.md")
    await fold()
    assert await services.ledger[Documents].counts("default") == {DocumentState.QUEUED: 2}

    await work(services)
    await fold()
    assert await services.ledger[Documents].counts("default") == {DocumentState.READY: 1, DocumentState.DEGRADED: 1}
    assert await run(services, DIFFERENCES) == []

    await library.add("Another text about the harbour.", "a.md")
    await services.ledger[Documents].reindex(await library.collection())
    await work(services)
    await services.cleaner.clean()
    await fold()
    assert await run(services, DIFFERENCES) == []

    await services.ledger[Documents].delete("default", first.id)
    await services.cleaner.clean()
    await fold()
    assert await services.ledger[Documents].counts("default") == {DocumentState.DEGRADED: 1}
    assert await run(services, DIFFERENCES) == []


async def test_document_counts_exclude_other_tenants(services, provider, fold):
    await Library(services, "alice").add("A text about the harbour.")
    await fold()

    assert await services.ledger[Documents].counts("bob") == {}
    collection = await Library(services, "alice").collection()
    assert await services.ledger[Collections].document_counts("bob", [collection.id]) == {collection.id: {}}


async def test_concurrent_folds_count_changes_once(services, library):
    for number in range(5):
        await library.add(f"Text {number}.")

    await asyncio.gather(*(services.ledger[Counters].fold(timedelta()) for _ in range(4)))

    assert await services.ledger[Documents].counts("default") == {DocumentState.QUEUED: 5}
    assert await run(services, "SELECT * FROM tally_changes") == []


async def test_recent_changes_are_not_folded(services, library):
    await library.add("A text.")

    await services.ledger[Counters].fold()

    assert len(await run(services, "SELECT * FROM tally_changes")) == 1


async def test_minute_counts_survive_folding_and_deletion(services, library, provider):
    provider.script(malformed_containing="lighthouse")
    first = await library.add("A text about the harbour.", "a.md")
    await library.add("A text about a lighthouse.", "b.md")
    await library.add(" \n", "c.md")
    await work(services)

    finished = await _finished(services)
    assert finished == {"chunks": 1, "dead_chunks": 1, "documents": 2, "failed_documents": 1}
    await services.ledger[Counters].fold(timedelta())
    assert await _finished(services) == finished
    await library.add("Another text about the harbour.", "a.md")
    await work(services)
    await services.ledger[Counters].fold(timedelta())
    finished |= {"chunks": 2, "documents": 3}
    assert await _finished(services) == finished
    await services.ledger[Documents].delete("default", first.id)
    await services.cleaner.clean()
    assert await _finished(services) == finished  # deleted work remains counted as finished
    await services.ledger[Counters].fold(timedelta())
    assert await _finished(services) == finished
    assert await _finished(services, "bob") == dict.fromkeys(finished, 0)


async def test_history_minutes_are_ordered_and_expire(services):
    await run(
        services,
        "INSERT INTO ended_by_minute SELECT 'default', date_trunc('minute', now()) - make_interval(mins => ago), ago,"
        " 0, 0, 0 FROM unnest(ARRAY[0, 2, 59, 60, 1440, 3000]) ago",
    )

    history = await services.ledger[Counters].history("default", 60)
    assert [(index, each.chunks) for index, each in enumerate(history) if each.chunks] == [(0, 59), (57, 2)]
    assert {later.minute - each.minute for each, later in pairwise(history)} == {timedelta(minutes=1)}
    assert len(history) == 60

    await services.ledger[Counters].forget_minutes()
    remaining = await run(services, "SELECT chunks FROM ended_by_minute ORDER BY chunks")
    assert remaining == [(0,), (2,), (59,), (60,)]


async def _finished(services, tenant="default"):
    """Return sums over the last five minutes, because the current minute may have changed."""
    history = await services.ledger[Counters].history(tenant, 5)
    return {
        name: sum(getattr(each, name) for each in history)
        for name in ("chunks", "dead_chunks", "documents", "failed_documents")
    }
