"""Uploads as objects in S3, Google Cloud Storage or Azure; an object is stored completely or not at all."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import obstore
import structlog
from obstore.exceptions import BaseError, GenericError
from obstore.store import AzureStore, S3Store

from shared.buckets.connection import Bucket, open_bucket, reason_of, status_of
from shared.domain.errors import InvalidInput, Unavailable
from shared.storage.blocks import BlockCache
from shared.storage.signing import secret_of, with_length
from shared.storage.uploads import (
    OFFER_SECONDS,
    PAGE,
    RETRY_AFTER,
    SENT,
    UNAVAILABLE_PAUSE,
    Offer,
    StoreOwner,
    Upload,
    Uploads,
    missing,
    too_large,
    write_temporary,
)

_PART_BYTES = 8 << 20  # of a multipart upload; smaller bodies are sent in one request
_PARTS_AT_ONCE = 2
_OWN_SECONDS = 30.0  # lifetime of a check of the marker, which would otherwise cost a request per upload
_REFUSED_SECONDS = 5.0  # and a rejection, which took a request per upload of a sample
_BEHIND_THE_END = 416
_TOKEN = re.compile(r"[0-9a-f]{32}")

log = structlog.get_logger()


class UploadBucket(Uploads):
    """Uploads below a prefix of an object store.

    Args:
        url: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
        options: options of the store, by obstore's names; missing ones are read from the vendor's usual variables
            (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
        owner: deployment whose ledger names them.

    Raises:
        InvalidInput: the URL or an option cannot be used.
    """

    label = "store of uploads"
    setting = "FOREASK_STORE_URL"
    seek = "is it the right one"

    def __init__(self, url: str, options: Mapping[str, str], owner: StoreOwner) -> None:
        super().__init__(owner)
        self._store = _open(url, options)
        self._own_until = 0.0
        self._refused: Unavailable | None = None
        self._refused_until = 0.0
        self._blocks = BlockCache(self._read_range)
        self._secret = secret_of(options) if isinstance(self._store, S3Store) else None
        self._offer_headers = {"x-ms-blob-type": "BlockBlob"} if isinstance(self._store, AzureStore) else {}

    async def store(self, pieces: AsyncIterator[bytes], *, max_bytes: int) -> Upload:
        name = uuid4().hex
        sending: _Multipart | None = None
        digest, size, buffer = hashlib.sha256(), 0, bytearray()
        try:
            async for piece in pieces:
                size += len(piece)
                if size > max_bytes:
                    raise too_large(max_bytes)
                buffer += piece
                if len(buffer) >= _PART_BYTES:
                    sending = sending or await self._start_multipart(name)
                    content = bytes(buffer)
                    buffer.clear()
                    await asyncio.to_thread(digest.update, content)
                    with self._refused_on_failure():
                        await sending.send(content)
            content = bytes(buffer)
            await asyncio.to_thread(digest.update, content)
            if sending is None:
                await self._write(name, content)
            else:
                with self._refused_on_failure():
                    await sending.finish(content)
        except BaseException:
            if sending is not None:
                await sending.abort()
            raise
        return Upload(name, size, digest.digest())

    def require_addresses(self) -> None:
        """Every bucket has addresses."""

    async def offer(self, tenant: str, size_bytes: int) -> Offer:
        await self._require_own_lately()
        token = uuid4().hex
        with self._unavailable_on_failure():
            url = await obstore.sign_async(self._store, "PUT", _sent(tenant, token), timedelta(seconds=OFFER_SECONDS))
        if self._secret is not None:
            url = with_length(url, self._secret, size_bytes) or url
        return Offer(token, url, self._offer_headers, OFFER_SECONDS)

    async def sent_sizes(self, tenant: str, tokens: Sequence[str]) -> dict[str, int]:
        with self._unavailable_on_failure():
            sizes = await asyncio.gather(*(self._sent_size(tenant, token) for token in tokens))
        return {token: size for token, size in zip(tokens, sizes, strict=True) if size is not None}

    async def _sent_size(self, tenant: str, token: str) -> int | None:
        try:
            return int((await obstore.head_async(self._store, _sent(tenant, token)))["size"])
        except FileNotFoundError:
            return None

    async def take(self, tenant: str, token: str, *, max_bytes: int) -> Upload:
        if not _TOKEN.fullmatch(token):
            raise _nothing_sent()
        await self._require_own_lately()
        name = uuid4().hex
        with self._refused_on_failure():
            try:
                meta = await obstore.head_async(self._store, _sent(tenant, token))
                if meta["size"] > max_bytes:
                    raise too_large(max_bytes)
                # The address accepts writes until it expires; a copy does not change.
                await obstore.copy_async(self._store, _sent(tenant, token), name)
            except FileNotFoundError:
                raise _nothing_sent() from None
            try:
                return await self._measured(name, max_bytes)
            except BaseException:
                await self.remove([name])
                raise

    async def withdraw(self, tenant: str, token: str) -> None:
        await self.remove([_sent(tenant, token)])

    async def _measured(self, name: str, max_bytes: int) -> Upload:
        """Read an object, and count and hash its bytes.

        Raises:
            TooLarge: there are more than `max_bytes`.
        """
        digest, size = hashlib.sha256(), 0
        result = await obstore.get_async(self._store, name)
        async for piece in result.stream(min_chunk_size=_PART_BYTES):
            size += len(piece)
            if size > max_bytes:
                raise too_large(max_bytes)
            await asyncio.to_thread(digest.update, piece)
        return Upload(name, size, digest.digest())

    async def remove(self, names: Sequence[str]) -> set[str]:
        self._blocks.forget(names)
        if not names:
            return set()
        try:
            await obstore.delete_async(self._store, list(names))
        except FileNotFoundError:  # some vendors report an error for a missing object; the cleanup handles the rest
            return set()
        except (BaseError, OSError) as error:
            log.warning("upload.not_removed", upload=names[0], count=len(names), reason=reason_of(error))
            return set(names)
        return set()

    async def pages(self) -> AsyncIterator[list[str]]:
        with self._unavailable_on_failure():
            async for page in obstore.list(self._store, chunk_size=PAGE):
                yield [meta["path"] for meta in page if not meta["path"].startswith(".")]

    async def read_note(self, name: str) -> bytes | None:
        with self._unavailable_on_failure():
            try:
                return bytes(await (await obstore.get_async(self._store, name)).bytes_async())
            except FileNotFoundError:
                return None

    async def write_note(self, name: str, content: bytes) -> None:
        with self._unavailable_on_failure():
            await obstore.put_async(self._store, name, content, use_multipart=False)

    async def require_own(self) -> None:
        self._own_until = 0.0
        await super().require_own()
        self._own_until, self._refused = time.monotonic() + _OWN_SECONDS, None

    async def _start_multipart(self, name: str) -> _Multipart:
        await self._require_own_lately()
        return _Multipart(self._store, name)

    async def _write(self, name: str, content: bytes) -> None:
        await self._require_own_lately()
        with self._refused_on_failure():
            await obstore.put_async(self._store, name, content, mode="create")

    async def _require_own_lately(self) -> None:
        if time.monotonic() < self._own_until:
            return
        if self._refused is not None and time.monotonic() < self._refused_until:
            raise copy.copy(self._refused)
        try:
            await self.require_own()
        except Unavailable as error:
            self._refused, self._refused_until = error, time.monotonic() + _REFUSED_SECONDS
            raise

    async def _read(self, name: str, offset: int, length: int) -> bytes:
        return await self._blocks.read(name, offset, length)

    async def _read_range(self, name: str, offset: int, length: int) -> bytes:
        async with self._found():
            try:
                return bytes(await obstore.get_range_async(self._store, name, start=offset, length=length))
            except GenericError as error:
                if status_of(error) == _BEHIND_THE_END:
                    return b""
                raise

    @asynccontextmanager
    async def _whole(self, name: str) -> AsyncIterator[Path]:
        file = await asyncio.to_thread(write_temporary)
        try:
            async with self._found():
                result = await obstore.get_async(self._store, name)
                with file.path.open("wb") as opened:
                    async for piece in result.stream(min_chunk_size=_PART_BYTES):
                        await asyncio.to_thread(opened.write, piece)
            yield file.path
        finally:
            file.remove()

    @asynccontextmanager
    async def _found(self) -> AsyncIterator[None]:
        """Convert errors of reading an object."""
        with self._unavailable_on_failure():
            try:
                yield
            except FileNotFoundError as error:
                await self._check()
                raise missing() from error

    @contextmanager
    def _unavailable_on_failure(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            self._unavailable = True
            message = f"the {self.label} cannot be read: {reason_of(error)}"
            raise Unavailable(message, component="uploads", retry_after=UNAVAILABLE_PAUSE) from error

    @contextmanager
    def _refused_on_failure(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            sentence = f"The document could not be stored: {reason_of(error)}."
            raise Unavailable(sentence, component="uploads", retry_after=RETRY_AFTER) from error

    async def _stored(self, names: Sequence[str]) -> set[str]:
        with self._unavailable_on_failure():
            exist = await asyncio.gather(*map(self._holds, names))
        return {name for name, exists in zip(names, exist, strict=True) if exists}

    async def _holds(self, name: str) -> bool:
        try:
            await obstore.head_async(self._store, name)
        except FileNotFoundError:
            return False
        return True

    async def _is_empty(self) -> bool:
        async for names in self.pages():
            if names:
                return False
        return True


class _Multipart:
    """An object that is sent in parts, and exists only after its last part has arrived.

    obstore takes the parts from an iterator. Only an error of the iterator makes it abort the upload: a cancelled
    request would cause invisible parts that cost money.
    """

    def __init__(self, store: Bucket, name: str) -> None:
        self._parts: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(maxsize=1)
        put = obstore.put_async(
            store, name, self._iterate(), chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE, use_multipart=True
        )
        self._put = asyncio.ensure_future(put)

    async def send(self, part: bytes) -> None:
        """Send a part when the queue has space; raise the error that ended the upload."""
        await self._queue_part(part)

    async def finish(self, part: bytes) -> None:
        """Send the last part; the object is durable when this returns."""
        await self._queue_part(part)
        await self._queue_part(None)
        await asyncio.shield(self._put)

    async def abort(self) -> None:
        """Abort the upload."""
        while not self._put.done():
            with suppress(asyncio.QueueEmpty):
                self._parts.get_nowait()
            self._parts.put_nowait(_Aborted())
            await asyncio.wait({self._put})
        with suppress(BaseException):
            self._put.result()

    async def _queue_part(self, part: bytes | None) -> None:
        putting = asyncio.ensure_future(self._parts.put(part))
        try:
            await asyncio.wait({putting, self._put}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()
        if self._put.done():
            self._put.result()

    async def _iterate(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            if isinstance(part, BaseException):
                raise part
            if part:
                yield part


class _Aborted(Exception):
    pass


def _sent(tenant: str, token: str) -> str:
    """Return the object of an offer; the name contains the tenant, so that a tenant can name only its own objects."""
    return f"{SENT}{tenant}/{token}"


def _nothing_sent() -> InvalidInput:
    sentence = "Nothing was sent to the address of this upload: send the bytes there first, or ask for another one."
    return InvalidInput(sentence, field="upload")


def _open(url: str, options: Mapping[str, str]) -> Bucket:
    try:
        return open_bucket(url, options)
    except ValueError as error:
        sentence = f"FOREASK_STORE_URL or FOREASK_STORE_OPTIONS cannot be used: {error}."
        raise InvalidInput(sentence, field="FOREASK_STORE_URL") from None
