"""Order of claims: tenants alternate, uploads precede bulk work, and suspects are claimed alone."""

import asyncio
import contextlib
from collections import Counter
from datetime import timedelta

import pytest

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.ids import chunk_id
from shared.domain.errors import Transient
from shared.domain.retry import Retry
from shared.domain.spending.rates import Rates
from shared.domain.spending.usage import Usage
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.generation import GenerateOutcome
from shared.domain.stages.indexing import IndexOutcome
from shared.domain.stages.parsing import NewChunk, ParseOutcome
from shared.domain.stages.poison import DEATHS_ALONE, SUSPECT_AFTER
from shared.ingest.generate.generator import content_key
from shared.ingest.generate.types import GenerationOptions
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from tests.conftest import Library
from tests.integration.test_query_log import proxied
from tests.support.proxy import Fault


def new_chunk(document, number, words):
    key = content_key(document.tenant, "scripted", ChunkContent.whole(words), GenerationOptions())
    identity = chunk_id(document.collection_id, document.lease.id, words, 0)
    return NewChunk(identity, number, ChunkContent.whole(words), key)


async def chunks_due(services, tenant, count, *, lane=0):
    """Add a document with `count` chunks whose texts are searchable and whose questions are due."""
    await Library(services, tenant).add(f"{tenant} {lane} {count}", lane=lane)
    (claimed,) = await services.ledger[ParseWork].claim(10)
    chunks = [new_chunk(claimed, number, f"{tenant} {lane} chunk {number}") for number in range(count)]
    await services.ledger[ParseWork].settle([ParseOutcome(claimed, "Title", "text/markdown", chunks)])
    while texts := await services.ledger[IndexWork].claim(100):
        await services.ledger[IndexWork].settle([IndexOutcome(chunk, [], 0) for chunk in texts])


async def claim(work, limit, *, suspects=False):
    return (await work.claim(limit, suspects=suspects)).chunks


def tenants(chunks):
    return Counter(chunk.tenant for chunk in chunks)


async def end_leases(services):
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now() WHERE leased_by IS NOT NULL"))


async def test_free_slots_are_shared_equally_between_tenants(services):
    await chunks_due(services, "big", 40)
    await chunks_due(services, "small", 3)

    assert tenants(await claim(services.ledger[GenerateWork], 10)) == {"big": 7, "small": 3}


async def test_held_leases_count_toward_tenant_share(services):
    await chunks_due(services, "big", 40)
    assert tenants(await claim(services.ledger[GenerateWork], 10)) == {"big": 10}
    await chunks_due(services, "small", 20)

    assert tenants(await claim(services.ledger[GenerateWork], 8)) == {"small": 8}
    assert tenants(await claim(services.ledger[GenerateWork], 8)) == {"big": 3, "small": 5}


async def test_expired_leases_do_not_count_toward_share(services):
    await chunks_due(services, "big", 40)
    await claim(services.ledger[GenerateWork], 10)
    await chunks_due(services, "small", 20)
    await end_leases(services)

    assert tenants(await claim(services.ledger[GenerateWork], 8)) == {"big": 4, "small": 4}


async def test_tenant_weight_raises_its_share(services):
    await chunks_due(services, "big", 40)
    await chunks_due(services, "small", 40)
    weighted = GenerateWork(services.database, worker="w", lease=timedelta(seconds=30), weights={"big": 3})

    assert tenants(await claim(weighted, 8)) == {"big": 6, "small": 2}


async def test_many_tenants_all_get_claims(services):
    for number in range(12):
        await chunks_due(services, f"t{number}", 5)

    assert set(tenants(await claim(services.ledger[GenerateWork], 12)).values()) == {1}
    assert len(await claim(services.ledger[GenerateWork], 100)) == 48


async def test_claim_locks_only_claimed_rows(services):
    for number in range(4):
        await chunks_due(services, f"t{number}", 10)

    assert len(await claim(services.ledger[GenerateWork], 4)) == 4
    async with services.database.begin() as connection:
        locked = "SELECT count(*) FROM chunks WHERE xmax <> 0 AND leased_by IS NULL"
        assert (await connection.execute(Statement(locked))).scalar_one() == 0


async def test_concurrent_claims_skip_locked_rows(services):
    await chunks_due(services, "one", 40)
    at_once = [claim(services.ledger[GenerateWork], 8) for _ in range(4)]

    claimed = [chunk.lease.id for chunks in await asyncio.gather(*at_once) for chunk in chunks]
    assert len(set(claimed)) == len(claimed) == 32


async def test_uploads_are_claimed_before_bulk_within_a_tenant(services):
    await chunks_due(services, "one", 5, lane=1)
    await chunks_due(services, "one", 5, lane=0)

    assert {c.content.text.split()[1] for c in await claim(services.ledger[GenerateWork], 5)} == {"0"}


async def test_documents_are_claimed_in_turn_between_tenants(services):
    for number in range(10):
        await Library(services, "big").add(f"text {number}")
    await Library(services, "small").add("late")

    assert tenants(await services.ledger[ParseWork].claim(4)) == {"big": 3, "small": 1}


async def test_tenant_holds_not_all_documents_of_worker(services):
    for number in range(10):
        await Library(services, "big").add(f"text {number}")
    assert tenants(await services.ledger[ParseWork].claim(6, most=4)) == {"big": 4}
    assert await services.ledger[ParseWork].claim(2, held={"big": 4}, most=4) == []

    await Library(services, "small").add("late")
    assert tenants(await services.ledger[ParseWork].claim(3, held={"big": 3}, most=4)) == {"big": 1, "small": 1}


async def test_questions_are_indexed_in_turn_between_tenants(services):
    ledger = services.ledger
    await chunks_due(services, "big", 10)
    await chunks_due(services, "small", 2)
    await ledger[GenerateWork].settle(
        [GenerateOutcome(c, "scripted", ("What?",), Usage(1, 1), 1) for c in await claim(ledger[GenerateWork], 100)]
    )

    assert tenants(await ledger[IndexWork].claim(4)) == {"big": 2, "small": 2}


async def test_chunks_with_two_lost_leases_are_claimed_separately(services):
    await chunks_due(services, "one", 3)
    for deaths in range(SUSPECT_AFTER):
        claimed = await claim(services.ledger[GenerateWork], 10)
        assert {c.lost_leases for c in claimed} == {deaths}
        assert await claim(services.ledger[GenerateWork], 10, suspects=True) == []
        await end_leases(services)

    assert await claim(services.ledger[GenerateWork], 10) == []
    (suspect,) = await claim(services.ledger[GenerateWork], 1, suspects=True)
    assert suspect.lost_leases == SUSPECT_AFTER
    assert "generate" in await services.ledger[Backlogs].due()  # the other two chunks are also suspects


async def test_finished_suspect_is_cleared(services):
    await chunks_due(services, "one", 1)
    for _ in range(SUSPECT_AFTER):
        await claim(services.ledger[GenerateWork], 1)
        await end_leases(services)
    (suspect,) = await claim(services.ledger[GenerateWork], 1, suspects=True)
    await services.ledger[GenerateWork].settle([GenerateOutcome(suspect, "scripted", ("What?",), Usage(1, 1), 1)])

    assert [chunk.lost_leases for chunk in await services.ledger[IndexWork].claim(1)] == [0]


async def test_inconclusive_attempt_keeps_suspect(services):
    ledger = services.ledger
    await chunks_due(services, "one", 1)
    for _ in range(SUSPECT_AFTER):
        await claim(ledger[GenerateWork], 1)
        await end_leases(services)
    (suspect,) = await claim(ledger[GenerateWork], 1, suspects=True)
    await ledger[GenerateWork].settle([FailedAttempt(suspect.lease, Retry(timedelta(), "429", burns_attempt=False))])

    assert await claim(ledger[GenerateWork], 1) == []
    (suspect,) = await claim(ledger[GenerateWork], 1, suspects=True)
    await ledger[GenerateWork].settle([FailedAttempt(suspect.lease, Retry(timedelta(), "500"))])
    assert len(await claim(ledger[GenerateWork], 1)) == 1


async def test_tenant_claims_stay_within_its_limits(services):
    await chunks_due(services, "slow", 10)
    await chunks_due(services, "free", 10)
    most = {"slow": Rates(requests=2), "free": Rates()}
    work = GenerateWork(
        services.database, worker="w", lease=timedelta(seconds=30), limits=most, other_limits=Rates(tokens=4000)
    )

    assert tenants(await claim(work, 8)) == {"slow": 2, "free": 6}
    assert tenants(await claim(work, 8)) == {"free": 4}
    await chunks_due(services, "other", 10)
    assert tenants(await claim(work, 8)) == {"other": 4}


@pytest.mark.parametrize("lost_leases", [0, SUSPECT_AFTER + DEATHS_ALONE - 1])
async def test_suspect_becomes_poison_after_three_separate_lost_leases(lost_leases):
    from shared.domain.stages import poison

    poison.check(lost_leases)
    with pytest.raises(poison.Permanent):
        poison.check(SUSPECT_AFTER + DEATHS_ALONE)


async def test_deferred_work_is_not_due(services):
    await chunks_due(services, "one", 5)
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now() + interval '1 hour'"))

    assert await services.ledger[Backlogs].due() == []
    assert await claim(services.ledger[GenerateWork], 5) == []


@contextlib.asynccontextmanager
async def worker_over(settings):
    """Yield a worker with its own connections."""
    database = Database(settings.database_url.get_secret_value())
    try:
        yield GenerateWork(database, worker="w", lease=timedelta(seconds=30))
    finally:
        await database.aclose()


async def retry_until_available(action, failed):
    while True:
        try:
            return await action()
        except Transient:
            failed.set()
            await asyncio.sleep(0.01)


async def test_settlements_precede_claims_after_outage(services, settings):
    await chunks_due(services, "one", 3)
    link, proxied_settings = await proxied(settings)
    async with (
        contextlib.aclosing(link),
        worker_over(proxied_settings) as paying,
        worker_over(proxied_settings) as other,
    ):
        paid = [GenerateOutcome(chunk, "scripted", ("What?",), Usage(1, 1), 1) for chunk in await claim(paying, 3)]
        assert await claim(other, 3) == []

        link.change(Fault(mode="cut"))
        not_settled, not_claimed = asyncio.Event(), asyncio.Event()
        settling = asyncio.create_task(retry_until_available(lambda: paying.settle(paid), not_settled))
        claiming = asyncio.create_task(retry_until_available(lambda: claim(other, 3), not_claimed))
        await not_settled.wait()
        await not_claimed.wait()
        await end_leases(services)
        link.change(Fault())

        assert await claiming == []
        await settling
