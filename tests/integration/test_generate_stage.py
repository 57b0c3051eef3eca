"""Generate stage: questions are paid for once, stored under the key of the sent request, and their cost is counted."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.domain.corpus.collections import CollectionOptions
from shared.domain.errors import LeaseLost, RateLimited, Refused, Unavailable
from shared.domain.retry import Dead, Retry
from shared.domain.spending.budgets import Reserve
from shared.domain.spending.usage import Usage
from shared.domain.states import DocumentState
from shared.ingest.drain import Drain, DrainLimits
from shared.ledger.documents.dead_letters import DeadLetters
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.generation import GenerateWork
from tests.conftest import Library
from tests.integration.test_ledger import index_texts
from tests.support.api import work
from tests.support.planted import guards
from tests.support.stages import Changed
from tests.support.waiting import until_blocked

KEEPER = "The lighthouse keeper lives alone on the northern cliff all the year round."
PROMPT = "{count} {title} {headings} {text}"


def limited():
    """Return the error of a provider whose limits are used up for a moment: without it, the limiter waits a second."""
    return RateLimited("429", retry_after=timedelta(milliseconds=1))


class InterruptedModel:
    """A model whose nth call fails or never finishes."""

    def __init__(self, model, number, error=None):
        self.model = model
        self.number = number
        self.error = error
        self.made = 0
        self.reached = asyncio.Event()

    @property
    def name(self):
        return self.model.name

    async def complete(self, request):
        self.made += 1
        if self.made == self.number:
            self.reached.set()
            if self.error is None:
                await asyncio.Event().wait()
            raise self.error
        return await self.model.complete(request)


async def make_searchable(services):
    """Parse due documents, and record their texts as indexed, which needs neither embeddings nor Qdrant."""
    await work(services, "parse")
    await index_texts(services)


async def searchable(services):
    """Add a chunk whose questions are due."""
    await Library(services).add(KEEPER, "a.md")
    await make_searchable(services)


async def one_chunk(services, once):
    """Return a claimed chunk whose questions are due."""
    await once(searchable)
    return await claimed(services)


async def claimed(services):
    (chunk,) = (await services.ledger[GenerateWork].claim(1)).chunks
    return chunk


REPLIES = "(SELECT jsonb_array_length(r.replies) FROM paid_replies r WHERE r.content_key = c.content_key)"


async def row(services, columns=f"calls, prompt_tokens, attempts, {REPLIES} AS replies, leased_by"):
    async with services.database.begin() as connection:
        return (await connection.execute(Statement(f"SELECT {columns} FROM chunks c"))).one()


async def make_due(services):
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now()"))


async def set_prompt(services, name):
    return await services.ledger[Collections].ensure(
        "default",
        "default",
        embedding_model=services.settings.embedding_model,
        options=CollectionOptions(prompt=f"{name} {PROMPT}"),
    )


async def test_questions_are_stored_under_sent_prompt_key(services, library, provider):
    await set_prompt(services, "PROMPT-A")
    await library.add(KEEPER, "a.md")
    await make_searchable(services)
    await set_prompt(services, "PROMPT-B")
    await work(services)
    assert [provider.stats(containing=name)["calls"] for name in ("PROMPT-A", "PROMPT-B")] == [0, 1]

    await services.ledger[Documents].reindex(await set_prompt(services, "PROMPT-A"))
    await work(services)
    await services.ledger[Documents].reindex(await set_prompt(services, "PROMPT-B"))
    await work(services)

    assert [provider.stats(containing=name)["calls"] for name in ("PROMPT-A", "PROMPT-B")] == [1, 1]


async def test_return_to_paid_prompt_makes_no_call(services, library, provider):
    await set_prompt(services, "PROMPT-A")
    await library.add(KEEPER, "a.md")
    await work(services)
    await set_prompt(services, "PROMPT-B")
    await library.add(KEEPER, "b.md")
    await make_searchable(services)
    await set_prompt(services, "PROMPT-A")
    await work(services)

    assert provider.stats()["calls"] == 1
    assert {d.state for d in await services.ledger[Documents].page("default")} == {DocumentState.READY}


async def test_chunks_with_equal_keys_are_paid_once(services, library, provider):
    for number, name in enumerate(("PROMPT-A", "PROMPT-B")):
        await set_prompt(services, name)
        await library.add(KEEPER, f"{number}.md")
        await make_searchable(services)
    await set_prompt(services, "PROMPT-C")
    await work(services)

    assert provider.stats()["calls"] == 1
    assert {d.state for d in await services.ledger[Documents].page("default")} == {DocumentState.READY}


async def test_interrupted_reply_repair_resumes_with_paid_reply(services, once, provider):
    chunk = await one_chunk(services, once)
    provider.script(malformed_containing="lighthouse")
    interrupted = InterruptedModel(services.generator.model, 2, limited())

    outcome = await replace(services.generator, model=interrupted).process(chunk)
    await services.ledger[GenerateWork].settle([outcome])
    stored = await row(services)
    assert (stored.calls, stored.replies, stored.attempts) == (1, 1, 0)
    assert stored.prompt_tokens > 0

    provider.script(malformed_containing="")
    await make_due(services)
    await work(services, "generate")
    assert provider.stats()["calls"] == 2
    done = await row(services)
    assert (done.calls, done.replies) == (2, None)
    assert done.prompt_tokens > stored.prompt_tokens


@pytest.fixture
def per_question_generator(services):
    """Return a generator that makes one call per question."""
    defaults = services.generator.defaults
    generation = replace(defaults.generation, strategy="per-question")
    return replace(services.generator, defaults=replace(defaults, generation=generation))


async def test_kill_between_calls_repeats_only_inflight_call(services, once, provider, per_question_generator):
    await once(searchable)
    interrupted = InterruptedModel(services.generator.model, 4)
    stage = replace(per_question_generator, model=interrupted)
    (chunk,) = await stage.claim(1, {})
    killed = asyncio.create_task(stage.process(chunk, lambda: None))
    await interrupted.reached.wait()
    killed.cancel()
    stored = await row(services)
    assert (stored.calls, stored.replies) == (3, 3)

    await make_due(services)
    stage = per_question_generator
    (chunk,) = await stage.claim(1, {})
    outcome = await stage.process(chunk, lambda: None)
    await stage.settle([outcome])
    done = await row(services)
    assert done.replies is None
    assert done.calls == provider.stats()["calls"] == len(outcome.questions)


async def test_edit_between_calls_reuses_paid_replies(services, library, once, provider, per_question_generator):
    await once(searchable)
    interrupted = InterruptedModel(services.generator.model, 3)
    stage = replace(per_question_generator, model=interrupted)
    (chunk,) = await stage.claim(1, {})
    running = asyncio.create_task(stage.process(chunk, lambda: None))
    await interrupted.reached.wait()
    await library.add(f"{KEEPER}\n", "a.md")
    running.cancel()
    await stage.release([chunk.lease])

    await make_searchable(services)
    stage = per_question_generator
    (again,) = await stage.claim(1, {})
    outcome = await stage.process(again, lambda: None)

    assert again.lease.version == 2
    assert provider.stats()["calls"] == len(outcome.questions)


async def test_late_replies_are_kept_for_unchanged_content(services, library, once, provider, per_question_generator):
    await once(searchable)
    interrupted = InterruptedModel(services.generator.model, 3, limited())
    stage = replace(per_question_generator, model=interrupted)
    (chunk,) = await stage.claim(1, {})
    outcome = await stage.process(chunk, lambda: None)
    await library.add(f"{KEEPER}\n", "a.md")
    async with services.database.begin() as connection:
        await connection.execute(
            Statement("DELETE FROM paid_replies")
        )  # as if no reply had been stored before the edit
    await services.ledger[GenerateWork].settle([outcome])

    await make_searchable(services)
    stage = per_question_generator
    (again,) = await stage.claim(1, {})
    outcome = await stage.process(again, lambda: None)

    assert provider.stats()["calls"] == len(outcome.questions)


async def test_expired_paid_replies_are_deleted(services, once, per_question_generator):
    chunk = await one_chunk(services, once)
    interrupted = InterruptedModel(services.generator.model, 3, limited())
    await services.ledger[GenerateWork].settle(
        [await replace(per_question_generator, model=interrupted).process(chunk)]
    )

    await services.ledger[GenerateWork].forget_replies(timedelta(days=1))
    assert (await row(services)).replies == 2
    await services.ledger[GenerateWork].forget_replies(timedelta())
    assert (await row(services)).replies is None


async def test_retried_dead_letter_repeats_its_calls(services, library, provider):
    provider.script(malformed_containing="lighthouse")
    document = await library.add(KEEPER, "a.md")
    await work(services)
    assert ((await row(services)).calls, (await row(services)).replies) == (3, None)
    provider.script(malformed_containing="")

    await services.ledger[Documents].retry("default", document.id)
    await work(services)

    assert (await services.ledger[Documents].get("default", document.id)).state is DocumentState.READY


async def test_graceful_stop_keeps_and_counts_paid_replies(services, once, provider, per_question_generator):
    await once(searchable)
    interrupted = InterruptedModel(services.generator.model, 3)
    stopping = asyncio.Event()
    limits = DrainLimits(lease=timedelta(seconds=30), budget=timedelta(seconds=10), grace=timedelta(seconds=0.05))
    stage = replace(per_question_generator, model=interrupted)
    running = asyncio.create_task(Drain(stage, limits, stopping).run())
    await interrupted.reached.wait()
    stopping.set()
    await running

    stored = await row(services)
    assert (stored.calls, stored.replies, stored.leased_by) == (2, 2, None)


async def test_billed_refusal_is_counted(services, once):
    chunk = await one_chunk(services, once)
    refusing = InterruptedModel(services.generator.model, 1, Refused("no", usage=Usage(100, 10)))

    outcome = await replace(services.generator, model=refusing).process(chunk)
    await services.ledger[GenerateWork].settle([outcome])

    assert isinstance(outcome.decision, Dead)
    assert (await row(services))[:2] == (1, 100)


async def test_replies_to_another_prompt_are_not_reused(services, once, provider, per_question_generator):
    chunk = await one_chunk(services, once)
    interrupted = InterruptedModel(services.generator.model, 2, limited())
    outcome = await replace(per_question_generator, model=interrupted).process(chunk)
    await services.ledger[GenerateWork].settle([outcome])

    await set_prompt(services, "PROMPT-B")
    await make_due(services)
    stage = per_question_generator
    (chunk,) = await stage.claim(1, {})
    outcome = await stage.process(chunk, lambda: None)

    calls = provider.stats(containing="PROMPT-B")["calls"]
    assert (len(outcome.questions), outcome.calls) == (calls, calls + 1)


async def test_replies_of_reclaimed_chunk_are_not_stored(services, once, provider):
    chunk = await one_chunk(services, once)
    await make_due(services)
    await claimed(services)

    with pytest.raises(LeaseLost):
        await services.ledger[GenerateWork].keep_replies(chunk, (), Usage(100, 10), 1, Reserve("scripted", Usage()))


async def test_no_call_starts_after_possible_lease_expiry(services, once, provider):
    chunk = await one_chunk(services, once)

    def lost():
        raise LeaseLost

    outcome = await services.generator.process(chunk, lost)

    assert isinstance(outcome.decision, Retry)
    assert not outcome.decision.burns_attempt
    assert provider.stats()["calls"] == 0


@guards(
    "shared/ledger/work/generation.sql",
    " OR {is_called:w r.content_key} AS taken",
    " OR (FALSE AND {is_called:w r.content_key}) AS taken",
    means="a content whose key has changed is paid twice if its document is deleted during the call",
)
async def test_changed_key_waits_for_discarded_call(services, library, provider):
    """The parse workers and the generate workers have different prompts, as during an update."""

    async def claim():
        return await services.generator.claim(10, {})

    for name in ("a.md", "b.md"):
        await set_prompt(services, "PROMPT-A")
        document = await library.add(KEEPER, name)
        await make_searchable(services)
        await set_prompt(services, "PROMPT-B")
        if name == "a.md":
            (calling,) = await claim()
            await services.ledger[Documents].delete("default", document.id)

    assert await claim() is None  # its lease has ended, because the same content is being paid for
    assert await claim() == []
    stage = services.generator
    await stage.settle([await stage.process(calling, lambda: None)])
    await work(services)

    assert provider.stats()["calls"] == 1
    assert (await services.ledger[Documents].get("default", document.id)).state == DocumentState.READY


async def test_unstorable_questions_are_paid_once(services, library, provider):
    """A reply passes all checks, but the ledger cannot store it: the failure is stored, with its costs."""
    document = await library.add(KEEPER, "a.md")
    await make_searchable(services)
    stage = services.generator

    async def unstorable(chunk, require_lease):
        outcome = await services.generator.process(chunk, require_lease)
        return replace(outcome, questions=(*outcome.questions, "What is \0?"))

    limits = DrainLimits(lease=timedelta(seconds=30), budget=timedelta(seconds=10), grace=timedelta(seconds=5))
    await Drain(Changed(stage, process=unstorable), limits, asyncio.Event()).run()
    await work(services)

    shown = await services.ledger[Documents].get("default", document.id)
    assert (shown.state, shown.progress.calls, shown.progress.dead) == (DocumentState.DEGRADED, 1, 1)
    assert provider.stats()["calls"] == 1
    (letter,) = await services.ledger[DeadLetters].page("default")
    assert "cannot store a value" in letter.reason


async def test_absurd_number_of_tokens_is_stored(services, library, provider):
    provider.script(usage={"prompt_tokens": 3_000_000_000})
    document = await library.add(KEEPER, "a.md")
    await work(services)

    shown = await services.ledger[Documents].get("default", document.id)
    assert (shown.state, shown.progress.calls) == (DocumentState.READY, 1)
    assert 0 < shown.progress.prompt_tokens < 2**31


async def test_malformed_replies_of_dead_chunk_are_counted(services, library, provider):
    provider.script(malformed_containing="lighthouse")
    document = await library.add(KEEPER, "a.md")
    await work(services)

    progress = (await services.ledger[Documents].get("default", document.id)).progress
    assert (progress.calls, progress.dead) == (3, 1)
    assert progress.prompt_tokens > 0


async def test_rejected_provider_key_pauses_without_using_attempts(services, library, provider):
    for number in range(2):
        await library.add(f"{KEEPER} Number {number}.")
    await make_searchable(services)
    provider.script(status=401)
    await work(services, "generate")
    calls = provider.stats()["calls"]
    assert calls >= 1

    await make_due(services)
    await work(services, "generate")

    assert provider.stats()["calls"] == calls
    async with services.database.begin() as connection:
        found = await connection.execute(
            Statement("SELECT DISTINCT state, attempts, leased_by, lost_leases FROM chunks")
        )
        assert found.all() == [("generating", 0, None, 0)]


async def test_claim_skips_content_claimed_by_other_worker(services, library):
    await library.add("Another text, which is not claimed.", "c.md")
    for name in ("a.md", "b.md"):
        await library.add(KEEPER, name)
    await make_searchable(services)
    async with services.database.begin() as connection:
        await connection.execute(
            Statement(
                "UPDATE chunks SET leased_by = 'other', due_at = now() + interval '1 hour' WHERE id = "
                "(SELECT max(chunk_id::text)::uuid FROM chunk_contents WHERE content->>'text' LIKE '%lighthouse%')"
            )
        )
        claiming = asyncio.create_task(services.ledger[GenerateWork].claim(10))
        await until_blocked(services.database)

    assert [chunk.content.text for chunk in (await claiming).chunks] == ["Another text, which is not claimed."]


@pytest.mark.parametrize(
    ("bound", "statement"),
    [("statement_timeout", "SELECT pg_sleep(5)"), ("lock_timeout", "SELECT pg_advisory_xact_lock(4711)")],
)
async def test_timed_out_statement_raises_unavailable(services, bound, statement):
    async def bounded():
        async with services.database.begin() as connection:
            await connection.execute(Statement(f"SET LOCAL {bound} = '20ms'"))
            await connection.execute(Statement(statement))

    async with services.database.begin() as holder:
        await holder.execute(Statement("SELECT pg_advisory_xact_lock(4711)"))
        with pytest.raises(Unavailable) as caught:
            await bounded()

    assert caught.value.component == "ledger"
