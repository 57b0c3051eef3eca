"""Tables and queries of PostgreSQL as sources."""

import asyncio
import json
import ssl
import struct
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import ValidationError

from features.sources.hosts import Hosts
from features.sources.postgres.options import PostgresOptions
from features.sources.postgres.rows import PostgresSource
from features.sources.postgres.statements import statements_of
from features.sources.source import Entry
from shared.domain.corpus.document_fields import MOST_TITLE_CHARS
from shared.domain.errors import InvalidInput, Misconfigured, NotFound, Unavailable, Unreadable
from tests.support.corpora import LOGIN, PASSWORD, PRIVATE, READER, TableCorpus, database, listed, renew
from tests.support.names import resolving
from tests.support.planted import guards
from tests.support.processor_time import processor_time_limit
from tests.support.waiting import TIMEOUT_SECONDS, eventually

BOTH = ("group:b", "user:a")


@pytest.fixture(scope="module")
async def empty_database(settings):
    async with database(settings.database_url.get_secret_value()) as made:
        yield made


@pytest.fixture
async def corpus(empty_database):
    url, owner = empty_database
    await renew(owner)
    return TableCorpus(url, owner, table="article")


@pytest.fixture
async def open_source(corpus):
    opened = []

    def open_one(secret=None, **options):
        opened.append(corpus.source(secret, **options))
        return opened[-1]

    yield open_one
    for source in opened:
        await source.aclose()


async def make(corpus, columns, *rows):
    """Create the table `thing`."""
    await corpus.owner.execute(f"CREATE TABLE thing ({columns}); GRANT SELECT ON thing TO {READER}")
    for row in rows:
        places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        await corpus.owner.execute(f"INSERT INTO thing VALUES ({places})", *row)


@guards(
    "features/sources/postgres/row.sql",
    ' AND {id}::text COLLATE "C" = $1',
    "",
    means="another text of the same number finds a row",
)
@pytest.mark.parametrize(
    ("kind", "values", "missing"),
    [
        ("bigint", [9, 10, -1, 2], ["09", " 9", "9.0", "nine", "1" * 40]),
        ("uuid", ["0" * 8 + "-0000-0000-0000-00000000000" + end for end in "a1"], ["x", "0" * 32]),
        ("numeric", [1, 10, 2], ["1.0", "x"]),
        ("varchar(10)", ["b", "a "], ["a"]),
        ("date", [datetime(2026, 3, 1, tzinfo=UTC).date()], ["2026-3-1", "2026-02-31", "yesterday"]),
        ("text[]", [["a", "b"]], ["{a, b}"]),
    ],
)
async def test_ids_of_any_type_follow_byte_order(corpus, open_source, kind, values, missing):
    await make(corpus, f"id {kind}, body text", *((value, "text") for value in values))
    source = open_source(table="thing", id="id")

    entries = await listed(source)

    keys = [entry.key for entry in entries]
    assert len(keys) == len(values)
    assert keys == sorted(keys, key=str.encode)
    for entry in entries:
        assert await source.find(entry.key) == entry
    for key in missing:
        assert await source.find(key) is None
        with pytest.raises(NotFound):
            await source.fetch(Entry(key, "1"), max_bytes=9)


@guards(
    "features/sources/postgres/rows.py",
    " if value is not None}",
    "}",
    means="metadata contains columns without a value",
)
async def test_row_becomes_item_with_title_and_metadata(corpus, open_source):
    columns = (
        'id int, "Body ""of"" it" text, title text, price numeric, tags text[], "at" timestamptz, note text, more jsonb'
    )
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    await make(corpus, columns, (1, "<p>Six.</p>", "Hours", 2.5, ["a", "b"], at, None, '{"x": [1]}'))
    metadata = "price, tags, at, note, more"
    options = {"table": "thing", "id": "id", "text": 'Body "of" it', "title": "title", "metadata": metadata}
    source = open_source(format="html", **options)

    item = await source.fetch(Entry("1", ""), max_bytes=100)

    assert (item.content, item.title, item.media_type, item.filename) == (b"<p>Six.</p>", "Hours", "text/html", None)
    assert item.metadata == {"price": 2.5, "tags": ["a", "b"], "at": "2026-03-01T12:00:00+00:00", "more": {"x": [1]}}


@guards(
    "features/sources/postgres/listing.sql",
    "left(id, {most_key_bytes}) AS id",
    "id",
    means="a few long ids fill the memory of a worker",
)
@guards(
    "features/sources/postgres/row.sql",
    "left({title}, {most_title_chars}) AS title",
    "{title} AS title",
    means="a title of 400 MB fills the memory of a worker",
)
async def test_wide_columns_never_leave_the_database(corpus, open_source):
    """The statements are executed directly: they send no more than a document could have."""
    wide = "x" * 300_000
    await make(
        corpus,
        "id text, body text, title text, version text, more jsonb",
        ("a", "A text.", wide, "1", "{}"),
        ("b", "A text.", "B", wide, json.dumps({"wide": wide})),
        ("\u00e9" + wide, "A text.", "C", "1", "{}"),
        ("\u00ea" + wide + "y", "A text.", "C", "1", "{}"),
        ("d", "A text.", "D", "1", "[" * 3_000 + "]" * 3_000),
    )
    options = {"table": "thing", "id": "id", "title": "title", "version": "version", "metadata": "more"}
    read = PostgresOptions(text="body", **options)
    statements = await statements_of(corpus.owner, read)
    rows = await corpus.owner.fetch(statements.listing, "")
    single = [await corpus.owner.fetch(statements.row, key, 1_000, "more") for key in ("a", "b", "d")]
    assert max(len(str(value)) for row in [*rows, *chain(*single)] for value in row.values()) <= 10_000
    source = open_source(**options)

    entries = await listed(source)

    assert [(entry.key[0], entry.refused) for entry in entries] == [
        ("a", None),
        ("b", None),
        ("d", None),
        ("\u00e9", "Its name has 300,002 bytes, and a name may have 1,024: shorten it."),
        ("\u00ea", "Its name has 300,003 bytes, and a name may have 1,024: shorten it."),
    ]
    assert [await source.find(entry.key) for entry in entries[:3]] == entries[:3]
    assert len((await source.fetch(entries[0], max_bytes=1_000)).title) == MOST_TITLE_CHARS + 1
    for entry in entries[1:3]:
        with pytest.raises(Unreadable, match="etadata"):
            await source.fetch(entry, max_bytes=1_000)


async def test_listing_larger_than_temporary_space_is_error(corpus, open_source):
    await make(corpus, "id int, body text", *((number, "A text.") for number in range(100)))

    with pytest.raises(Misconfigured, match="The listing needs more than 5,000 bytes of temporary space"):
        await listed(open_source(table="thing", id="id", temporary_bytes=5_000))


@guards(
    "features/sources/postgres/statements.py",
    "f\"'{options.fingerprint()}-' || {version}\"",
    "version",
    means="other columns do not change a version",
)
async def test_hash_covers_used_columns_only(corpus, open_source):
    await make(corpus, "id int, body text, title text, views int", (1, "text", "title", 1))

    async def version(**options):
        (entry,) = await listed(open_source(table="thing", id="id", title="title", **options))
        return entry.version

    before = await version()
    await corpus.owner.execute("UPDATE thing SET views = 2")
    assert await version() == before
    for change in ("title = NULL", "title = ''", "body = 'text2'"):
        await corpus.owner.execute(f"UPDATE thing SET {change}")
        previous, before = before, await version()
        assert before != previous
    assert await version(metadata="views") != before
    assert await version(format="html") != before


@guards(
    "features/sources/postgres/session.sql",
    "SET LOCAL timezone = 'UTC';\n",
    "",
    means="a version depends on the time zone of the role",
)
@guards(
    "features/sources/postgres/session.sql",
    "SET LOCAL extra_float_digits = 1;\n",
    "",
    means="a version depends on the role's number of digits",
)
@guards(
    "features/sources/postgres/session.sql",
    "SET LOCAL intervalstyle = 'iso_8601';\n",
    "",
    means="a version depends on the role's format of intervals",
)
@guards(
    "features/sources/postgres/session.sql",
    "SET LOCAL bytea_output = 'hex';\n",
    "",
    means="a version depends on the role's format of bytes",
)
async def test_version_does_not_depend_on_settings_of_role(corpus, open_source, subtests):
    columns = "id int, body text, at timestamptz, took interval, size float8, seal bytea"
    at = datetime(2026, 3, 1, tzinfo=UTC)
    await make(corpus, columns, (1, "text", at, timedelta(hours=30), 0.1 + 0.2, b"\xff"))
    options = {"table": "thing", "id": "id", "metadata": "at, took, size, seal"}
    before = await listed(open_source(**options))

    for setting in (
        "timezone = 'Asia/Tokyo'",
        "datestyle = 'German'",
        "intervalstyle = 'sql_standard'",
        "extra_float_digits = 0",
        "bytea_output = 'escape'",
    ):
        with subtests.test(setting=setting):
            await corpus.owner.execute(f"ALTER ROLE {READER} RESET ALL; ALTER ROLE {READER} SET {setting}")
            assert await listed(open_source(**options)) == before


@guards(
    "features/sources/postgres/statements.py",
    "f\"coalesce({_column(options.version)}::text, '')\"",
    'f"{_column(options.version)}::text"',
    means="a row whose version column is NULL has no version",
)
async def test_version_column_may_be_null(corpus, open_source):
    await make(corpus, "id int, body text, changed timestamptz", (1, "text", None))
    options = {"table": "thing", "id": "id", "version": "changed"}
    (before,) = await listed(open_source(**options))

    await corpus.owner.execute("UPDATE thing SET changed = now()")

    (after,) = await listed(open_source(**options))
    assert isinstance(before.version, str)
    assert after.version != before.version


@guards(
    "features/sources/postgres/rows.py",
    "if previous is not None and entry.key == previous.key:",
    "if False:",
    means="several rows with one id are several entries",
)
@guards(
    "features/sources/postgres/rows.py", "if len(rows) > 1:", "if False:", means="one of the rows with an id is fetched"
)
async def test_duplicate_id_is_one_refused_entry(corpus, open_source):
    rows = [(f"{number:04}", "text") for number in range(1_001)]
    await make(corpus, "id text, body text", *rows, ("0999", "again"), ("0999", "and again"))
    source = open_source(table="thing", id="id")

    entries = await listed(source)

    assert [entry.key for entry in entries] == [key for key, _ in rows]
    assert [entry.key for entry in entries if entry.refused] == ["0999"]
    assert "unique" in (await source.find("0999")).refused
    with pytest.raises(Unreadable, match="Several rows"):
        await source.fetch(Entry("0999", ""), max_bytes=100)


@guards(
    "features/sources/postgres/listing.sql",
    "NULLS FIRST",
    "NULLS LAST",
    means="rows without an id are listed after all others",
)
@guards(
    "features/sources/postgres/rows.py",
    'if without_id and row["id"].encode() >= _NO_ID.encode():',
    "if without_id:",
    means="the entry of rows without ids breaks the order of keys",
)
async def test_rows_without_id_are_one_refused_entry(corpus, open_source):
    await make(corpus, "id text, body text", (None, "one"), ("", "two"), ("a", "three"), (None, "four"), ("!", "five"))
    source = open_source(table="thing", id="id")

    entries = await listed(source)

    assert [entry.key for entry in entries] == ["!", "(no id)", "a"]
    assert entries[1].refused.startswith("3 rows have no id")
    assert [entry.key for entry in await listed(source, "!")] == ["(no id)", "a"]
    assert [entry.key for entry in await listed(source, "(no id)")] == ["a"]


async def test_too_long_ids_are_refused_in_order(corpus, open_source):
    ids = ["a", "m" * 1_024, "m" * 1_025, "m" * 2_000, "é" * 600, "z"]
    await make(corpus, "id text, body text", *((each, "text") for each in ids))
    source = open_source(table="thing", id="id")

    entries = await listed(source)

    keys = [entry.key for entry in entries]
    assert keys == sorted(set(keys), key=str.encode)
    assert [entry.key for entry in entries if entry.refused is None] == ["a", "m" * 1_024, "z"]
    assert any(entry.refused for entry in entries)


async def test_null_text_is_empty(corpus, open_source):
    await make(corpus, "id int, body text", (1, None))
    source = open_source(table="thing", id="id")

    (entry,) = await listed(source)

    assert entry.size_bytes == 0
    assert (await source.fetch(entry, max_bytes=10)).content == b""


async def test_unknown_column_names_existing_ones(corpus, open_source, subtests):
    for options in (
        {"id": "idd"},
        {"text": "bodi"},
        {"title": "x"},
        {"version": "x"},
        {"metadata": "key, x"},
        {"id": 'key" --'},
        {"id": "KEY"},
    ):
        sentence = r"no column .* which the option .* names\. The columns are: key, body\."
        with subtests.test(options=options), pytest.raises(Misconfigured, match=sentence):
            await listed(open_source(**options))


async def test_table_name_is_never_sql(corpus, open_source, subtests):
    for table in ("missing", 'article"; DROP TABLE article; --', "article a", "public.article", "(SELECT 1)"):
        with subtests.test(table=table):
            with pytest.raises(Misconfigured, match="does not exist"):
                await listed(open_source(table=table))
            assert await corpus.owner.fetchval("SELECT count(*) FROM article") == 0


@guards(
    "features/sources/postgres/statements.py",
    "name.replace('\"', '\"\"')",
    "name",
    means="a quote in a column's name ends the name",
)
async def test_quotes_in_names_are_part_of_names(corpus, open_source):
    await corpus.owner.execute(f"""
        CREATE SCHEMA "My ""Schema"; CREATE TABLE "My ""Schema"."T.""x" ("k""; --" text, "$1" text, "{{id}}" text);
        INSERT INTO "My ""Schema"."T.""x" VALUES ('a', 'b', 'c');
        GRANT USAGE ON SCHEMA "My ""Schema" TO {READER}; GRANT SELECT ON "My ""Schema"."T.""x" TO {READER};
    """)
    source = open_source(schema='My "Schema', table='T."x', id='k"; --', text="$1", metadata="{id}")

    (entry,) = await listed(source)
    item = await source.fetch(entry, max_bytes=10)

    assert (entry.key, item.content, item.metadata) == ("a", b"b", {"{id}": "c"})


@guards("features/sources/postgres/connection.py", "readonly=True", "readonly=False", means="a query may write")
async def test_query_other_than_one_reading_select_is_refused(corpus, open_source, subtests):
    await corpus.write({"a": "text"})
    await corpus.owner.execute(
        f"GRANT ALL ON article TO {READER}; CREATE SEQUENCE numbers; GRANT ALL ON numbers TO {READER}"
    )
    for query in (
        "SELECT key, body FROM article; DROP TABLE article",
        "DELETE FROM article RETURNING key, body",
        "WITH gone AS (DELETE FROM article RETURNING *) SELECT key, body FROM gone",
        "SELECT 1) AS x; DROP TABLE article; --",
        "SELECT key, body FROM article) AS a CROSS JOIN (SELECT 1",
        "SELECT key, body FROM article FOR UPDATE",
        "SELECT key, body INTO other FROM article",
        "SELECT nextval('numbers')::text AS key, 'x' AS body",
        "TRUNCATE article",
        "COPY article TO STDOUT",
        "SHOW server_version",
        ";",
        "nonsense",
    ):
        with subtests.test(query=query):
            with pytest.raises(Misconfigured):
                await listed(open_source(table=None, query=query))
            assert await corpus.owner.fetchval("SELECT count(*) FROM article") == 1


@pytest.mark.parametrize(
    "query",
    [
        "SELECT key, body FROM article -- all of them",
        "WITH a AS (SELECT * FROM article) SELECT * FROM a ORDER BY 1 LIMIT 9;\n",
    ],
)
async def test_query_may_end_with_comment_or_semicolon(corpus, open_source, query):
    await corpus.write({"a": "text", "b": "text"})
    source = open_source(table=None, query=query)

    assert [entry.key for entry in await listed(source)] == ["a", "b"]
    assert (await source.fetch(Entry("b", ""), max_bytes=9)).content == b"text"


@guards(
    "features/sources/postgres/connection.py",
    "cannot compute a value of a row: {kind}.",
    "cannot compute a value of a row: {sentence}.",
    means="an error quotes a row",
)
async def test_error_about_values_does_not_quote_them(corpus, open_source):
    await corpus.write({"a": "a private text"})
    query = "SELECT key, body::int::text AS body FROM article"

    with pytest.raises(Misconfigured, match="cannot compute a value of a row") as caught:
        await listed(open_source(table=None, query=query))

    assert "private" not in str(caught.value)


@guards(
    "features/sources/postgres/rows.py",
    "if _is_about_a_value(error) and not await self._is_value(key):",
    "if _is_about_a_value(error):",
    means="a row that cannot be computed looks deleted",
)
async def test_row_that_cannot_be_computed_is_not_missing(corpus, open_source):
    await corpus.write({"a": "not a number"})
    source = open_source(table=None, query="SELECT key, body::int::text AS body FROM article", version="key")

    with pytest.raises(Misconfigured, match="cannot compute a value of a row"):
        await source.find("a")


async def test_bytes_as_text_are_refused(corpus, open_source):
    await make(corpus, "id int, body bytea", (1, b"x"))

    with pytest.raises(Misconfigured, match="convert_from"):
        await listed(open_source(table="thing", id="id"))


@guards("features/sources/postgres/session.sql", "{timeout_milliseconds}", "0", means="a statement has no time limit")
async def test_slow_query_is_cancelled(corpus, open_source):
    query = "SELECT key, body FROM article, pg_sleep(60)"
    await corpus.write({"a": "text"})

    with pytest.raises(Unavailable, match="within 1 seconds: raise timeout_seconds"):
        await listed(open_source(table=None, query=query, timeout_seconds=1))


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        (LOGIN | {"password": "wrong"}, "rejects the login"),
        ({"username": READER, "sslmode": "disable"}, "rejects the login"),
    ],
)
async def test_refused_login_is_reported_not_shown(open_source, secret, problem, caplog):
    caplog.set_level(0)
    source = open_source(secret)

    with pytest.raises(Misconfigured, match=problem) as caught:
        await listed(source)

    assert "wrong" not in f"{caught.value!r} {caplog.text}"
    assert READER not in caught.value.message


async def test_missing_database_is_reported(corpus, open_source):
    corpus.url = corpus.url.rpartition("/")[0] + "/missing"

    with pytest.raises(Misconfigured, match="has no database missing"):
        await listed(open_source())


async def test_missing_right_is_reported(corpus, open_source):
    await corpus.owner.execute(f"REVOKE SELECT ON article FROM {READER}")

    with pytest.raises(Misconfigured, match="needs the right SELECT: permission denied for table article") as caught:
        await listed(open_source())

    assert READER not in caught.value.message


@guards(
    "features/sources/postgres/connection.py",
    '                target_session_attrs="any",\n',
    "",
    means="settings of the user's environment choose the server",
)
async def test_environment_and_files_of_user_are_not_read(corpus, open_source, monkeypatch, tmp_path):
    (tmp_path / "service").write_text("[other]\nhost=192.0.2.1\nuser=other\npassword=other\n")
    (tmp_path / "pass").write_text(f"*:*:*:*:{PASSWORD}\n")
    (tmp_path / "pass").chmod(0o600)
    variables = {
        "PGHOST": "192.0.2.1", "PGPORT": "1", "PGUSER": "other", "PGPASSWORD": PASSWORD, "PGDATABASE": "other",
        "PGSERVICE": "other", "PGSERVICEFILE": str(tmp_path / "service"), "PGPASSFILE": str(tmp_path / "pass"),
        "PGSSLMODE": "verify-full", "PGSSLNEGOTIATION": "direct", "PGTARGETSESSIONATTRS": "standby",
        "PGKRBSRVNAME": "x", "PGGSSLIB": "wrong", "PGOPTIONS": "-c search_path=nowhere",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    await corpus.write({"a": "text"})

    assert [entry.key for entry in await listed(open_source())] == ["a"]
    with pytest.raises(Misconfigured, match="rejects the login"):
        await listed(open_source({"username": READER, "sslmode": "disable"}))


@guards(
    "features/sources/postgres/connection.py",
    "await self.aclose()  # asyncpg",
    "pass  # asyncpg",
    "if self._connection is None or self._connection.is_closed():",
    "if self._connection is None:",
    means="a lost connection is kept",
)
async def test_lost_connection_is_opened_again(corpus, open_source):
    await corpus.write({"a": "text"})
    source = open_source()
    assert len(await listed(source)) == 1
    await corpus.owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", READER)

    async def ended():
        return not await corpus.owner.fetchval("SELECT count(*) FROM pg_stat_activity WHERE usename = $1", READER)

    await eventually(ended)

    with suppress(Unavailable):  # unless the driver has noticed the loss already
        assert len(await listed(source)) == 1
    assert len(await listed(source)) == 1


async def test_listing_that_loses_its_connection_fails(corpus, open_source):
    await corpus.owner.execute("INSERT INTO article SELECT i::text, 'text' FROM generate_series(1, 5000) AS i")
    query = """
        SELECT key, CASE WHEN key = '5' THEN (SELECT pg_terminate_backend(pg_backend_pid()))::text ELSE body END AS body
        FROM (SELECT key, body FROM article ORDER BY key OFFSET 0) AS ordered
    """
    source = open_source(table=None, query=query, version="key")

    with pytest.raises(Unavailable):
        await anext(source.entries())


async def test_source_keeps_one_idle_connection(corpus, open_source):
    await corpus.write(dict.fromkeys("abc", "text"))
    source = open_source()

    async for entry in source.entries():
        items = await asyncio.gather(*(source.fetch(entry, max_bytes=9) for _ in range(5)))
        assert len(items) == 5
        states = await corpus.owner.fetch("SELECT state FROM pg_stat_activity WHERE usename = $1", READER)
        assert [row["state"] for row in states] == ["idle"]


async def test_listing_sees_one_state(corpus, open_source):
    await corpus.owner.execute(
        "INSERT INTO article SELECT lpad(i::text, 4, '0'), 'text' FROM generate_series(1, 3000) AS i"
    )
    source = open_source()
    listing = source.entries()
    keys = [(await anext(listing)).key]

    await corpus.owner.execute("DELETE FROM article WHERE key > '1500'; INSERT INTO article VALUES ('9999', 'text')")

    keys += [entry.key async for entry in listing]
    assert keys == [f"{number:04}" for number in range(1, 3_001)]


async def test_unencrypted_server_is_refused_by_default(open_source):
    for mode in ("require", "verify-ca", "verify-full"):
        with pytest.raises(Misconfigured, match="offers no TLS: set sslmode=disable"):
            await listed(open_source(sslmode=mode))
    assert PostgresOptions(table="t", id="i", text="t").sslmode == "verify-full"


@guards(
    "features/sources/postgres/connection.py",
    "if _MODES.index(mode) < _MODES.index(least):",
    "if False:",
    means="a tenant sends the operator's password without encryption",
)
@pytest.mark.parametrize(
    ("mode", "least"),
    [("disable", None), ("require", None), ("verify-ca", None), ("disable", "require"), ("require", "verify-ca")],
)
def test_secret_is_sent_only_as_safely_as_allowed(mode, least):
    secret = {"username": READER, "password": PASSWORD} | ({"sslmode": least} if least else {})
    options = PostgresOptions(table="t", id="i", text="t", sslmode=mode)

    with pytest.raises(InvalidInput, match=f'the field "sslmode": "{mode}" to the secret') as caught:
        PostgresSource("postgresql://host/a", options, secret, PRIVATE)
    assert caught.value.field == "options.sslmode"
    assert PostgresSource("postgresql://host/a", options, secret | {"sslmode": mode}, PRIVATE)


def test_mode_is_free_without_password():
    options = PostgresOptions(table="t", id="i", text="t", user="me", sslmode="disable")

    assert PostgresSource("postgresql://host/a", options, {}, PRIVATE)


def certificate(host):
    """Return a self-signed certificate and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return signed.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


@pytest.fixture
async def tls_server(tmp_path):
    """Yield a function that starts a server that accepts TLS for a host, and ends each encrypted connection."""
    servers = []

    async def start(host):
        public, private = certificate(host)
        (tmp_path / "pem").write_text(public + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "pem")

        async def answer(reader, writer):
            try:
                await reader.readexactly(8)  # the request for TLS
                writer.write(b"S")
                await writer.start_tls(context)
            except (OSError, asyncio.IncompleteReadError):
                pass
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        servers.append(server)
        return f"postgresql://localhost:{server.sockets[0].getsockname()[1]}/corpus", public

    yield start
    for server in servers:
        server.close()


@guards(
    "features/sources/postgres/connection.py",
    'mode == "verify-full"',
    "False",
    means="a certificate of another host is accepted",
    case="verify-full-elsewhere-True-False",
)
@pytest.mark.parametrize(
    ("mode", "host", "known", "accepted"),
    [
        ("require", "elsewhere", False, True),
        ("verify-ca", "elsewhere", False, False),
        ("verify-ca", "elsewhere", True, True),
        ("verify-full", "elsewhere", True, False),
        ("verify-full", "localhost", False, False),
        ("verify-full", "localhost", True, True),
    ],
)
async def test_certificate_is_checked_as_mode_says(tls_server, mode, host, known, accepted):
    uri, public = await tls_server(host)
    source = PostgresSource(
        uri,
        PostgresOptions(table="t", id="i", text="t", sslmode=mode),
        LOGIN | ({"ca": public} if known else {}),
        PRIVATE,
    )

    with pytest.raises(Unavailable) as caught:
        await listed(source)

    refused = (
        isinstance(caught.value, Misconfigured) and "certificate of localhost is not valid" in caught.value.message
    )
    assert refused is not accepted
    await source.aclose()


@guards(
    "features/sources/postgres/connection.py",
    "await self._hosts.addresses(self._address.host, self._address.port)",
    "[self._address.host]",
    means="the name of an allowed database leads to a private address",
)
@pytest.mark.parametrize(
    ("address", "hosts", "problem"),
    [
        ("127.0.0.1", Hosts(), "private address, which FOREASK_SOURCES_PRIVATE_NETWORKS does not allow"),
        ("169.254.169.254", PRIVATE, "which is never visited"),
    ],
)
async def test_database_at_forbidden_address_is_not_connected(monkeypatch, address, hosts, problem):
    resolving(monkeypatch, {"db.test": [address]})
    options = PostgresOptions(table="t", id="i", text="t", sslmode="disable")
    source = PostgresSource("postgresql://db.test:9/a", options, LOGIN, hosts)

    with pytest.raises(Misconfigured, match=problem):
        await listed(source)


async def test_certificate_is_checked_at_checked_address(monkeypatch, tls_server):
    uri, public = await tls_server("db.test")
    resolving(monkeypatch, {"db.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]})
    options = PostgresOptions(table="t", id="i", text="t")
    secret = LOGIN | {"ca": public}
    named, other = (
        PostgresSource(uri.replace("localhost", host), options, secret, PRIVATE) for host in ("db.test", "other.test")
    )

    with pytest.raises(Unavailable) as ended:  # the server ends each encrypted connection
        await listed(named)
    with pytest.raises(Misconfigured, match=r"certificate of other\.test is not valid"):
        await listed(other)
    assert not isinstance(ended.value, Misconfigured)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql:///corpus", "postgresql://host", "postgresql://host/", "postgresql://host/a/b", "mysql://host/a",
        "postgresql://host/a?sslmode=disable", "postgresql://host/a#b", "postgresql://one,two/a", "postgresql://host:x/a",
        "postgresql://%2Ftmp/a", "postgresql://host/a%00b",
    ],
)  # fmt: skip
def test_address_must_name_one_database(uri):
    with pytest.raises(InvalidInput, match="must have the form"):
        PostgresSource(uri, PostgresOptions(table="t", id="i", text="t"), LOGIN, PRIVATE)


def test_password_in_address_is_rejected_not_shown():
    with pytest.raises(InvalidInput, match="store them as the secret") as caught:
        PostgresSource("postgresql://me:hidden@host/a", PostgresOptions(table="t", id="i", text="t"), LOGIN, PRIVATE)

    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("secret", [{}, {"username": "x", "pasword": "y"}, {"password": "y"}])
def test_unusable_secret_is_rejected(secret):
    with pytest.raises(InvalidInput, match="username and password"):
        PostgresSource("postgresql://host/a", PostgresOptions(table="t", id="i", text="t"), secret, PRIVATE)


def test_user_may_be_an_option():
    PostgresSource(
        "postgresql://host/a", PostgresOptions(table="t", id="i", text="t", user="me"), {"password": "x"}, PRIVATE
    )


@pytest.mark.parametrize("options", [{}, {"table": "t", "query": "SELECT 1"}])
def test_either_table_or_query_is_required(options):
    with pytest.raises(ValidationError, match="either table or query"):
        PostgresOptions(id="i", text="t", **options)


VERSION = b"server_version\0" + b"16.0\0"
GREETING, READY = b"R" + struct.pack(">II", 8, 0), b"Z" + struct.pack(">Ic", 5, b"I")
HELLO = GREETING + b"S" + struct.pack(">I", 4 + len(VERSION)) + VERSION + READY
NOTICE = b"N" + struct.pack(">I", 1_000) + bytes(996)


@pytest.fixture
async def flooding():
    """Yield a function that starts a server, which sends some bytes and then others without an end."""
    servers = []

    async def start(first, endless, after):
        async def answer(reader, writer):
            with suppress(OSError, asyncio.IncompleteReadError):
                await reader.read(1_000)
                writer.write(first)
                if after:
                    await reader.read(1_000)
                writer.write(endless[0])
                while True:
                    writer.write(endless[1] * 1_000)
                    await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        servers.append(server)
        return f"postgresql://127.0.0.1:{server.sockets[0].getsockname()[1]}/corpus"

    yield start
    for server in servers:
        server.close()


@guards(
    "features/sources/postgres/bounded.py",
    "if self._left < 0:",
    "if False:",
    means="one message of a server fills the memory of a worker",
    case="description",
)
@pytest.mark.parametrize(
    ("first", "endless", "after"),
    [
        (b"", (b"S" + struct.pack(">I", 1 << 30), bytes(1_000)), False),
        (HELLO, (b"T" + struct.pack(">I", 1 << 30), bytes(1_000)), True),
        (HELLO, (b"D" + struct.pack(">IHI", 1 << 30, 1, (1 << 30) - 10), bytes(1_000)), True),
        (HELLO, (b"E" + struct.pack(">I", 1 << 30), bytes(1_000)), True),
        (HELLO, (b"", NOTICE), True),
    ],
    ids=["greeting", "description", "row", "error", "notices"],
)
async def test_endless_reply_of_server_is_refused(flooding, first, endless, after):
    options = PostgresOptions(table="t", id="i", text="t", sslmode="disable")
    source = PostgresSource(await flooding(first, endless, after), options, LOGIN | {"sslmode": "disable"}, PRIVATE)

    with processor_time_limit(10), pytest.raises(Misconfigured, match="sends more than the 16,777,216 bytes"):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await listed(source)
    await source.aclose()


@guards(
    "features/sources/postgres/statements.py",
    """return f"coalesce(to_jsonb({_column(options.readers_column)})::text, 'null')\"""",
    """return f"to_jsonb({_column(options.readers_column)})::text\"""",
    means="a row whose readers become NULL keeps the readers of the listing before",
)
@pytest.mark.parametrize(
    ("kind", "values", "malformed"),
    [
        ("text", {"group:b, user:a": BOTH, '["everyone"]': ("everyone",), "": (), None: ()}, ["b", "[7]"]),
        ("jsonb", {'["group:b", "user:a"]': BOTH, '"user:a"': BOTH[1:], "[]": (), "null": ()}, ["7", "[1e400]"]),
        ("text[]", {BOTH: BOTH, (): ()}, [("b",), (None,)]),
    ],
)
async def test_column_names_readers_of_rows(corpus, open_source, kind, values, malformed):
    columns = [list(value) if isinstance(value, tuple) else value for value in (*values, *malformed)]
    rows = [(str(number), "The harbour.", value) for number, value in enumerate(columns)]
    await make(corpus, f"id text, body text, acl {kind}", *rows)
    source = open_source(table="thing", id="id", readers_column="acl")

    entries = {entry.key: entry for entry in await listed(source)}

    for number, readers in enumerate(values.values()):
        entry = entries[str(number)]
        assert (entry.readable_by, entry.refused) == (readers, None)
        assert await source.find(entry.key) == entry
        assert (await source.fetch(entry, max_bytes=100)).readable_by == readers
    for number in range(len(values), len(values) + len(malformed)):
        entry = entries[str(number)]
        assert (entry.readable_by, "The column of the readers" in entry.refused) == (None, True)
        assert (await source.find(entry.key)).refused == entry.refused
        with pytest.raises(Unreadable, match="The column of the readers"):
            await source.fetch(entry, max_bytes=100)


async def test_changed_column_of_readers_keeps_version(corpus, open_source):
    await make(
        corpus, "id text, body text, acl text", ("a", "The harbour.", "group:a"), ("b", "The harbour.", "group:b")
    )
    source = open_source(table="thing", id="id", readers_column="acl")
    before = [(entry.version, entry.readable_by) for entry in await listed(source)]

    await corpus.owner.execute("UPDATE thing SET acl = 'group:c'")

    after = [(entry.version, entry.readable_by) for entry in await listed(source)]
    assert [version for version, _ in before] == [version for version, _ in after]
    assert [readers for _, readers in after] == [("group:c",)] * 2
    assert {entry.readable_by for entry in await listed(open_source(table="thing", id="id"))} == {None}


async def test_long_readers_of_rows_are_refused(corpus, open_source):
    await make(corpus, "id int, body text, acl text", *((n, "The harbour.", "user:a," * 5_000) for n in range(1_500)))
    source = open_source(table="thing", id="id", readers_column="acl")

    entries = await listed(source)

    assert len(entries) == 1_500
    assert {entry.refused for entry in entries} == {
        "The column of the readers cannot be used: The readers have more than 32,768 bytes: name groups."
    }
    with pytest.raises(Misconfigured, match="no column 'other', which the option readers_column names"):
        await listed(open_source(table="thing", id="id", readers_column="other"))
