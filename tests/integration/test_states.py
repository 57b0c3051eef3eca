"""A trigger, active in all tests, rejects every transition that the table of states does not define."""

import asyncpg
import pytest

from tests.support.api import work


async def run(services, statement):
    async with services.database.begin() as connection:
        await connection.execute_sql(statement)


@pytest.mark.parametrize("state", ["failed", "indexing", "unknown"])
async def test_unknown_document_transition_is_refused(services, library, state):
    await library.add("text")

    with pytest.raises(asyncpg.PostgresError, match=f"no transition of documents leads from queued to {state}"):
        await run(services, f"UPDATE documents SET state = '{state}'")


async def test_unknown_chunk_transition_is_refused(services, library, provider):
    await library.add("text")
    await work(services)

    with pytest.raises(asyncpg.PostgresError, match="no transition of chunks leads from indexed to discarded"):
        await run(services, "UPDATE chunks SET state = 'discarded'")


async def test_rows_can_only_start_in_initial_state(services, library, provider):
    await library.add("text")
    await work(services)

    with pytest.raises(asyncpg.PostgresError, match="no transition of chunks leads from new to indexed"):
        await run(
            services,
            "INSERT INTO chunks SELECT (jsonb_populate_record(c, '{\"version\": 7}')).* FROM chunks c",
        )


async def test_update_without_state_change_is_allowed(services, library):
    await library.add("text")

    await run(services, "UPDATE documents SET state = state")
