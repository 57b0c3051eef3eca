"""PostgreSQL roles: the parse role can only process documents and syncs, and the app role only read and write rows."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from features.all import FEATURES
from features.sources.ledger.checks import SourceChecks
from features.sources.ledger.hints import Hints
from features.sources.ledger.sources import Sources
from features.sources.ledger.syncs import Syncs
from features.sources.syncing.checks import Checking
from features.sources.syncing.quota import UploadLimits
from features.webhooks.ledger import Webhooks
from shared.domain.access.database_roles import APP_ROLE, PARSE_ROLE, SCALE_ROLE
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.jobs import JobKind
from shared.domain.states import DocumentState
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.model import states
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.revision import require_schema
from shared.ledger.postgres.roles import make_app_role, make_parse_role, make_scale_role
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.pages import PageLimits, Pages
from shared.maintenance.jobs.runner import Runner
from shared.services import build
from shared.services.all import AllServices
from tests.support.api import work
from tests.support.planted import guards
from tests.support.scans import BLANK, PICTURE, SMEARED, scan, with_reader
from tests.support.sources import Corpus, SyncedCorpus, make_older
from tests.support.tables import columns
from tests.support.waiting import eventually

QUOTED = 'it\'s "quoted"'
# A chunk left by a parse worker that died.
HALF_WRITTEN = f"""
    INSERT INTO chunks (id, version, document_id, tenant, ordinal, content_key, state, embedding_model)
    SELECT gen_random_uuid(), version, id, tenant, 0, 'x', {states.INSERT_CHUNK.target()}, 'none'
    FROM documents WHERE id = :id"""
# Columns that the parse role must not read: texts, questions, replies, and users' questions.
CLOSED = {
    "chunk_contents": "content",
    "chunk_questions": "questions",
    "completions": "questions",
    "paid_replies": "replies",
    "queries": "question",
    "gaps": "assigned_to",
    "accepted_questions": "question",
    "page_pictures": "picture",
    "webhooks": "secret",
    "webhook_deliveries": "data",
}
# Statements with which an attacker inside the API could reach beyond the rows, or change the tables.
BEYOND_ROWS = (
    "CREATE TABLE mine (a int)",
    "CREATE TEMP TABLE webhooks (a int)",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "ALTER TABLE documents ADD COLUMN mine int",
    "DROP TABLE documents",
    "TRUNCATE documents",
    "UPDATE alembic_version SET version_num = '0'",
    "UPDATE schema_compat SET min_revision = '0'",
    "CREATE ROLE mine",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "COPY documents TO PROGRAM 'true'",
    "COPY documents FROM '/etc/passwd'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT rolpassword FROM pg_authid",
)


def settings_of(role, settings):
    url = make_url(settings.database_url.get_secret_value()).set(username=role, password=QUOTED)
    return settings.model_copy(update={"database_url": SecretStr(url.render_as_string(hide_password=False))})


@pytest.fixture
async def parsing(services, settings) -> AsyncIterator[AllServices]:
    """Yield services that connect to PostgreSQL with the parse role."""
    await make_parse_role(services.database, "another")
    await make_parse_role(services.database, QUOTED)
    async with build("all", settings_of(PARSE_ROLE, settings), FEATURES) as parsing:
        parsing.ledger[Collections]._index_names = services.ledger[Collections]._index_names
        await require_schema(parsing.database)
        yield parsing


async def state_of(services, document) -> str:
    return (await services.ledger[Documents].get("default", document.id)).state


@pytest.mark.usefixtures("provider")
async def test_parse_role_can_do_all_parse_work(services, parsing, library, provider):
    hook = await services.ledger[Webhooks].make("default", "https://example.org", "whsec_", [])
    indexed = await library.add("# Harbours\n\nHarbours open at seven.", "a.md", questions=["When do harbours open?"])
    await work(services)
    await services.ledger[Builds].start(
        "default",
        "default",
        options=CollectionOptions(),
        embedding_model=services.settings.embedding_model,
    )
    while await services.ledger[Builds].fill():
        pass
    whole = await library.add("# Lamps\n\nLamps burn until dawn, and their keepers sleep in the house all day.", "b.md")
    await library.add("\x00\x01\x02\x03 broken", "a.md")  # the next version of the live document
    half_written = await library.add("# Cliffs\n\nCliffs are high.", "c.md")
    async with services.database.begin() as connection:
        await connection.execute(
            Statement(HALF_WRITTEN),
            {"id": half_written.id},
        )

    await work(parsing, "parse")

    assert await state_of(services, whole) == DocumentState.INDEXING
    assert await state_of(services, half_written) == DocumentState.INDEXING
    assert await state_of(services, indexed) == DocumentState.FAILED
    assert "document.failed" in {delivery.type for delivery in await services.ledger[Webhooks].page("default", hook.id)}
    assert (await library.collection()).languages == ("en",)


@pytest.mark.usefixtures("provider")
async def test_parse_role_can_do_all_read_work(services, parsing, library):
    reading, _ = with_reader(parsing)
    document = await library.add(scan("The harbour opens at six.", BLANK, SMEARED), "scan.pdf")
    await work(reading, "parse")
    await work(replace(reading, reader=replace(reading.reader, languages=lambda: ("deu",))), "read")
    await parsing.ledger[Pages].explain("Its pages wait.")
    limited = Pages(parsing.database, worker="w", lease=timedelta(seconds=30), limits=PageLimits({}, 1))
    for _ in range(2):
        await limited.release([page.lease for page in await limited.claim(8)])
    await work(reading, "read", "parse")

    shown = await services.ledger[Documents].get("default", document.id)
    assert (shown.state, shown.progress.pages_read, shown.progress.pages_unread) == (DocumentState.INDEXING, 2, 1)
    assert (await services.ledger[Documents].page_picture("default", document.id, 1)).content == PICTURE


async def test_parse_role_can_do_all_sync_work(services, parsing):
    corpus = Corpus()
    owned, synced = SyncedCorpus(services, corpus), SyncedCorpus(parsing, corpus)
    await owned.add()
    corpus.put(*map(str, range(20)))
    first = await services.ledger[Syncs].start("default", "docs")
    assert (await synced.work(first)).counts.created == 20
    corpus.put("0", text="Changed.")
    corpus.versions["1"] = "touched"
    corpus.remove(*map(str, range(2, 15)))
    for changed in (1, 0):
        sync = await synced.work(await services.ledger[Syncs].start("default", "docs"))
        assert (sync.counts.changed, sync.counts.missing, sync.error) == (changed, 13, None)
        await make_older(services)
    sync = await synced.work(await services.ledger[Syncs].start("default", "docs"))
    assert sync.counts.withheld == 13
    approved = await services.ledger[Syncs].approve("default", "docs", deletions=13)

    assert (await synced.work(approved)).counts.deleted == 13


@guards(
    "shared/ledger/postgres/roles.py",
    '"source_checks": "SELECT, UPDATE",',
    '"source_checks": "SELECT",',
    means="a check of a source never ends in production",
)
async def test_parse_role_can_do_all_check_work(services, parsing):
    corpus = Corpus(refused={"b": "It is empty."})
    corpus.put("a", "b")
    checks = services.ledger[SourceChecks]
    check = await checks.start("default", kind="folder", uri="file:///srv/docs", options={}, secret_name=None)
    work = Checking(parsing.ledger[SourceChecks], corpus.open)
    runner = Runner(parsing.ledger[JobClaims], {JobKind.SOURCE_CHECK: lambda: work})
    await runner.take()
    await eventually(lambda: runner.claimed == 0)
    await runner.aclose()

    found = (await checks.get("default", check.id)).found
    assert (found.seen, found.refused, found.keys, found.refusal) == (2, 1, ("a",), "b: It is empty.")


async def test_parse_role_can_apply_limits_and_report_hints(services, parsing):
    corpus = Corpus()
    source = await SyncedCorpus(services, corpus).add()
    corpus.put("a", "b")
    limits = UploadLimits(bytes_per_day=10_000, documents=1)
    synced = SyncedCorpus(parsing, corpus, upload_limits=limits)
    await synced.work(await services.ledger[Syncs].start("default", "docs"))
    sync = await synced.work(await services.ledger[Syncs].start("default", "docs"))

    assert (sync.counts.unchanged, sync.counts.refused, sync.error) == (1, 1, None)
    assert await parsing.ledger[Sources].by_id(source.id) == source
    await parsing.ledger[Hints].report(source.id, ["b"])
    assert await services.ledger[Hints].reopen()


async def test_parse_role_reads_no_texts_or_questions(services, parsing):
    for table, column in CLOSED.items():
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with parsing.database.begin() as connection:
                await connection.execute(Statement(f"SELECT {column} FROM {table}"))
    for statement in ("DELETE FROM documents", "CREATE TABLE mine (a int)", "COPY documents TO PROGRAM 'true'"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with parsing.database.begin() as connection:
                await connection.execute(Statement(statement))
    async with services.database.begin() as connection:
        assert set(CLOSED) <= set(await columns(connection))


async def test_app_role_has_rows_and_no_other_rights(services, settings):
    await make_app_role(services.database, QUOTED)
    async with build("all", settings_of(APP_ROLE, settings), FEATURES) as app:
        await require_schema(app.database)
        async with app.database.begin() as connection:
            for table, (column, *_) in (await columns(connection)).items():
                for statement in (
                    f"INSERT INTO {table} SELECT * FROM {table} WHERE false",
                    f"UPDATE {table} SET {column} = {column} WHERE false",
                    f"DELETE FROM {table} WHERE false",
                ):
                    await connection.execute(Statement(statement))
            await connection.execute(Statement("SELECT nextval('fencing'), nextval('sweeps_id_seq')"))
        for statement in BEYOND_ROWS:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with app.database.begin() as connection:
                    await connection.execute(Statement(statement))


async def test_scale_role_reads_wanted_workers_only(services, settings):
    await make_scale_role(services.database, QUOTED)
    wanted = "SELECT (wanted->>'generate')::int FROM deployment"
    async with build("all", settings_of(SCALE_ROLE, settings), FEATURES) as scale:
        async with scale.database.begin() as connection:
            await connection.execute(Statement(wanted))
        async with services.database.begin() as connection:
            readable = [
                (table, column)
                for table, names in (await columns(connection)).items()
                for column in names
                if (table, column) != ("deployment", "wanted")
            ]
        statements = [f"SELECT {column} FROM {table}" for table, column in readable]
        for statement in (
            *statements,
            *BEYOND_ROWS,
            "SELECT 1 FROM alembic_version",
            "SELECT min_revision FROM schema_compat",
            "SELECT nextval('fencing')",
            "UPDATE deployment SET wanted = NULL",
            "DELETE FROM deployment",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with scale.database.begin() as connection:
                    await connection.execute(Statement(statement))


async def test_no_function_runs_with_owner_rights(services):
    """A function with owner rights would read temporary tables first, which a compromised worker can create."""
    async with services.database.begin() as connection:
        found = await connection.execute(
            Statement("SELECT prosecdef, count(*) FROM pg_proc WHERE proname LIKE 'notify_of_%' GROUP BY 1")
        )
        assert [(row.prosecdef, row.count > 1) for row in found] == [(False, True)]
        everywhere = await connection.execute(Statement("SELECT proname FROM pg_proc WHERE prosecdef"))
        assert everywhere.all() == []
