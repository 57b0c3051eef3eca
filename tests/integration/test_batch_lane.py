"""The batch lane: plan, upload, create, poll and collect; each chunk is paid for once, and nothing is lost."""

import asyncio
import io
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from features.all import FEATURES
from features.erasure.check import ErasureScope, erasure_check_of
from features.erasure.ledger.erasures import Erasures
from shared.domain.errors import LeaseLost
from shared.domain.jobs import PauseReason
from shared.domain.spending.budgets import Reserve
from shared.domain.spending.rates import Rates
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.domain.states import BatchState, DocumentState
from shared.ingest.batches import lines as of_lines
from shared.ingest.batches.lane import BatchTerms
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.estimated import marked
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.batches import Batches, Probe
from shared.ledger.work.demand import Demand
from shared.ledger.work.generation import GenerateWork
from shared.providers.adapt import ModelQuirks
from shared.services.parts import Parts
from shared.services.prices import price
from tests.conftest import Library
from tests.integration.test_erasure import finished, make_all_due
from tests.support.api import calling, work
from tests.support.elapsed import age_limits
from tests.support.erasing import clean, erase
from tests.support.planted import guards
from tests.support.scenario import section, text_of
from tests.support.waiting import eventually

SOON = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)
INTERACTIVE, BULK, BATCH = 0, 1, 2
TERMS = BatchTerms(
    enabled=True,
    min_lines=1,
    max_lines=50_000,
    max_bytes=1_000_000,
    wait=SOON,
    poll=SOON,
    list_lag=SOON,
    stalled=HOUR,
)


@pytest.fixture
def unprobed(services, provider):
    """The lane with short times and without a minimum; the provider is not probed yet."""
    return replace(services.batch_lane, terms=TERMS)


async def pass_probe(services):
    await until(services, replace(services.batch_lane, terms=TERMS), "tenant IS NULL", "done")


@pytest.fixture
async def lane(unprobed, once):
    """The lane over a provider that has passed the probe."""
    await once(pass_probe)
    return unprobed


async def pass_probe_and_load(services):
    await pass_probe(services)
    await prepared(services, Library(services))


@pytest.fixture
async def loaded(unprobed, once):
    """The lane over a provider that has passed the probe, with three documents to generate questions for."""
    await once(pass_probe_and_load)
    return unprobed


@pytest.fixture
async def check(services, settings):
    """A function that returns all findings of the check of an erasure."""
    async with AsyncExitStack() as stack:
        erasure_check = erasure_check_of(Parts(settings, stack, features=FEATURES))

        async def findings(**scope):
            return await erasure_check.run(ErasureScope(**scope))

        yield findings


async def rows(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return result.all()


async def work_on(lane):
    """Work on batches until none is due, for half a second at most: with short times one may always be due."""
    stopping = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(0.5, stopping.set)
    await lane.work(stopping)
    timer.cancel()


async def until(services, lane, which="tenant IS NOT NULL", *targets):
    """Work on batches until the newest of some batches has one of these states."""
    statement = f"SELECT state FROM batches WHERE {which} ORDER BY created_at DESC LIMIT 1"

    async def reached():
        await work_on(lane)
        return [row.state for row in await rows(services, statement)] in [[target] for target in targets or ["done"]]

    try:
        await eventually(reached, poll_seconds=0.002)
    except AssertionError:
        raise AssertionError(await rows(services, "SELECT * FROM batches")) from None


async def add(library, count=3, *, lane=BATCH, words="number", first=0):
    for number in range(first, first + count):
        body = f"The lighthouse of {words} {number} stands on the northern cliff."
        await library.add(body, f"{words}-{number}", lane=lane)


async def prepared(services, library, count=3, **options):
    """Add documents whose texts are searchable, and whose questions are due."""
    await add(library, count, **options)
    await work(services, "parse", "index")


async def spent(services):
    sums = "sum(prompt_tokens) AS prompt, sum(completion_tokens) AS completion, sum(calls) AS calls"
    (row,) = await rows(services, f"SELECT {sums} FROM spent WHERE kind = 'generate'")
    return [row.prompt or 0, row.completion or 0, row.calls or 0]


def billed(provider):
    """Return the tokens and calls that the provider billed for chunks."""
    live, batches = provider.stats(), provider.batch_stats("number")
    tokens = [live[name] + batches[name] for name in ("prompt_tokens", "completion_tokens")]
    return [*tokens, sum(live["answered"].values()) + batches["lines"]]


async def states(services):
    return {document.state for document in await services.ledger[Documents].page("default")}


async def chunks(services, columns="lane, state, attempts, leased_by IS NOT NULL AS leased"):
    return await rows(services, f"SELECT {columns} FROM chunks ORDER BY document_id")


async def test_chunks_are_generated_by_batch(services, library, provider, unprobed):
    await prepared(services, library, 5)
    await work(services, "generate")
    assert await states(services) == {DocumentState.SEARCHABLE}

    await until(services, unprobed)
    await work(services, "index")

    stats = provider.batch_stats("number")
    assert await states(services) == {DocumentState.READY}
    assert provider.stats()["calls"] == 0
    assert (stats["lines"], stats["lines_twice"], stats["creates"], stats["second_batches"]) == (5, 0, 2, 0)
    assert stats["files"] == 0
    assert await spent(services) == billed(provider)
    assert await rows(services, "SELECT DISTINCT tier FROM spent WHERE kind = 'generate'") == [("batch",)]
    assert await rows(services, "SELECT * FROM batch_lines") == []


async def test_live_workers_ignore_batch_lane(services, loaded):

    assert await services.ledger[Backlogs].due() == []
    assert (await services.ledger[GenerateWork].claim(10)).chunks == []
    assert await services.ledger[Batches].due()


@guards(
    "shared/ingest/batches/lines.py",
    "replies = () if reply is None else (reply,)",
    "replies = ()",
    means="a useless reply in a batch is paid for again",
    case="share_malformed",
)
@pytest.mark.parametrize("fault", ["share_malformed", "share_truncated"])
async def test_useless_reply_is_repaired_without_second_payment(services, provider, loaded, fault):
    provider.batch_script(**{fault: 1})
    await until(services, loaded)
    assert await chunks(services) == [(BULK, "generating", 0, False)] * 3
    assert await rows(services, "SELECT jsonb_array_length(replies) FROM paid_replies") == [(1,)] * 3

    await work(services, "generate", "index")

    assert provider.stats()["calls"] == 3
    assert await states(services) == {DocumentState.READY}
    assert await chunks(services, "calls") == [(2,)] * 3
    assert await spent(services) == billed(provider)


@guards(
    "shared/ingest/batches/lines.py",
    "replace(result, usage=result.usage + prompt)",
    "result",
    means="the prompts of a batch whose replies report no tokens are free of charge",
)
@pytest.mark.parametrize("fault", ["", "share_malformed"])
async def test_batch_without_usage_is_booked_by_estimate(services, provider, loaded, fault):
    provider.batch_script(without_usage=True, **({fault: 1} if fault else {}))
    await until(services, loaded)

    models = await rows(services, "SELECT DISTINCT model FROM spent WHERE kind = 'generate'")
    assert models == [(marked(loaded.lines.model, is_estimated=True),)]
    (prompt, completion, calls), (real_prompt, real_completion, lines) = await spent(services), billed(provider)
    assert calls == lines == 3
    assert real_prompt <= prompt <= 3 * real_prompt
    assert 0 < completion <= 3 * real_completion


@guards(
    "shared/ingest/batches/collector.py",
    "again = is_of_all and self._lines.learn(refusals)",
    "again = False",
    means="a whole batch is generated at full price because the model does not know an optional field",
)
async def test_field_refused_by_whole_batch_is_omitted_next(services, provider, library, lane):
    lane = replace(lane, lines=replace(lane.lines, quirks=ModelQuirks()))
    provider.batch_script(refused_field="max_completion_tokens")
    await prepared(services, library, count=6)
    await eventually(lambda: _all_generated(services, lane))

    assert provider.stats()["calls"] == 0
    assert provider.batch_stats("number")["lines"] == 6


@guards(
    "shared/ingest/batches/lane.py",
    "return None if batch.tenant is None else (await self.endings.bounds()).get(batch.tenant)",
    "return None",
    means="batches are paid for although most of their replies cannot be used",
)
async def test_unusable_lines_pause_load_until_live_trial(services, provider, lane, library):
    provider.batch_script(share_malformed=1)
    await prepared(services, library, count=26)
    await until(services, lane)
    batches = provider.batch_stats("number")["lines"]
    assert await lane.endings.bounds() == {"default": 0}

    provider.batch_script(share_malformed=0)
    await prepared(services, library, words="ship")
    await work_on(lane)
    assert provider.batch_stats("ship")["lines"] == 0

    async with Redis.from_url(services.settings.redis_url.get_secret_value()) as redis:
        await age_limits(redis, timedelta(minutes=1))
    await rows(services, "UPDATE chunks SET due_at = now() WHERE state = 'generating' AND lane >= 2")
    await eventually(lambda: _pay_trial(services, lane))

    assert sum(provider.batch_stats(words)["lines"] for words in ("number", "ship")) == batches


async def _pay_trial(services, lane):
    """Work until the load has recovered, whose trials are live calls."""
    lane.endings._read_at = float("-inf")
    await work_on(lane)
    await work(services, "generate")
    bounds = await lane.endings.bounds()
    return bounds.get("default", 99) > 1


async def test_refused_line_is_dead_letter_with_text(services, provider, loaded):
    provider.batch_script(refused_containing="number 1 ")
    provider.script(refuse_chats_containing="number 1 ")
    await until(services, loaded)
    await work(services, "generate", "index")

    dead = [chunk.error for chunk in await chunks(services, "state, error") if chunk.state == "dead"]
    assert len(dead) == 1
    assert "answered 400" in dead[0]
    assert await states(services) == {DocumentState.READY, DocumentState.DEGRADED}
    assert provider.stats()["calls"] == 2  # of the chunk, and the neutral call


@guards(
    "shared/ingest/batches/collector.py",
    "if isinstance(result, ForeaskError) and of_lines.is_refusal_of_any(result):",
    "if False:",
    means="a schema that the provider does not support makes dead letters of all lines of a batch",
)
async def test_lines_refused_in_batch_are_generated_live(services, provider, loaded):
    provider.batch_script(share_refused=1)
    await until(services, loaded)
    await work(services, "generate", "index")

    assert await states(services) == {DocumentState.READY}
    assert provider.stats()["calls"] == 3
    assert await spent(services) == billed(provider)


@pytest.mark.parametrize("fault", ["share_expired", "share_missing", "share_overloaded", "share_zero"])
async def test_unfinished_line_is_sent_twice_then_live(services, provider, loaded, fault):
    provider.batch_script(**{fault: 1})
    await eventually(lambda: _in_lane(services, loaded, BULK))
    assert await chunks(services) == [(BULK, "generating", 0, False)] * 3
    assert await rows(services, "SELECT lines FROM batches WHERE tenant IS NOT NULL") == [(3,), (3,)]
    await work(services, "generate", "index")

    assert await states(services) == {DocumentState.READY}
    assert provider.stats()["calls"] == 3
    assert await spent(services) == billed(provider)


async def _in_lane(services, lane, number):
    await work_on(lane)
    return {chunk.lane for chunk in await chunks(services)} == {number}


async def test_mixed_results_are_booked_to_the_token(services, library, provider, lane):
    shares = ("malformed", "truncated", "expired", "missing", "overloaded", "zero", "refused")
    provider.batch_script(**{f"share_{name}": 0.08 for name in shares}, cut_contents=0.3)
    await prepared(services, library, 60)

    async def finished():
        await work_on(lane)
        await work(services, "generate", "index")
        return await states(services) <= {DocumentState.READY, DocumentState.DEGRADED}

    await eventually(finished)

    assert await spent(services) == billed(provider)
    assert await states(services) == {DocumentState.READY}


async def test_few_chunks_are_generated_live(services, provider, loaded):
    lane = replace(loaded, terms=replace(TERMS, min_lines=4))
    await until(services, lane)

    assert await chunks(services) == [(BULK, "generating", 0, False)] * 3
    assert provider.batch_stats()["creates"] == 0


async def test_full_batch_is_followed_by_another(services, library, provider, lane):
    lane = replace(lane, terms=replace(TERMS, max_lines=2))
    await prepared(services, library, 5)
    await eventually(lambda: _all_generated(services, lane))

    planned = await rows(services, "SELECT lines FROM batches WHERE tenant IS NOT NULL ORDER BY lines")
    assert planned == [(1,), (2,), (2,)]
    assert provider.batch_stats("number")["lines"] == 5


async def _all_generated(services, lane):
    await work_on(lane)
    return {chunk.state for chunk in await chunks(services)} == {"generated"}


# --- submission ---


async def test_lost_reply_of_create_is_adopted(services, provider, loaded):
    provider.batch_script(lost_creates=1, lost_uploads=0.5)
    await until(services, loaded)

    stats = provider.batch_stats("number")
    assert (stats["creates"], stats["create_calls"], stats["second_batches"], stats["lines_twice"]) == (1, 1, 0, 0)


@guards(
    "shared/ingest/batches/lane.py",
    "batch.since_tried < self.terms.list_lag:",
    "batch.since_tried < timedelta():",
    means="a create is repeated before the list must show the batch",
)
async def test_create_is_repeated_only_after_list_lag(services, provider, loaded):
    lane = replace(loaded, terms=replace(TERMS, list_lag=HOUR))
    provider.batch_script(cut_creates=1)
    await until(services, lane, "tried_at IS NOT NULL", "creating")
    provider.batch_script(cut_creates=0)
    for minutes in (1, 59):
        tried = "UPDATE batches SET due_at = now(), tried_at = now() - CAST(:age AS interval)"
        await rows(services, tried, age=timedelta(minutes=minutes))
        await work_on(lane)
    assert provider.batch_stats()["create_calls"] == 1

    first_file = (await rows(services, "SELECT file_id FROM batches WHERE tenant IS NOT NULL"))[0].file_id
    await rows(services, "UPDATE batches SET due_at = now(), tried_at = now() - interval '61 minutes'")
    await until(services, lane)

    stats = provider.batch_stats("number")
    assert (stats["create_calls"], stats["second_batches"], stats["lines_twice"]) == (2, 0, 0)
    assert (await rows(services, "SELECT file_id FROM batches WHERE tenant IS NOT NULL"))[0].file_id != first_file


@guards(
    "shared/ingest/batches/lane.py",
    "await self.api.delete_file(batch.file_id)",
    "pass",
    means="a delayed create of a lost claim succeeds",
)
async def test_delayed_create_of_lost_claim_makes_no_batch(services, provider, loaded):
    lane = replace(loaded, terms=replace(TERMS, list_lag=HOUR))
    provider.batch_script(cut_creates=1)
    await until(services, lane, "tried_at IS NOT NULL", "creating")
    (stale,) = await rows(services, "SELECT id, file_id FROM batches WHERE tenant IS NOT NULL")
    provider.batch_script(cut_creates=0, stuck=True, lists_no_files=True)  # else other steps delete the file, too
    await rows(services, "UPDATE batches SET due_at = now(), tried_at = now() - interval '61 minutes'")
    await until(services, lane, "tenant IS NOT NULL", "running")

    with pytest.raises(Exception, match="answered 400"):
        await lane.api.create(stale.file_id, str(stale.id))
    assert provider.batch_stats()["second_batches"] == 0


async def test_nothing_is_created_without_complete_list(services, provider, loaded):
    for number in range(150):
        file_id = await loaded.api.upload("other.jsonl", _other(number))
        await loaded.api.create(file_id, f"another-{number}")
    made = provider.batch_stats()["creates"]
    provider.batch_script(list_fails=True)
    await rows(services, "UPDATE batches SET created_at = created_at - interval '1 day'")
    await until(services, loaded, "tenant IS NOT NULL", "creating")
    await rows(services, "UPDATE batches SET created_at = created_at - interval '1 day' WHERE state = 'creating'")
    for _round in range(5):
        await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'creating'")
        await work_on(loaded)
    assert provider.batch_stats()["creates"] == made

    provider.batch_script(list_fails=False)
    await until(services, loaded)
    assert provider.batch_stats()["creates"] == made + 1


def _other(number):
    return io.BytesIO(b'{"custom_id": "%d", "method": "POST", "url": "/v1/chat/completions"}' % number)


async def test_concurrent_workers_create_each_batch_once(services, library, provider, lane):
    lag = timedelta(seconds=1)
    provider.batch_script(
        lost_creates=0.5, cut_creates=0.3, lost_uploads=0.3, list_lag_seconds=0.5, running_seconds=0.1
    )
    lane = replace(lane, terms=replace(TERMS, max_lines=4, list_lag=lag))
    await prepared(services, library, 40)
    # Claims end early, so that several workers work on one batch.
    lanes = [
        replace(lane, batches=Batches(services.database, worker=f"worker-{n}", lease=timedelta(seconds=0.05)))
        for n in range(3)
    ]

    async def generated():
        await asyncio.gather(*(work_on(each) for each in lanes))
        return {chunk.state for chunk in await chunks(services)} == {"generated"}

    await eventually(generated)

    stats = provider.batch_stats("number")
    assert (stats["second_batches"], stats["lines"], stats["lines_twice"]) == (0, 40, 0)
    await eventually(lambda: _all_done(services, lane))
    assert await spent(services) == billed(provider)


async def _all_done(services, lane):
    await work_on(lane)
    return {row.state for row in await rows(services, "SELECT state FROM batches")} == {"done"}


async def test_stale_claim_changes_nothing(services, loaded):
    lane = replace(loaded, terms=replace(TERMS, poll=HOUR))
    await until(services, lane, "tenant IS NOT NULL", "running")
    await rows(services, "UPDATE batches SET due_at = now()")
    stale = await services.ledger[Batches].claim(lane.provider)
    await rows(services, "UPDATE batches SET due_at = now()")
    await services.ledger[Batches].claim(lane.provider)

    batches = services.ledger[Batches]
    for change in (
        batches.extend(stale),
        batches.postpone(stale, HOUR),
        batches.seal(stale),
        batches.uploaded(stale, "file"),
        batches.try_create(stale),
        batches.started(stale, "batch", poll_after=HOUR),
        batches.polled(stale, 1, poll_after=HOUR),
        batches.ended(stale),
        batches.divide(stale, [], 1),
        batches.finish(stale, None),
        batches.drop_lines(stale, [1]),
        batches.settle(stale, [], output_bytes=1, error_bytes=1),
        batches.fill(stale, 1, key_of=lane.lines.key_of, line_of=lane.lines.planned, reserve_of=lane.lines.reserve_of),
    ):
        with pytest.raises(LeaseLost):
            await change


async def test_prompt_changed_after_planning_drops_line(services, provider, loaded):
    lane = replace(loaded, terms=replace(TERMS, wait=HOUR))
    await until(services, lane, "tenant IS NOT NULL", "planning")
    other = replace(lane, lines=replace(lane.lines, model="another-model"), terms=TERMS)
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'planning'")
    await eventually(lambda: _all_generated(services, other))

    planned = await rows(services, "SELECT model, lines FROM batches WHERE tenant IS NOT NULL ORDER BY created_at")
    assert planned == [("scripted", 0), ("another-model", 3)]
    assert await spent(services) == billed(provider)


# --- ends ---


async def test_batch_over_token_limit_is_planned_again_smaller(services, library, provider, lane):
    provider.batch_script(enqueued_tokens=1_500)
    await prepared(services, library, 8)
    await eventually(lambda: _all_generated(services, lane))
    planned = "SELECT state, lines, token_limit FROM batches WHERE tenant IS NOT NULL ORDER BY created_at"
    failed, *later = await rows(services, planned)
    assert failed == ("failed", 8, 1_500)
    assert {(batch.state, batch.lines) for batch in later} == {("done", 1)}
    assert await chunks(services) == [(BATCH, "generated", 0, False)] * 8


async def test_configured_token_limit_is_never_exceeded(services, library, provider, lane):
    provider.batch_script(enqueued_tokens=5_000, running_seconds=0.2)
    lane = replace(lane, terms=replace(TERMS, queue_tokens=5_000))
    await prepared(services, library, 20)
    await eventually(lambda: _all_generated(services, lane))

    assert await rows(services, "SELECT DISTINCT state FROM batches WHERE tenant IS NOT NULL") == [("done",)]
    assert len(await rows(services, "SELECT 1 FROM batches WHERE tenant IS NOT NULL")) >= 4


async def test_stalled_batch_is_cancelled_and_its_results_kept(services, library, provider, lane):
    lane = replace(lane, terms=replace(TERMS, stalled=timedelta(seconds=0.2)))
    provider.batch_script(stuck=True, done_share=0.5, lost_cancels=0.5)
    await prepared(services, library, 4)
    await until(services, lane)

    first, *_ = await rows(services, "SELECT lines, settled FROM batches WHERE tenant IS NOT NULL ORDER BY created_at")
    stats = provider.batch_stats("number")
    assert first == (4, 4)
    assert stats["lines"] == [chunk.state for chunk in await chunks(services)].count("generated")
    assert stats["lines"] >= 2
    assert stats["lines_twice"] == 0
    assert await spent(services) == billed(provider)


@guards(
    "shared/ingest/batches/collector.py",
    "                await self._store([failure], live, *self._collected)",
    "                raise",
    means="a batch with a result that the ledger cannot store is collected again and again",
)
async def test_unstorable_result_of_batch_is_dead(services, provider, loaded, monkeypatch):
    generated, unstorable = of_lines.generated, []

    def one_unstorable(line, *values):
        unstorable.append(line.lease.token)
        outcome = generated(line, *values)
        return replace(outcome, questions=("What is \0?",)) if line.lease.token == unstorable[0] else outcome

    monkeypatch.setattr(of_lines, "generated", one_unstorable)
    await until(services, loaded)
    await work(services, "index")

    assert sorted(chunk.state for chunk in await chunks(services)) == ["dead", "indexed", "indexed"]
    stats = provider.batch_stats("number")
    assert (stats["lines"], stats["lines_twice"], provider.stats()["calls"]) == (3, 0, 0)
    assert await spent(services) == billed(provider)


async def test_cut_collection_resumes_at_committed_line(services, library, provider, lane, monkeypatch):
    monkeypatch.setattr("shared.ingest.batches.collector._SLICE", 2)
    await prepared(services, library, 9)
    await until(services, replace(lane, terms=replace(TERMS, poll=HOUR)), "tenant IS NOT NULL", "running")
    settled = []
    settle = Batches.settle

    async def settle_once(self, batch, outcomes, **offsets):
        await settle(self, batch, outcomes, **offsets)
        settled.append(len(outcomes))
        raise LeaseLost

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "settle", settle_once)
        for _round in range(3):
            await rows(services, "UPDATE batches SET due_at = now()")
            await work_on(lane)
    assert settled == [2, 2, 2]
    (batch,) = await rows(services, "SELECT settled, output_bytes FROM batches WHERE tenant IS NOT NULL")
    assert batch.settled == 6
    await rows(services, "UPDATE batches SET due_at = now()")
    before = provider.batch_stats()["content_bytes"]
    await until(services, lane)

    assert provider.batch_stats()["content_bytes"] - before < 0.7 * before
    assert await spent(services) == billed(provider)


async def test_finish_is_repeated_after_files_were_deleted(services, provider, loaded, monkeypatch):

    async def killed(self, batch, error):
        raise LeaseLost

    lane = replace(loaded, terms=replace(TERMS, poll=HOUR))
    await until(services, lane, "tenant IS NOT NULL", "running")
    await rows(services, "UPDATE batches SET due_at = now()")
    with monkeypatch.context() as patch:
        patch.setattr(Batches, "finish", killed)
        await work_on(lane)
    assert provider.batch_stats()["files"] == 0
    await rows(services, "UPDATE batches SET due_at = now()")
    await work_on(lane)

    assert await rows(services, "SELECT state, error FROM batches WHERE tenant IS NOT NULL") == [("done", None)]


# --- other work on the same content ---


async def test_upload_does_not_wait_for_batch(services, library, provider, lane):
    provider.batch_script(running_seconds=3600)
    await prepared(services, library, 1)
    await until(services, lane, "tenant IS NOT NULL", "running")
    await library.add("The lighthouse of number 0 stands on the northern cliff.", "upload", lane=INTERACTIVE)
    await work(services, "parse", "index")
    assert (await services.ledger[GenerateWork].claim(1)).chunks == []

    await services.ledger[Batches].yield_to_uploads()
    await work(services, "generate", "index")
    assert await states(services) == {DocumentState.READY}
    assert provider.stats()["calls"] == 1

    provider.batch_script(running_seconds=0)
    await until(services, lane)
    assert await states(services) == {DocumentState.READY}
    assert await spent(services) == billed(provider)
    assert (await spent(services))[2] == 2


async def test_bulk_upload_of_same_content_waits_for_batch(services, library, provider, lane):
    provider.batch_script(running_seconds=3600)
    await prepared(services, library, 1)
    await until(services, lane, "tenant IS NOT NULL", "running")
    await library.add("The lighthouse of number 0 stands on the northern cliff.", "again", lane=BULK)
    await work(services, "parse", "index", "generate")
    await services.ledger[Batches].yield_to_uploads()
    await work(services, "generate")
    assert provider.stats()["calls"] == 0

    provider.batch_script(running_seconds=0)
    await until(services, lane)
    await work(services, "index")
    assert await states(services) == {DocumentState.READY}
    assert provider.stats()["calls"] == 0


@guards(
    "shared/ledger/work/generation.py",
    "(NOT {lanes.is_interactive(chunk)}",
    "(TRUE",
    means="an upload waits for the batch of a replaced version",
    case="edited0",
)
@pytest.mark.parametrize("edited", [(INTERACTIVE, 2), (BULK, 1), (BATCH, 0)])
async def test_edit_during_batch_waits_unless_interactive(services, library, provider, lane, edited):
    edit_lane, calls = edited
    provider.batch_script(running_seconds=3600)
    same, old, new = (section(f"number{word}") for word in ("same", "old", "new"))
    await library.add(text_of("number", [same, old]), "a.md", lane=BATCH)
    await work(services, "parse", "index")
    await until(services, lane, "tenant IS NOT NULL", "running")
    await library.add(text_of("number", [same, new]), "a.md", lane=edit_lane)
    await work(services, "parse", "index")
    assert len(await rows(services, "SELECT * FROM abandoned_calls")) == 2
    await work(services, "generate", "index")
    assert provider.stats()["calls"] == calls

    provider.batch_script(running_seconds=0)

    async def ready():
        await work_on(lane)
        await work(services)
        return await states(services) == {DocumentState.READY}

    await eventually(ready)
    assert provider.stats()["calls"] == calls
    assert provider.batch_stats("number")["lines"] == (3 if edit_lane == BATCH else 2)
    assert await spent(services) == billed(provider)
    assert await rows(services, "SELECT * FROM abandoned_calls") == []


async def test_line_of_deleted_document_is_not_sent(services, provider, loaded):
    lane = replace(loaded, terms=replace(TERMS, wait=HOUR))
    await until(services, lane, "tenant IS NOT NULL", "planning")
    document = (await services.ledger[Documents].page("default"))[0]
    await services.ledger[Documents].delete("default", document.id)
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'planning'")
    await until(services, replace(lane, terms=TERMS))

    assert provider.batch_stats("number")["lines"] == 2
    assert await rows(services, "SELECT * FROM abandoned_calls") == []


@guards(
    "shared/ledger/work/batches.sql",
    "                     OR b.cancelled_at IS NOT NULL\n",
    "",
    means="an erasure waits for a week for a batch of a provider that is not configured any more",
    case="running",
)
@pytest.mark.parametrize("state", ["running", "collecting"])
async def test_erasure_ends_batch_of_removed_provider(services, provider, loaded, state):
    provider.batch_script(stuck=True)
    await until(services, loaded, "tenant IS NOT NULL", "running")
    if state == "collecting":
        ended = "UPDATE batches SET state = 'collecting', output_file_id = 'file' WHERE tenant IS NOT NULL"
        await rows(services, ended)
    document = (await services.ledger[Documents].page("default"))[0]
    erasure = await services.ledger[Erasures].start_document(document.id)

    await until(services, replace(loaded, provider="https://another.example.org/v1"), "tenant IS NOT NULL", "failed")

    await finished(services, erasure)
    (batch,) = await rows(services, "SELECT error FROM batches WHERE tenant IS NOT NULL")
    assert batch.error == "its provider is not configured any more"


async def upload_and_lose_id(services, provider, lane):
    """Upload the input file of a batch, and lose the reply with its id."""
    uploads = provider.batch_stats()["uploads"]
    provider.batch_script(lost_uploads=1.0)
    await work_until(lane, lambda: provider.batch_stats()["uploads"] > uploads)
    provider.batch_script(lost_uploads=0.0)


async def work_until(lane, condition):
    async def holds():
        await work_on(lane)
        return condition()

    await eventually(holds, poll_seconds=0.002)


@guards(
    "shared/ingest/batches/lane.py",
    "if name == input_file_name(batch.id)}",
    "if False}",
    means="an input file whose id was lost stays at the provider",
)
async def test_input_file_with_lost_id_is_deleted(services, provider, loaded):
    await upload_and_lose_id(services, provider, loaded)
    assert provider.batch_stats()["files"] >= 1

    await until(services, loaded)

    assert provider.batch_stats("number")["lines"] == 3
    assert provider.batch_stats()["files"] == 0


@pytest.mark.parametrize("knows_no_expiry", [False, True])
async def test_unlisted_input_file_expires_or_is_reported(services, provider, loaded, check, knows_no_expiry):
    """The provider lists no files, so a file with a lost id cannot be found."""
    provider.batch_script(lists_no_files=True, knows_no_expiry=knows_no_expiry)
    await upload_and_lose_id(services, provider, loaded)

    await until(services, loaded)

    stats = provider.batch_stats()
    assert stats["files"] >= 1
    assert set(stats["file_seconds"]) == {2_592_000 if knows_no_expiry else 604_800}
    unchecked = [finding for finding in await check(tenant="default") if finding.unchecked is not None]
    assert [finding.engine for finding in unchecked] == ["provider"]
    provider.batch_script(lists_no_files=False)
    (found,) = [finding for finding in await check(tenant="default") if finding.engine == "provider"]
    assert (found.count, found.unchecked) == (stats["files"], None)


@guards(
    "features/erasure/ledger/erasures.sql",
    "b.cancelled_at <= e.started_at AND {OPEN_BATCHES:b})",
    "false)",
    means="an erasure finishes while the provider has the texts",
    case="tenant",
)
@pytest.mark.parametrize("scope", ["collection", "tenant", "document"])
async def test_erasure_cancels_batch_and_restores_nothing(services, provider, loaded, scope):
    provider.batch_script(stuck=True, done_share=1)
    await until(services, loaded, "tenant IS NOT NULL", "running")
    erasures, document = services.ledger[Erasures], (await services.ledger[Documents].page("default"))[0]
    if scope == "document":
        erasure = await erasures.start_document(document.id)
    else:
        erasure = await erasures.start("default", "default" if scope == "collection" else None)

    for _round in range(10):
        await clean(services)
        await make_all_due(services)
    assert not await erase(services)  # the provider still has the texts
    await until(services, loaded, "tenant IS NOT NULL", "done")
    await finished(services, erasure)

    assert provider.batch_stats()["files"] == 0
    left = {"tenant": 0, "collection": 0, "document": 2}[scope]
    assert len(await rows(services, "SELECT 1 FROM completions")) == left
    assert len(await rows(services, "SELECT 1 FROM batches WHERE tenant IS NOT NULL")) == (scope != "tenant")


async def test_chunks_of_paused_load_wait(services, library, provider, lane):
    provider.batch_script(share_malformed=1)
    load = await services.ledger[Jobs].open_load(await library.collection(), key=None, expected=None)
    for number in range(2):
        new = await library.new(f"The lighthouse of number {number} stands.", f"{number}.md", lane=BATCH)
        await services.ledger[Documents].submit(replace(new, job_id=load.job.id))
    await work(services, "parse", "index")
    await services.ledger[Jobs].pause("default", load.job.id, PauseReason.USER)
    await work_on(lane)
    assert not await services.ledger[Batches].due()
    assert await rows(services, "SELECT 1 FROM batches WHERE tenant IS NOT NULL") == []

    await services.ledger[Jobs].resume("default", load.job.id)
    await until(services, lane)
    assert [chunk.lane for chunk in await chunks(services)] == [17, 17]  # the bulk lane of its job
    assert await rows(services, "SELECT DISTINCT job_id FROM spent WHERE kind = 'generate'") == [(load.job.id,)]


async def test_batch_leases_do_not_starve_uploads_of_tenant(services, library, lane):
    await prepared(services, library, 5)
    await until(services, replace(lane, terms=replace(TERMS, wait=HOUR)), "tenant IS NOT NULL", "planning")
    assert {chunk.leased for chunk in await chunks(services)} == {True}
    await prepared(services, library, 2, lane=INTERACTIVE, first=10)

    two_at_once = Rates(requests=2)
    limited = GenerateWork(services.database, worker="w", lease=HOUR, other_limits=two_at_once)
    assert len((await limited.claim(10)).chunks) == 2
    rows_of = await services.ledger[Demand].rows("generate", 100)
    assert rows_of["default"].leased == 2
    assert (await services.ledger[Backlogs].measure("default", [])).stages["generate"].in_flight == 7


# --- providers that cannot be used, and the setting ---


@pytest.mark.parametrize(
    "case",
    [
        ("pretends", "do not answer the two requests"),
        ("forgets", "neither metadata nor input files"),
        ("absent", "no such file or batch"),
    ],
)
async def test_unusable_provider_is_refused_by_probe(services, library, provider, unprobed, case):
    fault, reason = case
    provider.batch_script(**{fault: True})
    await prepared(services, library)
    await until(services, unprobed, "tenant IS NULL", "failed")
    await work_on(unprobed)

    probe = await services.ledger[Batches].probe(unprobed.provider, "scripted")
    assert probe.state is BatchState.FAILED
    assert reason in probe.error
    assert await chunks(services) == [(BULK, "generating", 0, False)] * 3
    assert len(await rows(services, "SELECT 1 FROM batches")) == 1


async def test_probe_waits_until_list_is_complete(services, provider, library, unprobed):
    provider.batch_script(list_lag_seconds=0.3)
    await prepared(services, library)
    lane = replace(unprobed, terms=replace(TERMS, list_lag=timedelta(seconds=5)))
    await until(services, lane, "tenant IS NULL", "done", "failed")

    probe = await services.ledger[Batches].probe(lane.provider, "scripted")
    assert probe == Probe(BatchState.DONE, None)


async def test_disabled_lane_leaves_chunks_to_live_workers(services, provider, loaded):
    await work_on(replace(loaded, terms=replace(TERMS, enabled=False)))
    await work(services, "generate", "index")

    assert await states(services) == {DocumentState.READY}
    assert provider.batch_stats()["creates"] == 0


async def test_disabled_lane_still_collects_its_batches(services, loaded):
    await until(services, replace(loaded, terms=replace(TERMS, poll=HOUR)), "tenant IS NOT NULL", "running")
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    await until(services, replace(loaded, terms=replace(TERMS, enabled=False)))

    assert {chunk.state for chunk in await chunks(services)} == {"generated"}


async def test_planned_batch_of_former_provider_is_planned_again(services, provider, loaded):
    await until(services, replace(loaded, terms=replace(TERMS, wait=HOUR)), "tenant IS NOT NULL", "planning")
    await rows(services, "UPDATE batches SET provider = 'elsewhere', due_at = now() WHERE state = 'planning'")
    await eventually(lambda: _all_generated(services, loaded))

    ended = await rows(
        services, "SELECT provider, state, settled FROM batches WHERE tenant IS NOT NULL ORDER BY created_at"
    )
    assert ended == [("elsewhere", "failed", 3), (loaded.provider, "done", 3)]


@pytest.mark.parametrize(("age", "state"), [("6 days", "running"), ("8 days", "failed")])
async def test_running_batch_of_former_provider_is_abandoned_late(services, loaded, age, state):
    await until(services, replace(loaded, terms=replace(TERMS, poll=HOUR)), "tenant IS NOT NULL", "running")
    moved = "provider = 'elsewhere', due_at = now(), created_at = now() - CAST(CAST(:age AS text) AS interval)"
    await rows(services, f"UPDATE batches SET {moved} WHERE tenant IS NOT NULL", age=age)
    await work_on(replace(loaded, terms=replace(TERMS, enabled=False)))

    assert await rows(services, "SELECT state FROM batches WHERE tenant IS NOT NULL") == [(state,)]


async def test_old_batches_are_forgotten(services, loaded):
    await until(services, loaded)
    await services.ledger[Batches].forget(HOUR)
    assert len(await rows(services, "SELECT 1 FROM batches")) == 2
    await services.ledger[Batches].forget(timedelta())
    assert await rows(services, "SELECT tenant FROM batches") == [(None,)]


PLACES = ("Anchor", "Beacon", "Cutter", "Dinghy", "Ensign", "Funnel", "Galley")
CACHED = {"prompt_tokens": 600, "prompt_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 100}}
LISTED = {"llm_base_url": "https://api.openai.com/v1", "llm_model": "gpt-5-mini"}  # half price in flex, less in a cache


async def generate_one(services, flex=None):
    """Generate the questions of one chunk in a live call."""
    generator = replace(services.generator, flex=flex)
    (chunk,) = (await services.ledger[GenerateWork].claim(1)).chunks
    await services.ledger[GenerateWork].settle([await generator.process(chunk)])


async def pay_without_questions(services):
    """Record a call in the tier flex for a chunk that needs more calls."""
    (chunk,) = (await services.ledger[GenerateWork].claim(1)).chunks
    following = Reserve("scripted", Usage())
    await services.ledger[GenerateWork].keep_replies(chunk, [], Usage(500, 50), 1, following, tier=Tier.FLEX)
    await services.ledger[GenerateWork].release([chunk.lease])


async def move_to_batch_lane(services, limit):
    """Move waiting chunks to the batch lane, and postpone the others."""
    due = "UPDATE chunks SET due_at = now() + CAST(CAST(:after AS text) AS interval) WHERE state = 'generating'"
    await rows(services, due, after="1 hour")
    chosen = f"SELECT id FROM chunks WHERE state = 'generating' ORDER BY ordinal LIMIT {limit}"
    await rows(services, f"UPDATE chunks SET lane = lane + {BATCH}, due_at = now() WHERE id IN ({chosen})")


async def test_document_cost_equals_usage_in_every_tier(services, settings, library, provider, lane):
    """A chunk is generated in the standard tier, in flex, with a cache in both, by batch, and by batch and live."""
    opened = await services.ledger[Jobs].open_load(await library.collection(), key=None, expected=None)
    text_of_all = "\n\n".join(f"# {place}\n\n" + f"The {place} lies in the northern bay. " * 40 for place in PLACES)
    await services.ledger[Documents].submit(replace(await library.new(text_of_all, "a.md"), job_id=opened.job.id))
    await work(services, "parse", "index")
    flex = services.generator.model.in_tier(Tier.FLEX)

    await generate_one(services)
    await generate_one(services, flex)
    provider.script(usage=CACHED)
    await generate_one(services)
    await generate_one(services, flex)
    provider.script(usage={})
    provider.batch_script(share_malformed=1)
    await move_to_batch_lane(services, 2)
    await until(services, lane)
    await generate_one(services)
    await generate_one(services, flex)
    provider.batch_script(share_malformed=0)
    await rows(services, "UPDATE chunks SET due_at = now() WHERE state = 'generating'")
    await pay_without_questions(services)
    await move_to_batch_lane(services, 1)
    await eventually(lambda: _all_generated(services, lane))
    await work(services, "index")

    await rows(services, "UPDATE spent SET model = :model WHERE kind = 'generate'", model=LISTED["llm_model"])
    async with calling(settings.model_copy(update=LISTED), services) as client:
        (document,) = (await client.get("/v1/documents")).json()["items"]
        parts = (await client.get(f"/v1/documents/{document['id']}/chunks")).json()["items"]
        usage = (await client.get("/v1/usage")).json()["items"]
        job = (await client.get(f"/v1/jobs/{opened.job.id}")).json()
    calls = {each["tier"]: each["calls"] for each in usage if each["kind"] == "generate"}
    assert calls == {"standard": 3, "flex": 4, "batch": 3}
    assert len(parts) == len(PLACES)
    total = sum(each["cost"] for each in usage if each["kind"] == "generate")
    costs = [document["usage"]["cost"], sum(part["usage"]["cost"] for part in parts), job["cost"]]
    assert costs == pytest.approx([total] * 3, abs=1e-7)
    assert total < 0.8 * price(settings.model_copy(update=LISTED), "generate", Usage(*(await spent(services))[:2]))
