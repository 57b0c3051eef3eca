"""A load whose paid replies mostly end in the same unusable way pauses, and resumes by itself."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from shared.ledger.postgres.statements import Statement
from shared.providers.chat import OpenAIChat
from shared.providers.limiter.endings import USABLE, Endings, LoadPaused
from shared.providers.provider import Provider
from tests.conftest import Library
from tests.support.api import work
from tests.support.elapsed import age_limits
from tests.support.planted import guards
from tests.support.raw import raw_server, reply
from tests.support.waiting import eventually

ACME, OTHER = "acme", "other"
BAD, WORSE = "the reply contains only thinking", "broken JSON"
PAUSE = timedelta(seconds=30)


@pytest.fixture
async def redis(stack) -> AsyncIterator[Redis]:
    async with Redis.from_url(stack.settings.redis_url.get_secret_value()) as redis:
        yield redis


class Processes:
    """Processes that share the endings of one model, whose time the test moves forward."""

    def __init__(self, redis):
        self.redis, self.prefix, self.now, self.token = redis, f"foreask:limits:{{{uuid4().hex}}}:", 0.0, 0

    def started(self):
        return Endings(self.redis, lambda name: self.prefix + name, lambda: self.now)

    async def elapse(self, span):
        self.now += span.total_seconds()
        await age_limits(self.redis, span)

    async def claim(self, endings, tenant=ACME):
        """Claim a chunk, if the tenant may hold one; return the token of its lease."""
        bound = (await endings.bounds()).get(tenant, 99)
        self.token += 1
        if bound == 0:
            return None
        await endings.claimed([(tenant, self.token)])
        return self.token

    async def end(self, endings, *kinds, tenant=ACME):
        """End calls of chunks that were claimed before."""
        for kind in kinds:
            await endings.record(tenant, 0, [kind])
        self.now += 1  # each process reads the state once a second


@pytest.fixture
def processes(redis):
    return Processes(redis)


@guards(
    "shared/providers/limiter/endings.lua",
    "local MOST = 25 ",
    "local MOST = 50 ",
    means="a load pays on although most replies cannot be used",
    case="first calls",
)
@pytest.mark.parametrize(
    ("kinds", "pauses"),
    [
        pytest.param([BAD] * 26, True, id="first calls"),
        pytest.param([BAD] * 25, False, id="too few"),
        pytest.param([BAD, USABLE] * 25, False, id="half"),
        pytest.param([BAD, USABLE] * 25 + [BAD, BAD], True, id="more than half"),
        pytest.param([BAD, WORSE] * 25, False, id="two ways"),
        pytest.param([BAD] * 25 + [USABLE] * 26 + [BAD] * 24, False, id="older than 50 calls"),
    ],
)
async def test_load_pauses_by_last_endings(processes, kinds, pauses):
    one, two = processes.started(), processes.started()

    await processes.end(one, *kinds)
    await processes.end(one, USABLE, tenant=OTHER)

    assert await one.bounds() == await two.bounds() == ({ACME: 0} if pauses else {})
    if pauses:
        assert BAD in (await two.pauses())[ACME].sentence
        with pytest.raises(LoadPaused, match=BAD) as caught:
            two.require(ACME, 1)
        assert not caught.value.burns_attempt
    else:
        two.require(ACME, 1)
    two.require(OTHER, 1)


async def test_trial_without_usable_reply_doubles_pause(processes):
    endings = processes.started()
    await processes.end(endings, *[BAD] * 26)
    pauses = []
    for _ in range(5):
        pause = (await endings.pauses())[ACME].left
        pauses.append(round(pause.total_seconds()))
        assert await processes.claim(endings) is None
        await processes.elapse(pause)
        trial = await processes.claim(endings)
        assert await processes.claim(endings) is None
        endings.require(ACME, trial)
        await endings.record(ACME, trial, [BAD, BAD])
        processes.now += 1

    assert pauses == [30, 60, 120, 180, 180]


async def test_trial_that_never_ends_is_followed_by_another(processes):
    one, two = processes.started(), processes.started()
    await processes.end(one, *[BAD] * 26)
    await processes.elapse(PAUSE)
    assert await processes.claim(one) is not None
    processes.now += 1
    assert await processes.claim(two) is None

    await processes.elapse(timedelta(minutes=1))

    assert await processes.claim(two) is not None


@guards(
    "shared/providers/limiter/endings.lua",
    "if not is_trial then return 0 end",
    "",
    means="a late good reply resumes a load whose replies are mostly useless",
)
async def test_calls_from_before_pause_do_not_end_it(processes):
    endings = processes.started()
    await processes.end(endings, *[BAD] * 26)

    await processes.end(endings, *[USABLE] * 10)

    assert await endings.bounds() == {ACME: 0}


async def test_usable_trial_resumes_load_in_steps(processes):
    endings = processes.started()
    await processes.end(endings, *[BAD] * 26)
    await processes.elapse(PAUSE)

    await endings.record(ACME, await processes.claim(endings), [USABLE])
    processes.now += 1
    recovering = await endings.bounds()
    await processes.end(endings, *[BAD, USABLE] * 12)

    assert recovering == {ACME: 4}
    assert await endings.bounds() == {}


async def test_recovering_load_pauses_after_few_calls(processes):
    endings = processes.started()
    await processes.end(endings, *[BAD] * 26)
    await processes.elapse(PAUSE)
    await endings.record(ACME, await processes.claim(endings), [USABLE])

    await processes.end(endings, BAD, BAD, BAD)

    assert await endings.bounds() == {ACME: 0}
    assert 50 < (await endings.pauses())[ACME].left.total_seconds() <= 60


async def test_resumed_load_forgets_its_endings(processes):
    endings = processes.started()
    await processes.end(endings, *[BAD] * 26)

    assert await endings.resume(ACME)
    assert not await endings.resume(ACME)
    await processes.end(endings, *[BAD] * 25)

    assert await endings.bounds() == {}


CALLED = {"prompt_tokens": 90, "completion_tokens": 10}
THOUGHT = reply({"choices": [{"message": {"content": None, "reasoning_content": "Well."}}], "usage": CALLED})
GOOD = reply({"choices": [{"message": {"content": '{"questions": ["Who lives on the cliff?"]}'}}], "usage": CALLED})
PARTS = "\n\n".join(f"# Part {n}\n\n" + f"Keeper {n} lives alone on the northern cliff. " * 30 for n in range(40))
HARBOUR = "The harbour opens at nine and closes at noon, on Sundays too."


async def states(services, tenant):
    async with services.database.begin() as connection:
        count = Statement("SELECT state, count(*) FROM chunks WHERE tenant = :tenant GROUP BY 1")
        return {row.state: row.count for row in await connection.execute(count, {"tenant": tenant})}


async def make_due(services):
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now()"))


async def test_useless_load_pauses_while_others_continue(services, client, redis, library):
    await library.add(PARTS, "a.md")
    await Library(services, OTHER).add(HARBOUR, "b.md")
    await work(services, "parse", "index")
    is_repaired = False
    async with raw_server(lambda body: GOOD if is_repaired or "harbour" in str(body) else THOUGHT) as server:
        provider = Provider(component="llm", base_url=server.url, api_key=None, timeout=timedelta(seconds=10))
        model = OpenAIChat(provider, services.generator.model.name)
        tried = replace(services, generator=replace(services.generator, model=model, slots=4))
        await work(tried, "generate", "index")
        useless = len(server.bodies) - 1
        status = (await client.get("/v1/status")).json()
        assert await states(services, OTHER) == {"indexed": 1}
        assert 26 <= useless <= 26 + 2 * 4
        assert (await states(services, "default"))["generating"] >= 20
        assert "only the model's thinking" in status["pace"]["message"]

        is_repaired = True
        await age_limits(redis, PAUSE)

        async def is_done():
            await make_due(services)
            await work(tried, "generate", "index")
            return "generating" not in await states(services, "default")

        await eventually(is_done)
        await provider.aclose()
    # If few chunks were left, the tenant still recovers.
    assert all(pause.is_over for pause in (await services.limiters.llm.endings.pauses()).values())


async def test_unavailable_broker_keeps_last_bounds(processes):
    endings = processes.started()
    await processes.end(endings, *[BAD] * 26)
    known = await endings.bounds()
    endings._script = endings._redis.register_script("return redis.error_reply('LOADING')")
    processes.now += 60

    bounds = await endings.bounds()
    await endings.claimed([(ACME, 7)])
    await endings.record(ACME, 7, [BAD])

    assert bounds == known == {ACME: 0}


async def test_person_resumes_load(services, client):
    endings = services.limiters.llm.endings
    for _ in range(26):
        await endings.record("default", 0, [BAD])
    paused = (await client.get("/v1/status")).json()["limits"]

    replies = [(await client.post("/v1/status/resume")).json() for _ in range(2)]

    assert [limit["name"] for limit in paused if limit["cooldown_seconds"]] == ["tenant default: llm replies"]
    assert replies == [{"resumed": True}, {"resumed": False}]
    assert await endings.pauses() == {}
