"""Tallies say what a count of the rows would, whatever changed the rows and however much is added up."""

import asyncio
from datetime import timedelta

import pytest

from shared.domain.records import DocumentState
from tests.api import work
from tests.conftest import Library
from tests.integration.test_interleavings import run
from tests.tallies import DIFFERENCES


@pytest.fixture(params=[False, True], ids=["unfolded", "folded"])
async def fold(request, services):
    """Adds the changes up, or leaves them."""

    async def fold():
        if request.param:
            assert not await services.ledger.tallies.fold(timedelta())
            assert await run(services, "SELECT * FROM tally_changes") == []

    return fold


async def test_they_follow_documents_and_chunks_on_every_way(services, library, provider, fold):
    provider.script(malformed_containing="lighthouse")
    first = await library.add("A text about the harbour.", "a.md")
    await library.add("A text about a lighthouse.", "b.md")
    await fold()
    assert await services.ledger.documents.counts("default") == {DocumentState.QUEUED: 2}

    await work(services)
    await fold()
    assert await services.ledger.documents.counts("default") == {DocumentState.READY: 1, DocumentState.DEGRADED: 1}
    assert await run(services, DIFFERENCES) == []

    await library.add("Another text about the harbour.", "a.md")
    await services.ledger.documents.reindex(await library.collection())
    await work(services)
    await services.cleaner.clean()
    await fold()
    assert await run(services, DIFFERENCES) == []

    await services.ledger.documents.delete("default", first.id)
    await services.cleaner.clean()
    await fold()
    assert await services.ledger.documents.counts("default") == {DocumentState.DEGRADED: 1}
    assert await run(services, DIFFERENCES) == []


async def test_a_tenant_sees_its_own_numbers(services, provider, fold):
    await Library(services, "alice").add("A text about the harbour.")
    await fold()

    assert await services.ledger.documents.counts("bob") == {}
    collection = await Library(services, "alice").collection()
    assert await services.ledger.collections.document_counts("bob", [collection.id]) == {collection.id: {}}


async def test_folds_of_two_schedulers_count_once(services, library):
    for number in range(5):
        await library.add(f"Text {number}.")

    await asyncio.gather(*(services.ledger.tallies.fold(timedelta()) for _ in range(4)))

    assert await services.ledger.documents.counts("default") == {DocumentState.QUEUED: 5}
    assert await run(services, "SELECT * FROM tally_changes") == []


async def test_changes_of_the_last_minute_are_kept_for_the_rate(services, library):
    await library.add("A text.")

    await services.ledger.tallies.fold()

    assert len(await run(services, "SELECT * FROM tally_changes")) == 1
