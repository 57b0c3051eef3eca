"""One suite for every kind of source: a folder, a bucket of an S3 server on loopback, and tables in both."""

import io
import os
import shutil
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from features.sources.opening import kind_of, open_source
from shared.domain.errors import NotFound, TooLarge, Unavailable
from shared.settings.source_roots import Roots

OLD = 1_700_000_000  # seconds; files that were just written have a version of their own
# Few segments, so that keys share folders; "-" and "!" precede "/", and UTF-16 orders the last two differently.
SEGMENT = st.sampled_from(["a", "a-", "a!b", "a.", "A", "%41", "0 0", "[*]", "\uffff", "\U0001f600"])
KEYS = st.sets(st.lists(SEGMENT, min_size=1, max_size=3).map("/".join), max_size=12)


class Corpus:
    """A corpus that a test changes, and a source that reads it."""

    is_snapshot = False  # whether a source reads everything before its first entry
    readers = None
    secret = None

    def __init__(self):
        self.texts = {}
        self.opened = []

    def put(self, **texts):
        """Add or replace texts; the keys of the corpus are the names."""
        self.set(self.texts | texts)

    def set(self, texts):
        self.texts = dict(texts)
        self.write(self.texts)

    def source(self, **options):
        self.opened.append(
            open_source(
                kind_of(self.uri),
                self.uri,
                options,
                roots=Roots(["*"]),
                secret=self.secret,
                private=True,
                reader=self.readers.for_tenant("acme"),
            )
        )
        return self.opened[-1]

    async def entries(self, after=""):
        return [entry async for entry in self.source().entries(after)]

    async def close(self):
        for source in self.opened:
            await source.aclose()


class Folder(Corpus):
    def __init__(self, tmp_path):
        super().__init__()
        self.folder = tmp_path / "corpus"
        self.folder.mkdir()
        self.uri = self.folder.as_uri()
        self.ticks = 0

    def write(self, texts):
        old = {path.relative_to(self.folder).as_posix(): path for path in self.folder.rglob("*") if path.is_file()}
        for path in (path for key, path in old.items() if key not in texts):
            path.unlink()
        for folder in sorted((path for path in self.folder.rglob("*") if path.is_dir()), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
        for key, text in texts.items():
            self.write_file(self.folder / key, text.encode())

    def write_file(self, path, content):
        if path.exists() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.ticks += 1
        os.utime(path, (OLD, OLD + self.ticks))

    def lose(self):
        shutil.rmtree(self.folder)


class Bucket(Corpus):
    def __init__(self, s3):
        super().__init__()
        self.s3 = s3
        self.bucket = f"bucket-{uuid4().hex}"
        s3.make(self.bucket)
        self.uri = f"s3://{self.bucket}/below"
        self.secret = s3.secret(self.bucket)
        self.stored = {}

    def write(self, texts):
        self.write_objects({key: text.encode() for key, text in texts.items()})

    def write_objects(self, contents):
        for key in self.stored.keys() - contents.keys():
            self.s3.delete(self.bucket, f"below/{key}")
        for key, content in contents.items():
            if self.stored.get(key) != content:
                self.s3.put(self.bucket, f"below/{key}", content)
        self.stored = contents

    def lose(self):
        self.s3.remove(self.bucket)


def parts(texts):
    """Return two parts of the rows, in the reverse order of their ids."""
    rows = [{"id": key, "text": text} for key, text in sorted(texts.items(), reverse=True)]
    return rows[::2], rows[1::2]


class Lines(Folder):
    is_snapshot = True

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        self.uri += "/*.jsonl"
        self.write({})

    def write(self, texts):
        for number, rows in enumerate(parts(texts)):
            content = b"".join(orjson.dumps(row) + b"\n" for row in rows)
            self.write_file(self.folder / f"part-{number}.jsonl", content)


class Parquet(Bucket):
    is_snapshot = True

    def __init__(self, s3):
        super().__init__(s3)
        self.uri += "/*.parquet"
        self.write({})

    def write(self, texts):
        schema = pa.schema([("id", pa.string()), ("text", pa.string())])
        contents = {}
        for number, rows in enumerate(parts(texts)):
            file = io.BytesIO()
            pq.write_table(pa.Table.from_pylist(rows, schema), file, row_group_size=2)
            contents[f"data/train-{number:05}-of-00002.parquet"] = file.getvalue()
        self.write_objects(contents)


@pytest.fixture(params=["folder", "bucket", "lines", "parquet"])
async def corpus(request, tmp_path, readers):
    kinds = {"folder": Folder, "bucket": Bucket, "lines": Lines, "parquet": Parquet}
    needs = tmp_path if request.param in ("folder", "lines") else request.getfixturevalue("s3")
    corpus = kinds[request.param](needs)
    corpus.readers = readers
    yield corpus
    await corpus.close()


def without_folders(keys):
    """Return the keys that are not also folders of other keys."""
    return {key for key in keys if not any(other.startswith(f"{key}/") for other in keys)}


def in_byte_order(keys):
    return sorted(keys, key=str.encode)


async def test_empty_corpus_is_listed_without_error(corpus):
    assert await corpus.entries() == []


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(keys={"a/b", "a!b", "a0", "a/c", "b", "a-/c"}, other="a/")
@given(keys=KEYS, other=SEGMENT)
async def test_listing_after_any_key_is_in_byte_order(corpus, keys, other):
    keys = without_folders(keys)
    corpus.set(dict.fromkeys(keys, "A text."))
    source = corpus.source()

    entries = [entry async for entry in source.entries()]

    assert [entry.key for entry in entries] == in_byte_order(keys)
    assert {entry.refused for entry in entries} <= {None}
    assert {entry.size_bytes for entry in entries} <= {7}
    for after in keys:
        assert [entry.key async for entry in source.entries(after)] == following(keys, after), after
    for after in (max(keys, default="a"), min(keys, default="a"), other):  # with a new source
        assert [entry.key for entry in await corpus.entries(after)] == following(keys, after), after


def following(keys, after):
    return in_byte_order(key for key in keys if key.encode() > after.encode())


async def test_version_changes_only_with_content(corpus):
    corpus.put(a="One.", b="Two.")
    before = await corpus.entries()

    assert await corpus.entries() == before
    corpus.put(b="Three")
    after = await corpus.entries()

    assert after[0] == before[0]
    assert after[1].version != before[1].version


async def test_found_entry_is_the_listed_one(corpus):
    corpus.set({"a": "One.", "b/c": "Two."})

    entries = await corpus.entries()
    source = corpus.source()

    assert [await source.find(entry.key) for entry in entries] == entries


async def test_missing_key_is_not_found(corpus):
    corpus.set({"a": "One.", "b/c": "Two."})
    missing = ["c", "b", "b/", "b/d", "a/x", "", "../corpus/a", "b//c", "x" * 2_000, "a\0"]

    assert {key: await corpus.source().find(key) for key in missing} == dict.fromkeys(missing)


async def test_fetched_item_has_listed_content(corpus):
    corpus.set({"a.md": "# Ä lamp", "b/c.md": "Two."})
    source = corpus.source()

    items = {entry: await source.fetch(entry, max_bytes=100) async for entry in source.entries()}

    assert {entry.key: item.content.decode() for entry, item in items.items()} == corpus.texts
    assert all(item.version == entry.version for entry, item in items.items())


async def test_changed_content_is_fetched_with_its_version(corpus):
    corpus.put(a="One.")
    source = corpus.source()
    (listed,) = [entry async for entry in source.entries()]

    corpus.put(a="Another one.")
    item = await source.fetch(listed, max_bytes=100)

    (current,) = await corpus.entries()
    assert current.version != listed.version
    expected = (listed.version, b"One.") if corpus.is_snapshot else (current.version, b"Another one.")
    assert (item.version, item.content) == expected


async def test_removed_entry_is_not_fetched(corpus):
    corpus.put(a="One.", b="Two.")
    listed = (await corpus.entries())[0]
    corpus.set({"b": "Two."})

    with pytest.raises(NotFound, match="a does not exist"):
        await corpus.source().fetch(listed, max_bytes=100)


async def test_changed_corpus_is_found_as_it_is_now(corpus):
    corpus.put(a="One.", b="Two.")
    source = corpus.source()
    before = [entry async for entry in source.entries()]

    corpus.set({"b": "Three"})

    assert await source.find("a") is None
    assert (await source.find("b")).version not in {entry.version for entry in before}


async def test_content_above_limit_is_not_fetched(corpus):
    corpus.put(a="12345")
    source = corpus.source()
    (entry,) = [entry async for entry in source.entries()]

    assert (await source.fetch(entry, max_bytes=5)).content == b"12345"
    with pytest.raises(TooLarge, match="5 bytes"):
        await source.fetch(entry, max_bytes=4)


async def test_lost_corpus_is_error_and_not_empty(corpus):
    corpus.put(a="One.")
    (entry,) = await corpus.entries()
    corpus.lose()
    source = corpus.source()

    with pytest.raises(Unavailable):
        [entry async for entry in source.entries()]
    with pytest.raises(Unavailable):
        await source.find("a")
    with pytest.raises(Unavailable):
        await source.fetch(entry, max_bytes=100)
