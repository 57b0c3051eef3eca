"""A state that a process has built once is the same for each test that needs it."""

from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.statements import Statement
from tests.support.api import ready
from tests.support.counters import DIFFERENCES
from tests.support.emptying import empty
from tests.support.tables import columns


async def everything(services, remembered):
    """Return the rows of all tables, the points and the uploads."""
    async with services.database.begin() as connection:
        names = await columns(connection)
        rows = {
            name: (await connection.execute(Statement(f"SELECT t::text FROM {name} t ORDER BY 1"))).all()
            for name in names
        }
        assert (await connection.execute(Statement(DIFFERENCES))).all() == []
    return rows, await remembered._points(), remembered._files()


async def test_restored_state_equals_built_state(services, provider, remembered):
    document = ("The harbour opens at six.", "remembered.md")
    built = await remembered.state(ready, document)
    before = await everything(services, remembered)
    paid = provider.stats()["calls"]
    await empty(services)
    assert not (await everything(services, remembered))[0]["documents"]

    restored = await remembered.state(ready, document)

    if await remembered._can_restore():  # otherwise it was built again
        assert await everything(services, remembered) == before
        assert (restored, provider.stats()["calls"]) == (built, paid)
    rows, points, uploads = before
    assert len(rows["documents"]) == len(points) == 1
    assert b"The harbour opens at six." in uploads.values()


async def test_each_set_of_arguments_has_its_own_state(services, provider, remembered):
    for count in (1, 2, 1):
        await empty(services)
        documents = [(f"The harbour opens at {number}.", f"{number}.md") for number in range(count)]

        assert len(await remembered.state(ready, *documents)) == count
        assert await services.ledger[Documents].counts("default") == {"ready": count}
