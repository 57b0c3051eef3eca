"""The ledger is sent no statement that finds nothing, and none whose work another one has just done."""

from contextlib import contextmanager

from sqlalchemy import event

from tests.api import work

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
        await ledger.give_back("documents", documents)
    assert sent == []

    await work(services, "parse")
    chunks = [chunk.lease for chunk in (await ledger.claim_to_generate(1)).chunks]
    with statements(services, "abandoned_calls") as sent:
        await ledger.extend("chunks", chunks)
        await ledger.give_back("chunks", chunks)
    assert len(sent) == 2


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
