"""Uploaded bytes: durable before the ledger names them, in a folder or in an object store.

The store carries the id of the deployment whose ledger names its uploads. Another deployment's ledger names none of
them: whoever stores or tidies by it is refused.

An upload has an object of its own, or is a part of a pack: one object of many small documents.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
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

RETRY_AFTER = timedelta(seconds=30)
AWAY_PAUSE = timedelta(seconds=5)
MARKER = ".foreask-deployment"
PAGE = 1_000  # names
_READY_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_SLOW_SECONDS = 30.0  # a busy disk takes its time: what was proved holds so long while the next proof is under way
_PIECE_BYTES = 1 << 20
_SAMPLE = 100  # uploads that the ledger names: one of them in a store without a marker tells whose it is
_NO_ADDRESSES = "Uploads are in a folder, which has no addresses: send the document itself to POST /v1/documents."

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Upload:
    """`name` finds the bytes again; `sha256` is over the bytes alone."""

    name: str
    size_bytes: int
    sha256: bytes

    @property
    def stored_in(self) -> str:
        return stored_in(self.name)


@dataclass(frozen=True, slots=True)
class Offer:
    """An address to which the bytes of one upload may be sent, past the API.

    Args:
        token: names the bytes afterwards.
        url: takes them by PUT; it is signed, so that whoever has it may write there.
        headers: what the PUT must have.
        seconds: how long the address holds.
    """

    token: str
    url: str
    headers: Mapping[str, str]
    seconds: int


class Owner(Protocol):
    """The deployment that stores: its id, and some uploads that its documents need."""

    async def id(self) -> UUID: ...
    async def newest_uploads(self, limit: int) -> Sequence[str]: ...


def stored_in(name: str) -> str:
    """Return the name of the object that holds an upload: a pack has several."""
    return name.partition("#")[0]


def _part(name: str) -> tuple[int, int] | None:
    """Where an upload stands in its pack, as offset and length in bytes; None where the object is all its own."""
    _, of_pack, label = name.partition("#")
    if not of_pack:
        return None
    offset, _, length = label.partition(",")
    return int(offset), int(length)


class Uploads(ABC):
    """A store of uploads.

    Args:
        owner: the deployment whose ledger names them.
    """

    label: str  # what a person calls it
    setting: str  # the variable that says where it is
    seek: str  # the first question where it is not as it was

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._unavailable = False
        self._probe: asyncio.Task[None] | None = None
        self._probed = self._proved = -_SLOW_SECONDS  # when a probe last ended, and succeeded

    @abstractmethod
    async def store(self, pieces: AsyncIterator[bytes], *, max_bytes: int) -> Upload:
        """Store a stream while its bytes are counted; it is durable when this returns.

        Raises:
            TooLarge: more than `max_bytes` came; nothing is left.
            Unavailable: the store refused, because it is full for example, or is another deployment's; nothing is
                left.
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

        The rows of all its documents are to be written in one transaction: a pack goes when no row names a part of it.

        Args:
            contents: the bytes of each document, not empty, in all few enough to be held in memory twice.

        Returns:
            An upload for each, in their order.

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
        """Store these parts of a pack as a pack of their own; return the new name of each.

        Raises:
            Unavailable: as `store`.
            Unreadable: the pack is gone.
        """
        contents = []
        for name in parts:
            offset, length = _part(name) or (0, 0)
            content = await self._read(stored_in(name), offset, length)
            if len(content) < length:
                raise gone()
            contents.append(content)
        return dict(zip(parts, [upload.name for upload in await self.store_pack(contents)], strict=True))

    async def foreign_bytes(self, parts: Sequence[str]) -> bool:
        """Whether a pack has bytes that belong to none of these parts of it.

        Raises:
            Unavailable: as `fetched`.
            Unreadable: the pack is gone.
        """
        end = 0
        for offset, length in sorted({_part(name) or (0, 0) for name in parts}):
            if offset > end:
                return True
            end = max(end, offset + length)
        return bool(await self._read(stored_in(parts[0]), end, 1))

    async def offer(self, tenant: str) -> Offer:
        """Return an address to which bytes may be sent past the API.

        Raises:
            Conflict: a folder has no addresses.
            Unavailable: the store is away or is another deployment's.
        """
        del tenant
        raise Conflict(_NO_ADDRESSES)

    async def take(self, tenant: str, token: str, *, max_bytes: int) -> Upload:
        """Make what was sent to an address an upload, which nobody can write again; it is durable when this returns.

        Args:
            tenant: to whom the address was offered: no other one can name it.
            token: of the offer.
            max_bytes: the most bytes.

        Raises:
            InvalidInput: nothing was sent there, or nothing for this tenant.
            TooLarge: more than `max_bytes` were sent; nothing is left of the upload.
            Conflict: a folder has no addresses.
            Unavailable: the store is away.
        """
        del tenant, token, max_bytes
        raise Conflict(_NO_ADDRESSES)

    async def withdraw(self, tenant: str, token: str) -> None:
        """Remove what was sent to an address, once it is an upload; raises Conflict as `take`."""
        del tenant, token
        raise Conflict(_NO_ADDRESSES)

    async def pieces(self, name: str, size_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield an upload's bytes, a megabyte at a time; none of it is kept.

        Raises:
            Unavailable, Unreadable: as `fetched`.
        """
        offset, _ = _part(name) or (0, size_bytes)
        end = offset + size_bytes
        while offset < end:
            piece = await self._read(stored_in(name), offset, min(_PIECE_BYTES, end - offset))
            if not piece:
                raise gone()
            yield piece
            offset += len(piece)

    @asynccontextmanager
    async def fetched(self, name: str) -> AsyncIterator[Path]:
        """Give the path of a file with an upload's bytes, which this process can open, for the time of the block.

        Raises:
            Unavailable: the store is away, or fails; the upload may still be there.
            Unreadable: the upload alone is gone.
        """
        part = _part(name)
        whole = self._whole(name) if part is None else self._cut(stored_in(name), *part)
        async with whole as path:
            yield path

    @asynccontextmanager
    async def _cut(self, pack: str, offset: int, length: int) -> AsyncIterator[Path]:
        content = await self._read(pack, offset, length)
        if len(content) < length:
            raise gone()
        path = await asyncio.to_thread(write_temporary, content)
        try:
            yield path
        finally:
            path.unlink()

    @abstractmethod
    async def remove(self, names: Sequence[str]) -> set[str]:
        """Remove objects that nobody needs; return those that could not be removed: they stay until all is tidied."""

    @abstractmethod
    def pages(self) -> AsyncIterator[list[str]]:
        """Yield the names of all objects, some at a time; a crash left those that no document needs.

        Raises:
            Unavailable: the object store is away.
            OSError: the folder cannot be read.
        """

    @abstractmethod
    async def read_note(self, name: str) -> bytes | None:
        """Read what is remembered beside the uploads under a name that begins with a dot; None where there is nothing.

        Raises:
            Unavailable: the object store is away.
            OSError: the folder cannot be read.
        """

    @abstractmethod
    async def write_note(self, name: str, content: bytes) -> None:
        """Remember something beside the uploads; raises as `read_note`."""

    async def require_own(self) -> None:
        """Return where the store is this deployment's; it becomes so where nothing speaks against it.

        A store without a marker is taken if it is empty and the ledger names no upload, or if it holds one that the
        ledger names.

        Raises:
            Unavailable: it is another's, or is not there; or the ledger cannot be reached.
            OSError: the folder cannot be read or written.
        """
        deployment = await self._owner.id()
        if await self._marker() is None:
            names = [stored_in(name) for name in await self._owner.newest_uploads(_SAMPLE)]
            if await (self._holds_any(names) if names else self._is_empty()):
                await self.adopt()
        marker = await self._marker()  # another process may have marked and used it meanwhile
        if marker is None:
            raise self._not_ours(
                f"The {self.label} has no {MARKER}, and holds nothing that the ledger names: {self.seek}, and is"
                " FOREASK_DATABASE_URL right? If both are, run `foreask uploads adopt`."
            )
        if marker != str(deployment):
            log.error("uploads.refused", store_of=marker, ledger_of=str(deployment))
            raise self._not_ours(
                f"The {self.label} belongs to another deployment: let FOREASK_DATABASE_URL and {self.setting} name the"
                f" ledger and the {self.label} of one deployment. If they do, run `foreask uploads adopt`."
            )

    async def adopt(self) -> None:
        """Make the store this deployment's, whatever it held."""
        await self.write_note(MARKER, f"{await self._owner.id()}\n".encode())

    async def ready(self) -> None:
        """Store and remove a small object, as an upload would be; what was found holds for some seconds.

        Raises:
            Unavailable: no upload can be stored.
        """
        if self._probe is None or (self._probe.done() and time.monotonic() - self._probed > _READY_SECONDS):
            self._probe = asyncio.create_task(self._store_and_remove())
        probe = self._probe  # one for all who ask: a folder that hangs costs one thread
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
        """Raise `Unavailable` if the store was away the last time and still is.

        A worker calls it before it claims documents: without the store it would claim them in vain.
        """
        if self._unavailable:
            await self._check()

    async def _check(self) -> None:
        """Return where the store is there and is this deployment's."""
        self._unavailable = True
        try:
            await self.require_own()
        except OSError as error:
            raise away(self.label, error.strerror) from error
        self._unavailable = False

    async def _marker(self) -> str | None:
        """The id of the deployment that owns the store; None where nobody does."""
        marker = await self.read_note(MARKER)
        return (marker or b"").decode(errors="replace").strip() or None

    def _not_ours(self, sentence: str) -> Unavailable:
        return Unavailable(sentence, component="uploads", retry_after=AWAY_PAUSE)

    @abstractmethod
    async def _write(self, name: str, content: bytes) -> None:
        """Store an object whole; raises as `store`."""

    @abstractmethod
    async def _read(self, name: str, offset: int, length: int) -> bytes:
        """Read a part of an object, shorter where it ends; raises as `fetched`."""

    @abstractmethod
    def _whole(self, name: str) -> AbstractAsyncContextManager[Path]:
        """Give an object as a file; raises as `fetched`."""

    @abstractmethod
    async def _holds_any(self, names: Sequence[str]) -> bool: ...

    @abstractmethod
    async def _is_empty(self) -> bool: ...


def write_temporary(content: bytes = b"") -> Path:
    """Write a file in the machine's folder for temporary ones; whoever calls removes it."""
    handle, path = tempfile.mkstemp(prefix="foreask-upload-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return Path(path)


def too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"The document is larger than {max_bytes:,} bytes (FOREASK_MAX_UPLOAD_BYTES).")


def gone() -> Unreadable:
    return Unreadable("The stored file is gone: upload the document again.")


def away(label: str, reason: str | None) -> Unavailable:
    message = f"the {label} cannot be read here: {reason or 'its disk fails'}"
    return Unavailable(message, component="uploads", retry_after=AWAY_PAUSE)
