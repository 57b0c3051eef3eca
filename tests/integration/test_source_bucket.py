"""A bucket as a source: its names, its credentials, and its failures while it is listed."""

import gzip
import json
import re
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import quote_plus
from uuid import uuid4
from xml.sax.saxutils import escape

import pytest
import time_machine
from aiohttp import web
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from embedded.ports import free_port
from features.sources.files.s3_names import S3Names
from features.sources.opening import open_source
from shared.buckets.connection import RETRIES
from shared.confined.reading import Readers, ReadLimits
from shared.domain.errors import Misconfigured, NotFound, Unavailable
from shared.settings.source_roots import Roots
from tests.support.planted import guards
from tests.support.proxy import Fault, Link


@pytest.fixture
def bucket(s3):
    name = f"bucket-{uuid4().hex}"
    s3.make(name)
    return name


@pytest.fixture
def source_of(readers):
    """Return a function that opens a source."""

    def opened(uri, secret=None, **options):
        return open_source(
            "objects", uri, options, roots=Roots(["*"]), secret=secret, reader=readers.for_tenant("acme")
        )

    return opened


async def listed(source, after=""):
    return [entry async for entry in source.entries(after)]


async def test_options_select_objects(s3, bucket, source_of):
    for key in ("a.md", "b/c.txt", "b/d.md", ".hidden/e.md"):
        s3.put(bucket, f"handbook/{key}", b"A text.")
    s3.put(bucket, "handbook-old/f.md", b"A text.")

    source = source_of(f"s3://{bucket}/handbook/", s3.secret(bucket), include="*.md", exclude="a*")

    assert [entry.key for entry in await listed(source)] == ["b/d.md"]
    assert [await source.find(key) for key in ("a.md", "b/c.txt", ".hidden/e.md")] == [None] * 3


async def test_folder_markers_are_skipped_and_empty_objects_refused(s3, bucket, source_of):
    for key in ("docs/", "docs/a", "docs/a-b", "docs/a/", "docs/a/c", "docs/b/", "docs/empty"):
        s3.put(bucket, key, b"" if key.endswith(("/", "empty")) else b"A text.")
    source = source_of(f"s3://{bucket}/docs", s3.secret(bucket))

    entries = await listed(source)

    assert [(entry.key, entry.refused) for entry in entries] == [
        ("a", None),
        ("a-b", None),
        ("a/c", None),
        ("empty", "It is empty."),
    ]


async def test_prefix_is_whole_segment(s3, bucket, source_of):
    s3.put(bucket, "a/b", b"A text.")
    s3.put(bucket, "ab/c", b"A text.")

    assert [entry.key for entry in await listed(source_of(f"s3://{bucket}/a", s3.secret(bucket)))] == ["b"]


UNREPRESENTABLE = ["b//c", "b//d/e", "c//d"]


@pytest.mark.parametrize("folder", ["", "docs/2026"])
async def test_unrepresentable_names_are_refused_and_others_listed(s3, bucket, folder, source_of):
    others = ["a", "b/!", "b/0", "b/c", "c/d", "d"]
    prefix = f"{folder}/" if folder else ""
    for key in (*UNREPRESENTABLE, *others, "b//"):
        s3.put(bucket, prefix + key, b"" if key.endswith("/") else b"A text.")
    s3.put(bucket, "e//f", b"A text.")  # outside of the folder, unless the source is the whole bucket
    source = source_of(f"s3://{bucket}/{folder}", s3.secret(bucket))

    entries = await listed(source)

    refused = {entry.key for entry in entries if entry.refused}
    assert refused == {*UNREPRESENTABLE} | ({"e//f"} if not folder else set())
    assert [entry.key for entry in entries] == sorted(refused | {*others})
    versions = {entry.key: entry.version for entry in entries if not entry.refused}
    assert versions == {key: (await source.find(key)).version for key in others}
    for start in range(len(entries)):  # a listing continues after any of them
        assert await listed(source, after=entries[start].key) == entries[start + 1 :]


async def test_pages_with_unrepresentable_names_follow_each_other(scripted, source_of):
    scripted.names = sorted([*NAMES, "00500//a", "01999/../b", "02200/./c"])
    source = source_of("s3://bucket", {"uri": "s3://bucket", "endpoint": scripted.url}, hidden=True)

    assert [entry.key for entry in await listed(source)] == scripted.names


@pytest.mark.parametrize("encodes", [True, False])
async def test_listed_names_may_be_encoded(scripted, encodes, source_of):
    scripted.encodes = encodes
    scripted.names = sorted(["a b+c%41.md", "b//c", "\u00e4.md"] + ["d\x01e"] * encodes)
    source = source_of("s3://bucket", {"uri": "s3://bucket", "endpoint": scripted.url})

    entries = await listed(source)

    assert [entry.key for entry in entries] == scripted.names
    assert {entry.key for entry in entries if entry.refused} == {"b//c"} | ({"d\x01e"} if encodes else set())


@pytest.mark.parametrize("store", ["gs", "az"])
@pytest.mark.parametrize("name", ["b//c", "b/../c", "b/./c", "b\x1fc", "b\n//c", 'b" contained//c'])
async def test_name_that_ends_a_listing_is_reported(scripted, store, name, source_of):
    scripted.names = ["a", name, "d"]

    with pytest.raises(Misconfigured) as error:
        await listed(source_of(f"{store}://bucket", scripted.secret(store), hidden=True))

    assert f"because of the object {name!r}. " in error.value.message
    assert "rename it, or choose a folder without it" in error.value.message


@pytest.mark.parametrize("store", ["s3", "gs", "az"])
async def test_name_with_leading_slash_is_refused_alone(scripted, store, source_of):
    scripted.names = ["/a", "b"]
    source = source_of(f"{store}://bucket", scripted.secret(store))

    first, second = await listed(source)

    with pytest.raises(NotFound, match="a does not exist"):
        await source.fetch(first, max_bytes=10)
    assert second.key == "b"


async def test_unrepresentable_name_is_error_with_ambient_credentials(s3, bucket, monkeypatch, source_of):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id-of-the-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-key")
    s3.put(bucket, "b//c", b"A text.")
    secret = {"uri": f"s3://{bucket}/", "endpoint": s3.url, "ambient": "true"}

    with pytest.raises(Misconfigured, match=r"b//c.*rename it"):
        await listed(source_of(f"s3://{bucket}", secret))


async def test_signature_is_botocores(readers):
    now = datetime(2026, 11, 25, 23, 0, tzinfo=UTC)
    credentials = {"access_key_id": "id", "secret_access_key": "secret", "token": "token"}
    names = S3Names("http://127.0.0.1:9000", "eu-west-1", "bucket", "a b/", credentials, readers.for_tenant("acme"))
    url, query = "http://127.0.0.1:9000/bucket", "list-type=2&prefix=a%20b%2F&start-after=%C3%BC%2B"
    request = AWSRequest("GET", f"{url}?{query}", headers={})
    with time_machine.travel(now, tick=False):
        S3SigV4Auth(Credentials("id", "secret", "token"), "s3", "eu-west-1").add_auth(request)

    assert names.signed(url, query, now)["authorization"] == request.headers["Authorization"]


async def test_missing_bucket_is_error(s3, source_of):
    source = source_of("s3://no-such-bucket", s3.secret("no-such-bucket"))

    for call in (listed(source), source.find("a")):
        with pytest.raises(Misconfigured, match="does not exist"):
            await call


async def test_refused_credentials_are_error(s3, bucket, source_of):
    s3.put(bucket, "a", b"A text.")
    source = source_of(f"s3://{bucket}", s3.secret(bucket))
    (entry,) = await listed(source)

    with s3.forbidding():
        for call in (listed(source), source.find("a"), source.fetch(entry, max_bytes=10)):
            with pytest.raises(Misconfigured, match="refuses the credentials"):
                await call


async def test_closed_port_is_error(s3, monkeypatch, source_of):
    monkeypatch.setitem(RETRIES, "max_retries", 0)
    secret = s3.secret("bucket") | {"endpoint": f"http://127.0.0.1:{free_port()}"}

    with pytest.raises(Unavailable, match="the connection is refused"):
        await listed(source_of("s3://bucket", secret))


class ScriptedStore:
    """Answers list requests with given names, in their order, and records the headers."""

    def __init__(self):
        self.names = []
        self.headers = []
        self.encodes = True
        self.reply = None
        self.answer_all = None

    def secret(self, store):
        """Return the secret of a source in a bucket of another store, which lists the same names."""
        account = {"gcs_base_url": self.url, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return {
            "s3": {"uri": "s3://bucket", "endpoint": self.url},
            "gs": {"uri": "gs://bucket", "service_account_key": json.dumps(account)},
            "az": {"uri": "az://bucket", "account": "account", "endpoint": self.url},
        }[store]

    async def answer(self, request):
        self.headers.append(request.headers)
        if self.answer_all is not None:
            return await self.answer_all(request)
        if self.reply is not None:
            return self.reply
        if request.query.get("comp") == "list":
            return web.Response(text=_azure_listing(self.names), content_type="application/xml")
        if "list-type" not in request.query:
            return web.Response(status=404)
        after = request.query.get("start-after", "")
        names = [name for name in self.names if name > after][int(request.query.get("continuation-token", 0)) :]
        page, rest = names[:1_000], names[1_000:]
        token = len(self.names) - len(rest) - sum(name <= after for name in self.names)
        more = f"<NextContinuationToken>{token}</NextContinuationToken>" if rest else ""
        shown = escape
        if self.encodes and request.query.get("encoding-type") == "url":
            shown, more = quote_plus, f"{more}<EncodingType>url</EncodingType>"
        listed = "".join(
            f"<Contents><Key>{shown(name)}</Key><LastModified>2026-01-01T00:00:00.123Z</LastModified>"
            f"<Size>7</Size></Contents>"
            for name in page
        )
        more += f"<IsTruncated>{str(bool(rest)).lower()}</IsTruncated>"
        return web.Response(text=f"<ListBucketResult>{listed}{more}</ListBucketResult>", content_type="application/xml")


def _azure_listing(names):
    fields = "<Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Content-Length>7</Content-Length>"
    properties = f"<Properties>{fields}<Content-Type>text/plain</Content-Type><Etag>e</Etag></Properties>"
    blobs = "".join(f"<Blob><Name>{escape(name)}</Name>{properties}</Blob>" for name in names)
    return f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>"


@pytest.fixture
async def scripted():
    store, app = ScriptedStore(), web.Application()
    app.router.add_route("*", "/{path:.*}", store.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port := free_port())
    await site.start()
    store.url = f"http://127.0.0.1:{port}"
    yield store
    await runner.cleanup()


NAMES = [f"{number:05}" for number in range(2_300)]


async def test_pages_of_listing_follow_each_other(scripted, source_of):
    scripted.names = NAMES
    source = source_of("s3://bucket", {"uri": "s3://bucket", "endpoint": scripted.url})

    assert [entry.key for entry in await listed(source)] == NAMES
    assert len(scripted.headers) == 3  # list requests
    assert [entry.key for entry in await listed(source, after="01150")] == NAMES[1_151:]
    assert len(scripted.headers) == 5


async def test_lost_connection_ends_listing_with_error(scripted, monkeypatch, source_of):
    monkeypatch.setitem(RETRIES, "max_retries", 0)
    scripted.names = NAMES
    link = Link(scripted.url.removeprefix("http://"))
    endpoint = f"http://127.0.0.1:{await link.listen()}"
    listing = source_of("s3://bucket", {"uri": "s3://bucket", "endpoint": endpoint}).entries()
    await anext(listing)
    link.change(Fault("cut"))

    with pytest.raises(Unavailable, match="cannot be read"):
        [entry async for entry in listing]
    await link.aclose()


@pytest.mark.parametrize("names", [["b", "a"], ["a", "a"], ["a", "a/b", "a-b"], ["\uffff", "\U0001f600", "\ue000"]])
async def test_listing_in_another_order_is_error(scripted, names, source_of):
    scripted.names = names

    with pytest.raises(Misconfigured, match="not list names in the order"):
        await listed(source_of("s3://bucket", {"uri": "s3://bucket", "endpoint": scripted.url}))


async def test_version_without_entity_tag_is_time_and_size(scripted, source_of):
    scripted.names = ["a"]

    (entry,) = await listed(source_of("s3://bucket", {"uri": "s3://bucket", "endpoint": scripted.url}))

    assert entry.version == "modified:1767225600-7"


async def test_credentials_of_own_store_are_not_used(scripted, monkeypatch, source_of):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN"):
        monkeypatch.setenv(name, "of-the-store")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    secret = {"uri": "s3://bucket", "endpoint": scripted.url}
    own = {"access_key_id": "of-the-source", "secret_access_key": "secret"}

    for given in (secret, secret | own, secret | own | {"session_token": "token"}, secret | {"ambient": "true"}):
        await listed(source_of("s3://bucket", given))

    keys = [re.findall("Credential=([^/]*)", headers.get("Authorization", "")) for headers in scripted.headers]
    assert keys == [[], ["of-the-source"], ["of-the-source"], ["of-the-store"]]
    tokens = [headers.get("x-amz-security-token") for headers in scripted.headers]
    assert tokens == [None, None, "token", "of-the-store"]


@pytest.mark.parametrize(
    ("uri", "secret", "problem"),
    [
        ("s3://bucket", {"aws_access_key_id": "x"}, "invalid fields: aws_access_key_id"),
        ("s3://bucket", {"endpoint": "minio:9000"}, "invalid fields: endpoint"),
        ("az://container", {}, "storage account"),
        ("gs://bucket", {"service_account_key": "{}"}, "cannot be used"),
    ],
)
def test_invalid_secret_is_error_without_values(uri, secret, problem, source_of):
    with pytest.raises(Misconfigured, match=problem) as error:
        source_of(uri, {"uri": uri} | secret)
    assert "x" not in error.value.message.split(": ")[-1].split()


@pytest.mark.parametrize(
    ("uri", "secret"),
    [
        ("az://container/a b", {"account": "account", "account_key": "a2V5"}),
        ("az://container", {"account": "account", "sas_token": "sv=1&sig=x"}),
        ("gs://bucket/100%25", {}),
    ],
)
def test_google_and_azure_are_opened(uri, secret, source_of):
    assert source_of(uri, {"uri": uri} | secret)


def listing_with(inner):
    return f"<ListBucketResult>{inner}<IsTruncated>false</IsTruncated></ListBucketResult>".encode()


def contents(key="a", size="7", tag=""):
    fields = f"<Size>{size}</Size><ETag>{tag}</ETag><LastModified>2026-01-01T00:00:00Z</LastModified>"
    return f"<Contents><Key>{key}</Key>{fields}</Contents>"


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<!DOCTYPE x [<!ENTITY e0 "{"x" * 100}">{ENTITIES}]>'


@guards(
    "features/sources/files/s3_names.py",
    "        if len(content) > _MOST_BYTES:",
    "        if False:",
    means="a reply of a store fills the memory of a worker",
    case="large",
)
@guards(
    "features/sources/reading/listings.py",
    'if max(map(len, (key.encode(), fields["ETag"]))) > MOST_KEY_BYTES:',
    "if False:",
    means="a name of a megabyte is a key",
    case="key",
)
@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        pytest.param(gzip.compress(b" " * 50_000_000), {"content-encoding": "gzip"}, "is compressed", id="packed"),
        pytest.param(b"<" + b" " * (17 << 20), {}, "has more than 16,777,216 bytes", id="large"),
        pytest.param(listing_with(contents("k" * 1_000_000)), {}, "its reply is not a listing", id="key"),
        pytest.param(listing_with(contents(tag="k" * 5_000)), {}, "its reply is not a listing", id="tag"),
        pytest.param(listing_with(contents(size="9" * 100)), {}, "its reply is not a listing", id="size"),
        pytest.param(listing_with(contents() * 1_001), {}, "its reply has more than 1,000 names", id="names"),
        pytest.param((BOMB + "<a>&e9;</a>").encode(), {}, "its reply is not a listing", id="entities"),
        pytest.param(b"<a>" * 300_000, {}, "its reply", id="nesting"),
    ],
)
async def test_hostile_listing_is_refused_with_reason(scripted, readers, body, headers, reason):
    scripted.reply = web.Response(body=body, headers=headers)
    names = S3Names(scripted.url, "eu-west-1", "bucket", "", None, readers.for_tenant("acme"))

    with pytest.raises(Misconfigured, match=reason):
        await names.page("")


async def endless(request):
    """Send a listing of 400 MB."""
    reply = web.StreamResponse()
    await reply.prepare(request)
    with suppress(ConnectionError):
        for _ in range(400):
            await reply.write(b" " * 1_000_000)
    return reply


@guards(
    "shared/confined/child.py",
    "(resource.RLIMIT_DATA, memory_bytes),",
    "(resource.RLIMIT_DATA, 1 << 40),",
    means="a reply of a store of any size is in memory",
)
@pytest.mark.parametrize("store", ["s3", "gs", "az"])
async def test_endless_listing_ends_with_its_process(scripted, store):
    scripted.answer_all = endless
    async with aclosing(Readers(ReadLimits(timedelta(seconds=20), 256 << 20))) as readers:
        secret = scripted.secret(store)
        source = open_source(
            "objects", f"{store}://bucket", {}, roots=Roots(["*"]), secret=secret, reader=readers.for_tenant("a")
        )

        with pytest.raises(Misconfigured, match=r"cannot be listed: its reply needed more than 0\.2 GB"):
            await listed(source)


@pytest.mark.parametrize("store", ["s3", "gs", "az"])
async def test_hostile_listing_of_any_store_is_refused(scripted, store, source_of):
    scripted.reply = web.Response(body=b"<a>" * 300_000 + b"[" * 300_000)

    with pytest.raises(Unavailable, match="cannot be read"):
        await listed(source_of(f"{store}://bucket", scripted.secret(store)))


@pytest.mark.parametrize("store", ["s3", "az"])
async def test_name_of_any_length_is_refused(scripted, store, source_of):
    scripted.names = ["a", "b" * 100_000]

    with pytest.raises(Misconfigured, match="its reply has a name that is too long"):
        await listed(source_of(f"{store}://bucket", scripted.secret(store)))


async def test_object_larger_than_temporary_space_is_error(s3, bucket, readers):
    s3.put(bucket, "a.jsonl", b'{"id": "a", "text": "One."}\n' * 5_000)
    uri, secret = f"s3://{bucket}/a.jsonl", s3.secret(bucket)
    given = {"roots": Roots(["*"]), "secret": secret, "reader": readers.for_tenant("acme"), "temporary_bytes": 100_000}

    with pytest.raises(Misconfigured, match=r"a\.jsonl needs more than 100,000 bytes of temporary space"):
        await listed(open_source("rows", uri, {}, **given))
