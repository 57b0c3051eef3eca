"""The ledger is sent no statement that finds nothing, and none whose work another one has just done."""

from contextlib import contextmanager

from sqlalchemy import event

from tests.support.api import work

HARBOUR = "The harbour opens at seven in the morning."


@contextmanager
def statements(services, containing):
    """The statements with a text in them that the ledger is sent meanwhile."""
    engine, sent = services.database.engine.sync_engine, []

    def note(_connection, _cursor, statement, *_):
        if containing in statement:
            sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def test_only_chunks_have_calls_that_were_abandoned(services, library, provider):
    await library.add(HARBOUR)
    ledger = services.ledger.work
    with statements(services, "abandoned_calls") as sent:
        documents = [document.lease for document in await ledger.claim_documents(1)]
        assert await ledger.extend("documents", documents) == {documents[0].token}
        await ledger.release("documents", documents)
    assert sent == []

    await work(services, "parse")
    chunks = [chunk.lease for chunk in (await ledger.claim_to_generate(1)).chunks]
    with statements(services, "abandoned_calls") as sent:
        await ledger.extend("chunks", chunks)
        await ledger.release("chunks", chunks)
    assert len(sent) == 2


async def test_index_claims_use_one_statement(services, library, provider):
    await library.add(HARBOUR)
    await work(services, "parse")

    with statements(services, "UPDATE chunks w") as sent:
        assert len(await services.ledger.work.claim_to_index(10)) == 1
        assert await services.ledger.work.claim_to_index(10, suspects=True) == []
    assert len(sent) == 2


async def test_a_statement_alone_has_no_transaction_around_it(services, library):
    await library.collection()
    async with services.database.engine.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
    sent = []

    def note(query):
        sent.append(query.query)

    driver.add_query_logger(note)
    await services.ledger.work.claim_to_index(10)
    await services.ledger.work.due()
    assert [query for query in sent if query.startswith(("BEGIN", "COMMIT"))] == []
    await services.ledger.work.claim_documents(10)
    driver.remove_query_logger(note)

    assert [query for query in sent if query.startswith(("BEGIN", "COMMIT"))] != []


async def test_a_version_that_replaces_another_is_swept_once(services, library, provider):
    await library.add(HARBOUR, "harbour.md")
    await work(services)
    document = await library.add(f"{HARBOUR} It closes at nine.", "harbour.md", questions=["When does it close?"])
    await work(services, "parse")

    with statements(services, "INTO sweeps") as sent:
        await work(services, "index")

    assert len(sent) == 1
    document = await services.ledger.documents.get("default", document.id)
    assert (document.state, document.live_version) == ("ready", 2)
