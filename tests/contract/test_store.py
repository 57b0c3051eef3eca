"""One suite for every store of uploads: a folder, and a bucket of an S3 server on loopback."""

import asyncio
import hashlib
import shutil
from contextlib import suppress
from uuid import uuid4

import obstore
import pytest

from embedded.ports import free_port
from shared.domain.errors import InvalidInput, TooLarge, Unavailable, Unreadable
from shared.storage.bucket import UploadBucket
from shared.storage.folder import UploadFolder
from shared.storage.opening import open_uploads
from shared.storage.uploads import RETRY_AFTER, stored_in
from tests.support.planted import guards

LARGE = 17 << 20  # three parts of a multipart upload, of which two are sent at once


class UploadOwner:
    """A deployment whose ledger names these uploads."""

    def __init__(self, *uploads):
        self._id = uuid4()
        self.uploads = uploads

    async def id(self):
        return self._id

    async def newest_uploads(self, limit):
        return self.uploads[:limit]


class Folder:
    def __init__(self, tmp_path):
        self.folder = tmp_path / "uploads"

    def store(self, owner):
        return UploadFolder(self.folder, owner)

    def names(self):
        return {path.name for path in self.folder.glob("??/*")}

    def unfinished(self):
        return []

    def replace_by_empty(self):
        shutil.rmtree(self.folder)

    def unavailable(self, owner):
        path = self.folder.with_name("a-file")
        path.touch()
        return UploadFolder(path, owner)


class Bucket:
    def __init__(self, s3):
        self.s3 = s3
        self.bucket = f"bucket-{uuid4().hex}"
        self.url = s3.make(self.bucket)

    def store(self, owner):
        return UploadBucket(self.url, self.s3.options(), owner)

    def names(self):
        keys = {key.removeprefix("below/here/") for key in self.s3.keys(self.bucket)}
        return {key for key in keys if not key.startswith(".")}

    def unfinished(self):
        return self.s3.unfinished(self.bucket)

    def replace_by_empty(self):
        self.url = self.s3.make(f"bucket-{uuid4().hex}")

    def unavailable(self, owner):
        closed = f"http://127.0.0.1:{free_port()}"
        return UploadBucket(self.url, self.s3.options(aws_endpoint_url=closed), owner)


@pytest.fixture(params=["folder", "s3"])
def storage(request, tmp_path):
    return Folder(tmp_path) if request.param == "folder" else Bucket(request.getfixturevalue("s3"))


@pytest.fixture
def owner():
    return UploadOwner()


@pytest.fixture
def store(storage, owner):
    return storage.store(owner)


async def pieces(size, *, piece_bytes=1 << 18, error=None):
    for start in range(0, size, piece_bytes):
        yield bytes([start // piece_bytes % 256]) * min(piece_bytes, size - start)
    if error is not None:
        raise error


async def content(store, name):
    async with store.fetched(name) as path:
        return path.read_bytes()


@pytest.mark.parametrize("size", [0, 5, LARGE])
async def test_stored_stream_is_read_unchanged(store, size):
    expected = b"".join([piece async for piece in pieces(size)])

    upload = await store.store(pieces(size), max_bytes=LARGE)

    assert (upload.size_bytes, upload.sha256) == (size, hashlib.sha256(expected).digest())
    assert await content(store, upload.name) == expected
    assert b"".join([piece async for piece in store.pieces(upload.name, size)]) == expected


async def test_stored_bytes_are_readable_by_another_process(storage, store, owner):
    upload = await store.store_bytes(b"bytes", max_bytes=5)

    assert (upload.size_bytes, upload.sha256) == (5, hashlib.sha256(b"bytes").digest())
    assert await content(storage.store(owner), upload.name) == b"bytes"


async def test_temporary_file_of_fetched_upload_is_removed(store, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    upload, (part,) = await store.store_bytes(b"bytes", max_bytes=5), await store.store_pack([b"packed"])

    for name in (upload.name, part.name):
        with suppress(ZeroDivisionError):
            async with store.fetched(name) as path:
                assert path.is_file()
                raise ZeroDivisionError

    assert list((tmp_path / "temporary").iterdir()) == []


async def test_stored_part_is_read_in_pieces_until_removed(store):
    _, part = await store.store_pack([b"first", b"second"])
    assert [piece async for piece in store.pieces(part.name, part.size_bytes)] == [b"second"]

    await store.remove([part.stored_in])
    with pytest.raises(Unreadable):
        await anext(store.pieces(part.name, part.size_bytes))


@guards(
    "shared/storage/uploads.py",
    "        offset, end = first + start, first + stop",
    "        offset, end = start, stop",
    means="a range in a pack has bytes of another document",
)
async def test_span_of_stored_bytes_is_read_alone(store):
    content = bytes(range(256)) * 9_000
    upload = await store.store_bytes(content, max_bytes=len(content))
    _, part = await store.store_pack([b"first", b"second"])

    for start, end in [(0, 3), (1_048_570, 2_097_160), (len(content) - 1, len(content))]:
        pieces = store.pieces(upload.name, upload.size_bytes, (start, end))
        assert b"".join([piece async for piece in pieces]) == content[start:end]
    assert [piece async for piece in store.pieces(part.name, part.size_bytes, (1, 4))] == [b"eco"]


async def test_small_documents_share_one_object(storage, store):
    documents = [f"Document {number}.".encode() for number in range(300)]

    parts = await store.store_pack(documents)

    assert [await content(store, part.name) for part in parts[::40]] == documents[::40]
    assert [part.sha256 for part in parts] == [hashlib.sha256(document).digest() for document in documents]
    assert storage.names() == {stored_in(parts[0].name)} == {part.stored_in for part in parts}


async def test_upload_in_own_object_is_not_repacked(storage, store):
    upload = await store.store_bytes(b"bytes", max_bytes=5)

    assert not await store.foreign_bytes([upload.name])
    with pytest.raises(ValueError, match="not a part of a pack"):
        await store.repack([upload.name])

    assert storage.names() == {upload.name}


async def test_pack_documents_are_read_in_one_request(s3, monkeypatch):
    store, requests = Bucket(s3).store(UploadOwner()), []
    documents = [f"Document {number}.".encode() for number in range(200)]
    parts = await store.store_pack(documents)
    get_range = obstore.get_range_async

    async def counted(*arguments, **options):
        requests.append(arguments[1])
        return await get_range(*arguments, **options)

    monkeypatch.setattr(obstore, "get_range_async", counted)

    assert await asyncio.gather(*(content(store, part.name) for part in parts)) == documents
    assert requests == [parts[0].stored_in]


@pytest.mark.parametrize("size", [300, LARGE])
async def test_oversized_stream_is_rejected_and_not_stored(storage, store, size):
    with pytest.raises(TooLarge, match="FOREASK_MAX_UPLOAD_BYTES"):
        await store.store(pieces(size), max_bytes=size - 1)
    with pytest.raises(TooLarge, match="FOREASK_MAX_UPLOAD_BYTES"):
        await store.store_bytes(b"x" * 300, max_bytes=299)

    assert (storage.names(), storage.unfinished()) == (set(), [])


@pytest.mark.parametrize("size", [300, LARGE])
async def test_aborted_stream_is_not_stored(storage, store, size):
    with pytest.raises(ZeroDivisionError):
        await store.store(pieces(size, error=ZeroDivisionError()), max_bytes=LARGE)

    assert (storage.names(), storage.unfinished()) == (set(), [])


async def test_upload_of_cancelled_request_is_not_stored(storage, store):
    reached = asyncio.Event()

    async def waiting():
        async for piece in pieces(LARGE):
            yield piece
        reached.set()
        await asyncio.Event().wait()

    storing = asyncio.create_task(store.store(waiting(), max_bytes=LARGE))
    await reached.wait()
    storing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await storing

    assert (storage.names(), storage.unfinished()) == (set(), [])


async def test_removed_object_is_missing_and_reported(store):
    remaining, *removed = [await store.store_bytes(b"x", max_bytes=1) for _ in range(3)]
    (part,) = await store.store_pack([b"packed"])
    names = [upload.stored_in for upload in (*removed, part)]

    assert await store.remove(names) == set()
    assert await store.remove(names) == set()
    assert await store.remove([]) == set()

    for upload in (*removed, part):
        with pytest.raises(Unreadable, match="upload it again"):
            await content(store, upload.name)
    assert await content(store, remaining.name) == b"x"
    assert await store.require() is None


async def test_missing_objects_are_lost_with_all_their_parts(store):
    kept = await store.store_bytes(b"one", max_bytes=9)
    removed = await store.store_bytes(b"two", max_bytes=9)
    parts = [upload.name for upload in await store.store_pack([b"three", b"four"])]
    assert await store.lost([kept.name, removed.name, *parts]) == set()

    await store.remove([removed.name, stored_in(parts[0])])

    assert await store.lost([kept.name, removed.name, *parts]) == {removed.name, *parts}


async def test_emptied_store_is_unavailable_instead_of_missing_uploads(storage, store, owner):
    name = (await store.store_bytes(b"one", max_bytes=9)).name
    owner.uploads = [name]
    storage.replace_by_empty()

    with pytest.raises(Unavailable):
        await storage.store(owner).lost([name])


async def test_truncated_pack_is_treated_as_missing(store):
    part, _ = await store.store_pack([b"one", b"two"])

    for storage in ("4,5", "400,5"):
        with pytest.raises(Unreadable, match="upload it again"):
            await content(store, f"{part.stored_in}#{storage}")


async def test_object_names_are_listed_in_pages(storage, store):
    uploads = {(await store.store_bytes(b"x", max_bytes=1)).name for _ in range(5)}
    await store.write_note(".foreask-note", b"no upload")

    pages = [page async for page in store.pages()]

    assert {name for page in pages for name in page} == uploads == storage.names()


async def test_listing_spans_several_pages(store, monkeypatch):
    (written,) = [await store.store_bytes(b"x", max_bytes=1)]
    names = [f"{written.name[:2]}{number:030}" for number in range(1_000)]
    for first in range(0, len(names), 50):  # a thousand concurrent connections time out on a busy machine
        await asyncio.gather(*(store._write(name, b"x") for name in names[first : first + 50]))

    pages = [page async for page in store.pages()]

    assert len(pages) == 2
    assert max(map(len, pages)) <= 1_000
    assert sum(map(len, pages)) == 1_001


async def test_latest_note_is_readable_by_another_process(storage, store, owner):
    assert await store.read_note(".foreask-note") is None
    for note in (b"first", b"second"):
        await store.write_note(".foreask-note", note)
        assert await storage.store(owner).read_note(".foreask-note") == note


async def test_store_belongs_to_its_first_deployment(storage, store):
    await store.store_bytes(b"x", max_bytes=9)
    other = storage.store(UploadOwner())

    message = r"belongs to another deployment.*FOREASK_DATABASE_URL.*foreask uploads adopt"
    with pytest.raises(Unavailable, match=message):
        await other.store_bytes(b"x", max_bytes=9)
    with pytest.raises(Unavailable, match=message):
        await other.store(pieces(LARGE), max_bytes=LARGE)
    with pytest.raises(Unavailable, match=message):
        await other.ready()
    assert len(storage.names()) == 1

    await other.adopt()
    await other.require_own()
    with pytest.raises(Unavailable, match=message):
        await store.require_own()


@pytest.mark.parametrize("packed", [True, False])
async def test_store_without_marker_is_adopted_if_uploads_match(storage, store, packed):
    upload = (await store.store_pack([b"x"]))[0] if packed else await store.store_bytes(b"x", max_bytes=1)
    await forget_owner(storage)

    with pytest.raises(Unavailable, match="contains no upload of the ledger"):
        await storage.store(UploadOwner(uuid4().hex)).require_own()
    with pytest.raises(Unavailable, match="contains no upload of the ledger"):
        await storage.store(UploadOwner()).require_own()
    await storage.store(UploadOwner(uuid4().hex, upload.name)).require_own()


async def forget_owner(storage):
    if isinstance(storage, Folder):
        (storage.folder / ".foreask-deployment").unlink()
    else:
        await storage.store(UploadOwner()).remove([".foreask-deployment"])


async def test_emptied_store_is_unavailable_and_keeps_upload_rows(storage, store, owner):
    upload = await store.store_bytes(b"x", max_bytes=1)
    owner.uploads = [upload.name]
    storage.replace_by_empty()
    lost = storage.store(owner)

    with pytest.raises(Unavailable, match="contains no upload of the ledger") as caught:
        await content(lost, upload.name)
    assert caught.value.component == "uploads"
    with pytest.raises(Unavailable):
        await lost.require()


async def test_unavailable_store_is_reported(storage, owner):
    unavailable = storage.unavailable(owner)

    async def stream():
        return await unavailable.store(pieces(LARGE), max_bytes=LARGE)

    async def names():
        return [page async for page in unavailable.pages()]

    attempts = [
        stream,
        lambda: unavailable.store_bytes(b"x", max_bytes=1),
        lambda: unavailable.store_pack([b"x"]),
        unavailable.ready,
    ]
    attempts += [lambda: content(unavailable, "name"), lambda: content(unavailable, "pack#0,1")]
    if isinstance(storage, Bucket):
        attempts += [names, lambda: unavailable.read_note(".note"), lambda: unavailable.write_note(".note", b"")]
    outcomes = await asyncio.gather(*(attempt() for attempt in attempts), return_exceptions=True)  # each one retries
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * len(attempts)
    assert {outcome.component for outcome in outcomes} == {"uploads"}
    assert all(outcome.retry_after for outcome in outcomes)
    with pytest.raises(Unavailable):
        await unavailable.require()


async def test_readiness_probe_removes_its_object(storage, store):
    await store.ready()

    assert storage.names() == set()


async def test_rejected_store_keys_are_reported_not_shown(s3, caplog):
    storage, owner = Bucket(s3), UploadOwner()
    store = storage.store(owner)
    upload = await store.store_bytes(b"x", max_bytes=1)

    with s3.forbidding():
        with pytest.raises(Unavailable, match="refuses the credentials") as caught:
            await content(store, upload.name)
        with pytest.raises(Unavailable, match=r"could not be stored: the store refuses the credentials\."):
            await store.store_bytes(b"x", max_bytes=1)
        with pytest.raises(Unavailable, match="refuses the credentials"):
            await store.require()
        assert await store.remove([upload.name]) == {upload.name}

    assert "key" not in str(caught.value)
    assert await store.require() is None
    assert await content(store, upload.name) == b"x"


async def test_missing_bucket_is_reported(s3):
    missing = UploadBucket("s3://no-such-bucket-here/x", s3.options(), UploadOwner())

    with pytest.raises(Unavailable):
        await missing.store_bytes(b"x", max_bytes=1)


async def test_write_protected_upload_stays_unchanged(s3):
    store = Bucket(s3).store(UploadOwner())
    await store._write("name", b"first")

    with pytest.raises(Unavailable):
        await store._write("name", b"second")

    assert await content(store, "name") == b"first"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (None, UploadFolder),
        ("file:///somewhere/a%20folder", UploadFolder),
        ("s3://bucket/prefix", UploadBucket),
        ("gs://bucket/prefix", UploadBucket),
        ("az://container/prefix", UploadBucket),
    ],
)
def test_url_scheme_selects_store(url, kind, tmp_path):
    options = {"azure_storage_account_name": "account"} if url and url.startswith("az") else {}

    store = open_uploads(url, options, tmp_path, UploadOwner())

    assert type(store) is kind
    if kind is UploadFolder:
        assert str(store.folder) == (str(tmp_path) if url is None else "/somewhere/a folder")


def test_unknown_option_is_rejected_without_its_value(tmp_path):
    for name in ("aws_secret_acces_key", "proxi_url", "google_service_account"):
        with pytest.raises(InvalidInput, match="FOREASK_STORE_OPTIONS") as caught:
            open_uploads("s3://bucket", {name: "hidden"}, tmp_path, UploadOwner())

    assert "hidden" not in str(caught.value)


async def test_direct_upload_is_copied_with_size_and_hash(s3):
    storage = Bucket(s3)
    store = storage.store(UploadOwner())
    offer = await store.offer("acme", 100)
    await store._write(f"sent/acme/{offer.token}", b"x" * 100)

    upload = await store.take("acme", offer.token, max_bytes=100)

    assert (upload.size_bytes, upload.sha256) == (100, hashlib.sha256(b"x" * 100).digest())
    assert await content(store, upload.name) == b"x" * 100
    await store.withdraw("acme", offer.token)
    assert storage.names() == {upload.name}
    with pytest.raises(InvalidInput, match="Nothing was sent"):
        await store.take("acme", offer.token, max_bytes=100)


async def test_direct_upload_that_grew_is_rejected_and_removed(s3, monkeypatch):
    storage = Bucket(s3)
    store = storage.store(UploadOwner())
    offer = await store.offer("acme", 100)
    await store._write(f"sent/acme/{offer.token}", b"x" * 100)

    async def smaller(*_):
        return {"size": 1}

    monkeypatch.setattr("obstore.head_async", smaller)
    with pytest.raises(TooLarge):
        await store.take("acme", offer.token, max_bytes=99)

    assert storage.names() == {f"sent/acme/{offer.token}"}


@guards(
    "shared/storage/bucket.py",
    'sentence, component="uploads", retry_after=RETRY_AFTER',
    'sentence, component="ledger", retry_after=RETRY_AFTER',
    means="an upload that a bucket refuses names another component",
)
@guards(
    "shared/storage/bucket.py",
    'sentence, component="uploads", retry_after=RETRY_AFTER',
    'sentence, component="uploads"',
    means="an upload that a bucket refuses has no time of the next attempt",
)
async def test_upload_stream_ends_when_store_fails(s3):
    storage = Bucket(s3)
    store = storage.store(UploadOwner())
    received = []

    async def stream():
        async for piece in pieces(10 * LARGE):
            received.append(len(piece))
            yield piece

    await store.require_own()
    with s3.forbidding(), pytest.raises(Unavailable, match="refuses the credentials") as caught:
        await store.store(stream(), max_bytes=100 * LARGE)

    assert sum(received) < 5 * LARGE
    assert (caught.value.component, caught.value.retry_after) == ("uploads", RETRY_AFTER)


async def test_rejection_by_store_owner_is_cached_between_uploads(s3):
    storage, requests = Bucket(s3), []
    await storage.store(UploadOwner()).store_bytes(b"x", max_bytes=1)

    class Counted(UploadOwner):
        async def id(self):
            requests.append(1)
            return await super().id()

    other = storage.store(Counted())
    for _ in range(3):
        with pytest.raises(Unavailable, match="belongs to another deployment"):
            await other.store_bytes(b"x", max_bytes=1)
    assert len(requests) == 1

    await other.adopt()
    await other.require_own()
    assert await content(other, (await other.store_bytes(b"x", max_bytes=1)).name) == b"x"
