"""The role of parse workers: it works documents off, whatever becomes of them, and reads nothing else."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr
from sqlalchemy import exc, text
from sqlalchemy.engine import make_url

from shared.domain.records import CollectionOptions, DocumentState
from shared.ledger import states
from shared.ledger.revision import require_current
from shared.ledger.roles import PARSE_ROLE, make_parse_role
from shared.ledger.tables import metadata
from shared.services import build
from shared.services.all import AllServices
from tests.api import work

QUOTED = 'it\'s "quoted"'
# A chunk of a parse whose worker died.
HALF_WRITTEN = f"""
    INSERT INTO chunks (id, version, document_id, tenant, ordinal, content_key, state, embedding_model)
    SELECT gen_random_uuid(), version, id, tenant, 0, 'x', {states.INSERT_CHUNK.target()}, 'none'
    FROM documents WHERE id = :id"""
# What must stay closed: texts, questions, replies, and what people asked.
CLOSED = {
    "chunk_contents": "content",
    "chunk_questions": "questions",
    "completions": "questions",
    "paid_replies": "replies",
    "queries": "question",
    "accepted_questions": "question",
    "tallies": "rows",
}


@pytest.fixture
async def parsing(services, settings) -> AsyncIterator[AllServices]:
    """Services whose connections to PostgreSQL are the role's."""
    await make_parse_role(services.database.engine, "another")
    await make_parse_role(services.database.engine, QUOTED)
    url = make_url(settings.database_url.get_secret_value()).set(username=PARSE_ROLE, password=QUOTED)
    own = {"database_url": SecretStr(url.render_as_string(hide_password=False))}
    async with build("all", settings.model_copy(update=own)) as parsing:
        parsing.ledger.collections._index_names = services.ledger.collections._index_names
        await require_current(parsing.database)
        yield parsing


async def state_of(services, document) -> str:
    return (await services.ledger.documents.get("default", document.id)).state


@pytest.mark.usefixtures("provider")
async def test_the_role_works_off_whatever_parse_workers_meet(services, parsing, library, provider):
    indexed = await library.add("# Harbours\n\nHarbours open at seven.", "a.md", questions=["When do harbours open?"])
    await work(services)
    await services.ledger.builds.begin(
        "default",
        "default",
        options=CollectionOptions(),
        embedding_model=services.settings.embedding_model,
    )
    while await services.ledger.builds.fill():
        pass
    whole = await library.add("# Lamps\n\nLamps burn until dawn, and their keepers sleep in the house all day.", "b.md")
    await library.add("\x00\x01\x02\x03 broken", "a.md")  # the next version of what is live
    half_written = await library.add("# Cliffs\n\nCliffs are high.", "c.md")
    async with services.database.begin() as connection:
        await connection.execute(
            text(HALF_WRITTEN),
            {"id": half_written.id},
        )

    await work(parsing, "parse")

    assert await state_of(services, whole) == DocumentState.INDEXING
    assert await state_of(services, half_written) == DocumentState.INDEXING
    assert await state_of(services, indexed) == DocumentState.FAILED
    assert (await library.collection()).languages == ("en",)
    assert await parsing.ledger.work.due()


async def test_the_role_reads_nothing_else(parsing):
    for table, column in CLOSED.items():
        with pytest.raises(exc.ProgrammingError, match="permission denied"):
            async with parsing.database.begin() as connection:
                await connection.execute(text(f"SELECT {column} FROM {table}"))
    for statement in ("DELETE FROM documents", "CREATE TABLE mine (a int)", "COPY documents TO PROGRAM 'true'"):
        with pytest.raises(exc.ProgrammingError, match="permission denied"):
            async with parsing.database.begin() as connection:
                await connection.execute(text(statement))
    assert set(CLOSED) <= set(metadata.tables)
