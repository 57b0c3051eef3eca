"""Addresses of sources have one reading, and are compared with an operator's roots by whole segments."""

import pytest

from features.sources.opening import check, kind_of, open_source
from shared.domain.errors import InvalidInput, Misconfigured
from shared.settings.source_addresses import Address
from shared.settings.source_roots import Roots
from tests.support.planted import guards


@pytest.mark.parametrize(
    ("uri", "scheme", "host", "path"),
    [
        ("file:///", "file", "", ""),
        ("file:///data/My%20docs/", "file", "", "data/My docs"),
        ("FILE:///data/My docs", "file", "", "data/My docs"),
        ("git+file:///data/a%20clone", "git+file", "", "data/a clone"),
        ("s3://Bucket", "s3", "Bucket", ""),
        ("s3://bucket/100%25/ä", "s3", "bucket", "100%/ä"),
        ("https://Example.ORG.:443/a?b=c#d", "https", "example.org", "a"),
        ("https://example.org:8443/a//b", "https", "example.org:8443", "a//b"),
        ("http://[2001:DB8::1]/", "http", "[2001:db8::1]", ""),
        ("postgresql://reader@db:5432/wiki", "postgresql", "db", "wiki"),
    ],
)
def test_address_has_one_reading(uri, scheme, host, path):
    address = Address.parse(uri)

    assert (address.scheme, address.host, address.path) == (scheme, host, path)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "data/docs",
        "/data/docs",
        "file:/data",
        "file://server/share",
        "git+file://server/share",
        "git+file:///data//docs",
        "file:///data/../etc",
        "file:///data/%2e%2E/etc",
        "file:///data/.",
        "file:///data/..%2fetc",
        "file:///data%2f..",
        "file:///data//docs",
        "file:///data\\..\\etc",
        "file:///data/%5c..",
        "file:///data/%00",
        "file:///data/\n",
        "file:///data/%",
        "file:///data/%ff",
        "file:///data?x",
        "file:///data#x",
        " file:///data",
        "s3:///docs",
        "s3://user@bucket/docs",
        "s3://bucket:80/docs",
        "s3://bucket/a//b",
        "s3://bucket/docs?version=1",
        "https://allowed.org@evil.org/",
        "https://evil.org\\@allowed.org/",
        "https://exämple.org/",
        "https:///a",
        "https://example.org:port/",
        "https://example.org:99999/",
        "https://example.org/a/../b",
        "https://example.org/" + "a" * 2_000,
    ],
)
def test_ambiguous_address_is_rejected(uri):
    with pytest.raises(InvalidInput) as error:
        Address.parse(uri)
    assert error.value.field == "uri"


@pytest.mark.parametrize("uri", ["https://user:pass word@example.org", "s3://key:pass@bucket", "ssh://u:pass@h/"])
def test_password_is_rejected_and_not_repeated(uri):
    with pytest.raises(InvalidInput) as error:
        Address.parse(uri)
    assert "pass" not in error.value.message.replace("password", "")


@pytest.mark.parametrize(
    ("root", "uri", "allowed"),
    [
        ("s3://bucket", "s3://bucket/any/folder", True),
        ("s3://bucket", "s3://bucket-evil/any", False),
        ("s3://bucket", "gs://bucket/any", False),
        ("s3://bucket/docs", "s3://bucket/docs", True),
        ("s3://bucket/docs/", "s3://bucket/docs/a", True),
        ("s3://bucket/docs", "s3://bucket/docs-private/a", False),
        ("s3://bucket/docs", "s3://bucket", False),
        ("s3://bucket/docs", "s3://bucket/%64ocs/a", True),
        ("s3://bucket/a b", "s3://bucket/a%20b", True),
        ("s3://bucket", "s3://Bucket/any", False),
        ("https://example.org", "https://example.org:443/wiki", True),
        ("https://example.org", "https://example.org:8443/wiki", False),
        ("https://example.org", "http://example.org/wiki", False),
        ("https://example.org", "https://example.org.evil.org/", False),
        ("https://example.org/wiki", "https://example.org/wiki/Main?x=1", True),
        ("*", "https://any.org/", True),
    ],
)
def test_root_allows_whole_segments_below_it(root, uri, allowed):
    roots = Roots([root])

    if allowed:
        roots.require(Address.parse(uri))
        return
    with pytest.raises(InvalidInput, match="FOREASK_SOURCE_ROOTS") as error:
        roots.require(Address.parse(uri))
    assert error.value.field == "uri"


def test_nothing_is_allowed_without_roots(tmp_path):
    for uri in (tmp_path.as_uri(), "s3://public-bucket/", "s3://bucket/rows.jsonl"):
        with pytest.raises(InvalidInput, match="root of this tenant"):
            check(kind_of(uri), uri, {}, Roots())


@guards(
    "shared/settings/source_roots.py",
    "if address.scheme not in OF_FOLDERS:",
    'if address.scheme != "file":',
    means="a link below a root leads to a repository outside of it",
)
@pytest.mark.parametrize("scheme", ["", "git+"])
@pytest.mark.parametrize("name", ["link", "link/below", "link/*.jsonl", "link/a.jsonl"])
def test_link_does_not_lead_out_of_root(tmp_path, name, scheme):
    (tmp_path / "root").mkdir()
    (tmp_path / "outside" / "below").mkdir(parents=True)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    uri = f"{scheme}{tmp_path.as_uri()}/root/{name}"

    with pytest.raises(InvalidInput, match="root of this tenant"):
        check(kind_of(uri), uri, {}, Roots([f"{scheme}{tmp_path.as_uri()}/root"]))
    check(kind_of(uri), uri, {}, Roots([f"{scheme}{tmp_path.as_uri()}/outside"]))


def test_root_may_be_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")

    for name in ("root", "real"):
        check("folder", f"{tmp_path.as_uri()}/{name}", {}, Roots([f"{tmp_path.as_uri()}/root"]))


def test_link_to_itself_is_rejected(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")

    with pytest.raises(InvalidInput):
        check("folder", f"{tmp_path.as_uri()}/loop/a", {}, Roots(["*"]))


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("file:///data/docs", "folder"),
        ("s3://bucket/docs", "objects"),
        ("gs://bucket", "objects"),
        ("az://container/docs", "objects"),
        ("file:///data/wiki.jsonl", "rows"),
        ("file:///data/*.ndjson.gz", "rows"),
        ("s3://bucket/wiki/data/*.parquet", "rows"),
        ("gs://bucket/wiki.jsonl.zst", "rows"),
    ],
)
def test_kind_follows_from_address(uri, kind):
    assert kind_of(uri) == kind


@pytest.mark.parametrize(
    ("uri", "sentence"), [("ftp://host/docs", "scheme ftp"), ("file:///data/*.md", "use the option include")]
)
def test_address_without_kind_is_rejected(uri, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        kind_of(uri)


@pytest.mark.parametrize(
    ("uri", "options", "field", "sentence"),
    [
        (
            "file:///d",
            {"inclde": "*"},
            "options.inclde",
            "There is no option inclde; the options are readers, include, exclude",
        ),
        ("file:///d", {"hidden": "maybe"}, "options.hidden", "The option hidden cannot be used: input should be"),
        ("s3://bucket", {"region": "evil.org/"}, "options.region", "The option region cannot be used"),
        ("file:///d/a.jsonl", {"hidden": True}, "options.hidden", "the options are readers, readers_column, region"),
        ("postgresql://h/a", {"id": "id", "text": "body"}, "options", "^Set either table or query.$"),
    ],
)
def test_invalid_option_is_rejected_with_sentence(uri, options, field, sentence):
    with pytest.raises(InvalidInput, match=sentence) as error:
        check(kind_of(uri), uri, options, Roots(["*"]))
    assert error.value.field == field


def test_unknown_kind_is_rejected_with_all_kinds():
    with pytest.raises(InvalidInput, match="the kinds are rows, folder, objects"):
        check("sharepoint", "file:///data", {}, Roots(["*"]))


@pytest.mark.parametrize("options", [{"include": "*.md, *.txt"}, {"include": ["*.md", "*.txt"]}])
async def test_list_may_be_text_with_commas(tmp_path, options):
    for name in ("a.md", "b.txt", "c.pdf"):
        (tmp_path / name).touch()
    source = open_source("folder", tmp_path.as_uri(), options, roots=Roots(["*"]))

    assert [entry.key async for entry in source.entries()] == ["a.md", "b.txt"]


@pytest.mark.parametrize(
    ("allowed", "uri", "problem"),
    [
        ("s3://bucket/docs", "s3://bucket/docs/a", None),
        ("s3://bucket/docs", "s3://bucket/other", "may not be used"),
        ("s3://bucket", "s3://bucket-evil", "may not be used"),
        (None, "s3://bucket", "needs the field uri"),
    ],
)
async def test_secret_is_used_for_its_addresses_only(readers, allowed, uri, problem):
    secret = {"access_key_id": "id", "secret_access_key": "key"} | ({"uri": allowed} if allowed else {})

    if problem is None:
        assert open_source("objects", uri, {}, roots=Roots(["*"]), secret=secret, reader=readers.for_tenant("alice"))
        return
    with pytest.raises(Misconfigured, match=problem):
        open_source("objects", uri, {}, roots=Roots(["*"]), secret=secret)
