"""foreask sends no useless or duplicate statements to the ledger."""

from shared.domain.stages.work import LeaseExtension
from shared.ledger.documents.documents import Documents
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from tests.support.api import work
from tests.support.sent import sent_statements

HARBOUR = "The harbour opens at seven in the morning."


async def test_only_generate_leases_update_abandoned_calls(services, library, provider):
    await library.add(HARBOUR)
    with sent_statements("abandoned_calls") as sent:
        documents = [document.lease for document in await services.ledger[ParseWork].claim(1)]
        assert await services.ledger[ParseWork].extend(documents) == LeaseExtension({documents[0].token}, set())
        await services.ledger[ParseWork].release(documents)
    assert sent == []

    await work(services, "parse")
    chunks = [chunk.lease for chunk in (await services.ledger[GenerateWork].claim(1)).chunks]
    with sent_statements("abandoned_calls") as sent:
        await services.ledger[GenerateWork].extend(chunks)
        await services.ledger[GenerateWork].release(chunks)
    assert len(sent) == 2


async def test_each_index_claim_is_one_statement(services, library, provider):
    await library.add(HARBOUR)
    await work(services, "parse")

    with sent_statements("UPDATE chunks_open w") as sent:
        assert len(await services.ledger[IndexWork].claim(10)) == 1
        assert await services.ledger[IndexWork].claim(10, suspects=True) == []
    assert len(sent) == 2


async def test_single_statements_run_without_transaction(services, library):
    await library.collection()
    async with services.database.pool.lend() as connection:
        driver = connection.driver
    sent = []

    def record(query):
        sent.append(query.query)

    driver.add_query_logger(record)
    await services.ledger[IndexWork].claim(10)
    await services.ledger[Backlogs].due()
    assert [query for query in sent if query.startswith(("BEGIN", "COMMIT"))] == []
    await services.ledger[ParseWork].claim(10)
    driver.remove_query_logger(record)

    assert [query for query in sent if query.startswith(("BEGIN", "COMMIT"))] != []


async def test_replaced_version_is_swept_once(services, library, provider):
    await library.add(HARBOUR, "harbour.md")
    await work(services)
    document = await library.add(f"{HARBOUR} It closes at nine.", "harbour.md", questions=["When does it close?"])
    await work(services, "parse")

    with sent_statements("INTO sweeps") as sent:
        await work(services, "index")

    assert len(sent) == 1
    document = await services.ledger[Documents].get("default", document.id)
    assert (document.state, document.live_version) == ("ready", 2)
