"""Uploaded bytes: durable before the ledger names them, in a folder or in an object store.

The store contains the id of the deployment whose ledger names its uploads. Another deployment's ledger names none of
them, so its processes may neither store nor clean up there.

An upload is a separate object, or a part of a pack: one object with many small documents. Bytes that remain in a source
are not stored here: see `shared.storage.references`.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from typing import Protocol
from uuid import UUID, uuid4

import structlog

from shared.domain.errors import Conflict, TooLarge, Unavailable, Unreadable
from shared.process.temporary_folders import TemporaryFile
from shared.storage.references import is_reference

RETRY_AFTER = timedelta(seconds=30)
UNAVAILABLE_PAUSE = timedelta(seconds=5)
MARKER = ".foreask-deployment"
PAGE = 1_000  # names
_READY_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_SLOW_SECONDS = 30.0  # a busy disk is slow: the last result stays valid for this time while the next check runs
_PIECE_BYTES = 1 << 20
OFFER_SECONDS = 15 * 60
SENT = "sent/"  # start of the names of bytes that were sent to addresses: no document ever names them
FOLDER_PREFIX = "foreask-upload-"  # of temporary folders
_SAMPLE = 100  # uploads that the ledger names: one of them in a store without a marker proves the owner
_NO_ADDRESSES = "Uploads are in a folder, which has no addresses: send the document itself to POST /v1/documents."

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Upload:
    """`name` identifies the stored bytes; `sha256` is their hash."""

    name: str
    size_bytes: int
    sha256: bytes

    @property
    def stored_in(self) -> str:
        return stored_in(self.name)


@dataclass(frozen=True, slots=True)
class Offer:
    """An address to which the bytes of one upload can be sent without the API.

    Args:
        token: name of the bytes afterwards.
        url: signed URL for a PUT; its holder can write there.
        headers: required headers of the PUT.
        seconds: validity of the address.
    """

    token: str
    url: str
    headers: Mapping[str, str]
    seconds: int


class StoreOwner(Protocol):
    """The deployment that owns a store: its id, and some uploads that its documents need."""

    async def id(self) -> UUID: ...
    async def newest_uploads(self, limit: int) -> Sequence[str]: ...


def stored_in(name: str) -> str:
    """Return the name of the object that contains an upload; a pack contains several uploads."""
    return name.partition("#")[0]


def size_of_part(name: str) -> int | None:
    """Return the bytes of an upload that is a part of a pack; None if it has a separate object."""
    part = _part(name)
    return part and part[1]


def _part(name: str) -> tuple[int, int] | None:
    """Return offset and length in bytes of an upload in its pack; None if it has a separate object."""
    _, of_pack, label = name.partition("#")
    if not of_pack:
        return None
    offset, _, length = label.partition(",")
    return int(offset), int(length)


def _part_of_pack(name: str) -> tuple[int, int]:
    """Return offset and length in bytes of an upload that must be a part of a pack.

    Raises:
        ValueError: it has a separate object, whose bytes a new pack would lose.
    """
    part = _part(name)
    if part is None:
        raise ValueError("the upload is not a part of a pack")
    return part


class Uploads(ABC):
    """A store of uploads.

    Args:
        owner: deployment whose ledger names them.
    """

    label: str  # name in messages
    setting: str  # variable with its location
    seek: str  # first check after a failure

    def __init__(self, owner: StoreOwner) -> None:
        self._owner = owner
        self._unavailable = False
        self._probe: asyncio.Task[None] | None = None
        self._probed = self._proved = -_SLOW_SECONDS  # when a probe last ended, and succeeded

    @abstractmethod
    async def store(self, pieces: AsyncIterator[bytes], *, max_bytes: int) -> Upload:
        """Store a stream while its bytes are counted; it is durable when this returns.

        Raises:
            TooLarge: the upload has more than `max_bytes`; nothing is stored.
            Unavailable: the store failed, is full, or belongs to another deployment; nothing is stored.
        """

    async def store_bytes(self, content: bytes, *, max_bytes: int) -> Upload:
        """Store bytes that are in memory already; raises as `store` does."""
        if len(content) > max_bytes:
            raise too_large(max_bytes)
        name = uuid4().hex
        await self._write(name, content)
        digest = await asyncio.to_thread(hashlib.sha256, content)  # 20 MB take 10 ms or more
        return Upload(name, len(content), digest.digest())

    async def store_pack(self, contents: Sequence[bytes]) -> list[Upload]:
        """Store some small documents as one object; they are durable when this returns.

        The rows of all its documents must be inserted in one transaction: a pack is deleted when no row names a part of
        it.

        Args:
            contents: bytes of each document, not empty; twice their total must fit in memory.

        Returns:
            An upload per document, in order.

        Raises:
            Unavailable: as `store`.
        """
        pack = uuid4().hex
        await self._write(pack, b"".join(contents))
        offsets = accumulate(map(len, contents), initial=0)
        return [
            Upload(f"{pack}#{offset},{len(content)}", len(content), hashlib.sha256(content).digest())
            for offset, content in zip(offsets, contents, strict=False)
        ]

    async def repack(self, parts: Sequence[str]) -> dict[str, str]:
        """Store these parts of a pack as a new pack; return the new name of each.

        Raises:
            Unavailable: as `store`.
            Unreadable: the pack does not exist any more.
        """
        contents = [await self.part(name) for name in parts]
        return dict(zip(parts, [upload.name for upload in await self.store_pack(contents)], strict=True))

    async def foreign_bytes(self, parts: Sequence[str]) -> bool:
        """Return whether an object has bytes outside these parts; False if one of them is the complete object.

        Raises:
            Unavailable: as `fetched`.
            Unreadable: the pack does not exist any more.
        """
        if any(_part(name) is None for name in parts):
            return False
        end = 0
        for offset, length in sorted({_part_of_pack(name) for name in parts}):
            if offset > end:
                return True
            end = max(end, offset + length)
        return bool(await self._read(stored_in(parts[0]), end, 1))

    def require_addresses(self) -> None:
        """Check that bytes can be sent to the store without the API.

        Raises:
            Conflict: a folder has no addresses.
        """
        raise Conflict(_NO_ADDRESSES)

    async def offer(self, tenant: str, size_bytes: int) -> Offer:
        """Return an address to which so many bytes can be sent without the API.

        S3 accepts no other number of bytes if the store has access keys; else the number is checked afterwards.

        Raises:
            Conflict: a folder has no addresses.
            Unavailable: the store is unavailable or belongs to another deployment.
        """
        del tenant, size_bytes
        raise Conflict(_NO_ADDRESSES)

    async def sent_sizes(self, tenant: str, tokens: Sequence[str]) -> dict[str, int]:
        """Return the sizes of the bytes that were sent to addresses; addresses without bytes are missing.

        Raises:
            Conflict: a folder has no addresses.
            Unavailable: the store is unavailable.
        """
        del tenant, tokens
        raise Conflict(_NO_ADDRESSES)

    async def take(self, tenant: str, token: str, *, max_bytes: int) -> Upload:
        """Turn the bytes sent to an address into an upload, which is durable when this returns.

        It cannot be overwritten.

        Args:
            tenant: tenant to whom the address was offered: no other tenant can name it.
            token: token of the offer.
            max_bytes: maximum size.

        Raises:
            InvalidInput: nothing was sent there, or nothing for this tenant.
            TooLarge: more than `max_bytes` were sent; nothing of the upload remains.
            Conflict: a folder has no addresses.
            Unavailable: the store is unavailable.
        """
        del tenant, token, max_bytes
        raise Conflict(_NO_ADDRESSES)

    async def withdraw(self, tenant: str, token: str) -> None:
        """Remove the bytes sent to an address, once they are an upload; raises Conflict as `take`."""
        del tenant, token
        raise Conflict(_NO_ADDRESSES)

    async def pieces(
        self, name: str, size_bytes: int, span: tuple[int, int] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield an upload's bytes, a megabyte at a time, without storing them.

        Args:
            name: name of the upload.
            size_bytes: its size.
            span: start and end of the wanted bytes, half-open; None for all of them.

        Raises:
            Unavailable, Unreadable: as `fetched`.
        """
        first, _ = _part(name) or (0, size_bytes)
        start, stop = span or (0, size_bytes)
        offset, end = first + start, first + stop
        while offset < end:
            piece = await self._read(stored_in(name), offset, min(_PIECE_BYTES, end - offset))
            if not piece:
                raise missing()
            yield piece
            offset += len(piece)

    @asynccontextmanager
    async def fetched(self, name: str) -> AsyncIterator[Path]:
        """Yield the path of a file with an upload's bytes, which this process can open during the block.

        Raises:
            Unavailable: the store is unavailable, or fails; the upload may still exist.
            Unreadable: only this upload is missing.
        """
        if _part(name) is None:
            async with self._whole(name) as path:
                yield path
            return
        file = await asyncio.to_thread(write_temporary, await self.part(name))
        try:
            yield file.path
        finally:
            file.remove()

    async def part(self, name: str) -> bytes:
        """Return the bytes of an upload that is a part of a pack; raises as `fetched`."""
        offset, length = _part_of_pack(name)
        content = await self._read(stored_in(name), offset, length)
        if len(content) < length:
            raise missing()
        return content

    @abstractmethod
    async def remove(self, names: Sequence[str]) -> set[str]:
        """Remove unreferenced objects; return the names of remaining objects, which the cleanup removes later."""

    @abstractmethod
    def pages(self) -> AsyncIterator[list[str]]:
        """Yield the names of all objects, in batches, including objects without a document after a crash.

        Raises:
            Unavailable: the object store is unavailable.
            OSError: the folder cannot be read.
        """

    @abstractmethod
    async def read_note(self, name: str) -> bytes | None:
        """Read a note stored next to the uploads under a name that starts with a dot; None if there is none.

        Raises:
            Unavailable: the object store is unavailable.
            OSError: the folder cannot be read.
        """

    @abstractmethod
    async def write_note(self, name: str, content: bytes) -> None:
        """Write a note next to the uploads; raises as `read_note`."""

    async def free_share(self) -> float | None:
        """Return the free part of the store's disk, from 0 to 1; None if it is unknown."""
        return None

    async def lost(self, names: Sequence[str]) -> set[str]:
        """Return the uploads among these whose objects are missing, although the store is this deployment's.

        References have no objects, and are never lost.

        Raises:
            Unavailable: the store is unavailable, or is another deployment's.
            OSError: the folder cannot be read.
        """
        expected = [name for name in names if not is_reference(name)]
        stored = await self._stored(sorted({stored_in(name) for name in expected}))
        lost = {name for name in expected if stored_in(name) not in stored}
        if lost:
            await self.require_own()  # an unmounted folder has no file at all
        return lost

    async def require_own(self) -> None:
        """Check that the store belongs to this deployment, or adopt it if possible.

        A store without a marker is adopted if it is empty and the ledger has no upload, or if it contains an upload of
        the ledger.

        Raises:
            Unavailable: it belongs to another deployment, or is missing; or the ledger cannot be reached.
            OSError: the folder cannot be read or written.
        """
        deployment = await self._owner.id()
        if await self._marker() is None:
            names = [stored_in(name) for name in await self._owner.newest_uploads(_SAMPLE)]
            if bool(await self._stored(names)) if names else await self._is_empty():
                await self.adopt()
        marker = await self._marker()  # another process may have marked and used it meanwhile
        if marker is None:
            raise self._not_ours(
                f"The {self.label} has no {MARKER}, and contains no upload of the ledger: {self.seek}, and is"
                " FOREASK_DATABASE_URL right? If both are, run `foreask uploads adopt`."
            )
        if marker != str(deployment):
            log.error("uploads.refused", store_deployment=marker, ledger_deployment=str(deployment))
            raise self._not_ours(
                f"The {self.label} belongs to another deployment: let FOREASK_DATABASE_URL and {self.setting} name the"
                f" ledger and the {self.label} of one deployment. If they do, run `foreask uploads adopt`."
            )

    async def adopt(self) -> None:
        """Assign the store to this deployment, regardless of its content."""
        await self.write_note(MARKER, f"{await self._owner.id()}\n".encode())

    async def ready(self) -> None:
        """Store and remove a small object, like an upload; the result is valid for some seconds.

        Raises:
            Unavailable: no upload can be stored.
        """
        if self._probe is None or (self._probe.done() and time.monotonic() - self._probed > _READY_SECONDS):
            self._probe = asyncio.create_task(self._store_and_remove())
        probe = self._probe  # shared by all callers: a hanging folder costs one thread
        done, _ = await asyncio.wait({probe}, timeout=_PROBE_SECONDS)
        if done:
            probe.result()
        elif time.monotonic() - self._proved > _SLOW_SECONDS:
            raise Unavailable(f"The {self.label} does not answer.", component="uploads", retry_after=RETRY_AFTER)

    async def _store_and_remove(self) -> None:
        try:
            upload = await self.store_bytes(b"ready", max_bytes=5)
            await self.remove([upload.name])
            self._proved = time.monotonic()
        except Unavailable as error:
            if error.component == "uploads":  # the ledger is another check's
                raise
        finally:
            self._probed = time.monotonic()

    async def require(self) -> None:
        """Raise `Unavailable` if the store failed at its last use and is still unavailable.

        Workers call it before they claim documents, which they could not read without the store.
        """
        if self._unavailable:
            await self._check()

    async def _check(self) -> None:
        """Check that the store exists and belongs to this deployment."""
        self._unavailable = True
        try:
            await self.require_own()
        except OSError as error:
            raise unavailable(self.label, error.strerror) from error
        self._unavailable = False

    async def _marker(self) -> str | None:
        """Return the id of the deployment that owns the store, or None."""
        marker = await self.read_note(MARKER)
        return (marker or b"").decode(errors="replace").strip() or None

    def _not_ours(self, sentence: str) -> Unavailable:
        return Unavailable(sentence, component="uploads", retry_after=UNAVAILABLE_PAUSE)

    @abstractmethod
    async def _write(self, name: str, content: bytes) -> None:
        """Store a complete object; raises as `store`."""

    @abstractmethod
    async def _read(self, name: str, offset: int, length: int) -> bytes:
        """Read a part of an object, shorter at its end; raises as `fetched`."""

    @abstractmethod
    def _whole(self, name: str) -> AbstractAsyncContextManager[Path]:
        """Yield the path of a file with an object's bytes; raises as `fetched`."""

    @abstractmethod
    async def _stored(self, names: Sequence[str]) -> set[str]:
        """Return the existing objects among these."""

    @abstractmethod
    async def _is_empty(self) -> bool: ...


def write_temporary(content: bytes = b"") -> TemporaryFile:
    """Write a file in the machine's folder for temporary files; the caller removes it."""
    return TemporaryFile(FOLDER_PREFIX, content)


def too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"The document is larger than {max_bytes:,} bytes (FOREASK_MAX_UPLOAD_BYTES).")


def missing() -> Unreadable:
    return Unreadable("The stored file is missing: upload it again.")


def unavailable(label: str, reason: str | None) -> Unavailable:
    message = f"the {label} cannot be read here: {reason or 'its disk fails'}"
    return Unavailable(message, component="uploads", retry_after=UNAVAILABLE_PAUSE)
