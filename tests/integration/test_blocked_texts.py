"""Blocked texts and refused configurations in the whole pipeline: only the blocked text is affected."""

from __future__ import annotations

import asyncio

import pytest

from shared.ledger.postgres.statements import Statement
from tests.conftest import Library
from tests.integration.test_stages import texts_found
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.emptying import forget
from tests.support.planted import guards

BLOCKED = "Blocked words: DROP TABLE users."


async def execute(services, statement):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement))
        return result.all()


async def make_due(services):
    await execute(services, "UPDATE chunks SET due_at = now()")


@guards(
    "shared/providers/limiter/judge.py",
    "if of_neutral is None:",
    "if of_neutral is None or isinstance(error, Refused):",
    means="a provider that refuses every call makes dead letters of the whole backlog",
)
async def test_refused_configuration_kills_no_chunk(services, library, provider):
    for number in range(20):
        await library.add(f"The text number {number} of the backlog.", f"{number}.md")
    await work(services, "parse", "index")
    provider.script(status=400, error={"message": "This is not possible."})

    for _ in range(2):
        await work(services, "generate", "index")
        await make_due(services)

    assert await execute(services, "SELECT state, attempts, count(*) FROM chunks GROUP BY 1, 2") == [
        ("generating", 0, 20)
    ]
    assert provider.stats()["calls"] < 50
    provider.script(status=0)
    await forget(services)  # the pauses are over
    await work(services)
    assert await execute(services, "SELECT DISTINCT state FROM documents") == [("ready",)]


async def test_blocked_text_is_one_dead_letter(services, library, provider):
    provider.script(refuse_chats_containing="DROP TABLE", refuse_status=403)
    await library.add(BLOCKED, "blocked.md")
    for number in range(8):
        await library.add(f"The text number {number} of the backlog.", f"{number}.md")

    await work(services)

    assert await execute(services, "SELECT state, count(*) FROM documents GROUP BY 1 ORDER BY 1") == [
        ("degraded", 1),
        ("ready", 8),
    ]
    ((reason,),) = await execute(services, "SELECT error FROM chunks WHERE state = 'dead'")
    assert "answered 403: it refuses this text" in reason
    assert (await texts_found(services, library, "DROP TABLE users"))[0] == BLOCKED


@pytest.mark.parametrize("status", [403, 500])
async def test_unembeddable_text_is_found_by_words(services, library, provider, status):
    provider.script(refuse_containing="DROP TABLE", refuse_status=status)
    await library.add(BLOCKED, "blocked.md", questions=[])
    for number in range(15):
        await library.add(f"The text number {number} of the backlog.", f"{number}.md", questions=[])

    await work(services)

    assert await execute(services, "SELECT state, count(*) FROM documents GROUP BY 1 ORDER BY 1") == [
        ("degraded", 1),
        ("ready", 15),
    ]
    ((reason,),) = await execute(services, "SELECT error FROM chunks WHERE state = 'dead'")
    assert f"its text could not be embedded: the embedding provider answered {status}" in reason
    assert (await texts_found(services, library, "Blocked words users"))[0] == BLOCKED


async def test_blocked_texts_of_tenant_affect_no_other(services, settings, provider):
    for tenant in ("alice", "bob"):
        await Library(services, tenant).add("The harbour opens at seven.", "a.md", questions=["When does it open?"])
    await work(services)
    provider.script(refuse_chats_containing="DROP TABLE", refuse_containing="DROP TABLE", refuse_status=403)
    async with calling(with_keys(settings), services) as client:

        async def statuses(tenant: str, question: str) -> list[int]:
            body = {"question": question, "rewrite": {"queries": 2}}
            ask = [client.post(path, json=body, headers=as_tenant(tenant)) for path in ("/v1/query", "/v1/retrieve")]
            return [reply.status_code for reply in await asyncio.gather(*ask)]

        for number in range(2):
            await Library(services, "alice").add(f"{BLOCKED} {number}", f"{number}.md")
            await work(services)
            replies = await asyncio.gather(
                statuses("alice", f"{BLOCKED} {number}"), statuses("bob", f"When does it open, at {number}?")
            )
            assert replies == [[422, 422], [200, 200]]
