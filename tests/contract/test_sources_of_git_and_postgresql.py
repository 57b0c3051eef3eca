"""Every source lists completely and in order, and its entries, contents and versions belong together."""

import asyncio
from itertools import pairwise
from uuid import uuid4

import pytest

from features.sources.source import Entry
from shared.domain.errors import NotFound, TooLarge, Unavailable
from tests.support.corpora import GitCorpus, TableCorpus, database, listed
from tests.support.git_server import GitFolder, GitServer
from tests.support.planted import guards

# In the order of their bytes: a sorted folder "a" would be in front of "a-b", and U+FFFD in front of U+1F600.
KEYS = ["B", "a-b", "a.md", "a/b", "a/c/d", "a0", "b", "z", "ä", "\ufffd", "\U0001f600"]


KINDS = ["folder", "partial clone", "complete clone", "table", "query", "version column"]


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repositories")
    with GitServer(folder).running() as server:
        server.folder = folder
        yield server


@pytest.fixture(scope="module")
async def tables(settings):
    async with database(settings.database_url.get_secret_value()) as made:
        yield made


@pytest.fixture(scope="module")
def host(kind, request):
    """The server of repositories, or the database."""
    return request.getfixturevalue("server" if is_git(kind) else "tables")


def is_git(kind):
    return kind == "folder" or "clone" in kind


async def made(kind, host, name, readers):
    """Return an empty corpus: a repository or a table with this name."""
    if is_git(kind):
        folder = GitFolder(host.folder / f"{name}-{uuid4().hex}.git", partial=kind == "partial clone")
        return GitCorpus(folder, None if kind == "folder" else host, readers)
    url, owner = host
    options = {"query": f"SELECT key, body FROM {name}; "} if kind == "query" else {"table": name}
    corpus = TableCorpus(url, owner, name, **options | ({"version": "body"} if kind == "version column" else {}))
    await corpus.create()
    return corpus


@pytest.fixture
async def corpus(kind, host, readers):
    return await made(kind, host, "article", readers)


@pytest.fixture
async def open_source(corpus):
    opened = []

    def open_one():
        opened.append(corpus.source())
        return opened[-1]

    yield open_one
    for source in opened:
        await source.aclose()


@pytest.fixture(scope="module")
async def library(kind, host, readers):
    """A source of all `KEYS`, which tests only read: a clone costs more than most of them."""
    corpus = await made(kind, host, "library", readers)
    await corpus.write({key: text_of(key) for key in reversed(KEYS)})
    source = corpus.source()
    yield source
    await source.aclose()


def text_of(key):
    return f"The text of {key}. " * 200  # more than a small file, which a partial clone contains


async def test_listing_follows_order_of_key_bytes(library):
    entries = await listed(library)

    assert [entry.key for entry in entries] == KEYS
    assert all(one.key.encode() < two.key.encode() for one, two in pairwise(entries))
    assert all(entry.refused is None for entry in entries)


async def test_listing_resumes_after_any_key(library):
    for after in ("A", *KEYS, "a", "a/", "a/c", "a/c/", "a/z", "\U0010ffff"):
        assert [e.key for e in await listed(library, after)] == [k for k in KEYS if k.encode() > after.encode()]


async def test_found_entry_equals_listed_one(library):
    for entry in await listed(library):
        assert await library.find(entry.key) == entry


@pytest.mark.parametrize("key", ["a", "a/", "/a/b", "a//b", "c", "a/b/c", "", "a\0", "x" * 2_000, "\udcff"])
async def test_missing_key_is_reported(library, key):
    assert await library.find(key) is None
    with pytest.raises(NotFound):
        await library.fetch(Entry(key, "1"), max_bytes=10_000)


async def test_fetched_content_has_listed_version(library):
    for entry in await listed(library):
        item = await library.fetch(entry, max_bytes=100_000)
        assert item.content.decode() == text_of(entry.key)
        assert item.version == entry.version
        assert entry.size_bytes in (None, len(item.content))


async def test_version_changes_with_content_only(corpus, open_source):
    await corpus.write({"a": "one", "b": text_of("b")})
    before = {entry.key: entry.version for entry in await listed(open_source())}

    await corpus.write({"a": "two", "b": text_of("b")})
    after = {entry.key: entry.version for entry in await listed(open_source())}

    assert after["a"] != before["a"]
    assert after["b"] == before["b"]


async def test_removed_and_added_keys_are_listed(corpus, open_source):
    await corpus.write({"a": "one", "b": "two"})
    assert [entry.key for entry in await listed(open_source())] == ["a", "b"]

    await corpus.remove("a")
    await corpus.write({"c": "three"})

    assert [entry.key for entry in await listed(open_source())] == ["b", "c"]


async def test_change_after_listing_fetches_content_of_its_version(corpus, open_source):
    await corpus.write({"a": text_of("one")})
    source = open_source()
    (entry,) = await listed(source)

    await corpus.write({"a": text_of("two")})

    (later,) = await listed(open_source())
    item = await source.fetch(entry, max_bytes=100_000)
    versions = {entry.version: text_of("one"), later.version: text_of("two")}
    assert item.content.decode() == versions[item.version]


async def test_larger_content_than_allowed_is_rejected(corpus, open_source):
    await corpus.write({"a": "é" * 50, "b": text_of("b")})
    source = open_source()
    small, large = await listed(source)

    assert (await source.fetch(small, max_bytes=100)).content == ("é" * 50).encode()
    with pytest.raises(TooLarge, match="99"):
        await source.fetch(small, max_bytes=99)
    with pytest.raises(TooLarge):
        await source.fetch(large, max_bytes=100)


async def test_disappeared_corpus_is_error_not_empty(corpus, open_source):
    await corpus.write({"a": "one"})
    await corpus.disappear()

    for call in (lambda: listed(open_source()), lambda: open_source().find("a")):
        with pytest.raises(Unavailable) as caught:
            await call()
        assert caught.value.component == "source"


async def test_abandoned_listing_leaves_source_usable(corpus, open_source):
    keys = [f"{number // 50:03}/{number:05}" for number in range(1_500)]  # more than are read at once
    await corpus.write(dict.fromkeys(keys, "The harbour opens at six."))
    source = open_source()

    async for entry in source.entries():
        item = await source.fetch(entry, max_bytes=1_000)
        break

    assert item.content == b"The harbour opens at six."
    assert [entry.key for entry in await listed(source)] == keys


async def test_cancelled_listing_leaves_source_usable(corpus, open_source):
    await corpus.write({key: text_of(key) for key in KEYS})
    source = open_source()
    listing = asyncio.create_task(listed(source))
    await asyncio.sleep(0)
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing

    assert [entry.key for entry in await listed(source)] == KEYS


@guards(
    "features/sources/postgres/rows.py",
    "async with self._alone, self._connection.reading()",
    "async with self._connection.reading()",
    means="two tasks use a connection at the same time",
    case="table",
)
async def test_concurrent_fetches_return_their_contents(corpus, open_source):
    await corpus.write({key: text_of(key) for key in KEYS})
    source = open_source()
    entries = await listed(source)

    items = await asyncio.gather(*(source.fetch(entry, max_bytes=100_000) for entry in entries))

    assert [item.content.decode() for item in items] == [text_of(key) for key in KEYS]


async def test_source_closes_twice_and_unused(corpus):
    await corpus.write({"a": "one"})
    source = corpus.source()
    await source.aclose()
    await source.aclose()
