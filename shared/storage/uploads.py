"""Uploaded bytes: one file each under the data directory, durable before the ledger names it.

The folder carries the id of the deployment whose ledger names its files. Another deployment's ledger names none of
them: whoever stores or tidies by it is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar
from uuid import UUID, uuid4

import structlog

from shared.domain.errors import TooLarge, Unavailable, Unreadable

T = TypeVar("T")
_FLUSH_BYTES = 1 << 20
_RETRY_AFTER = timedelta(seconds=30)
_AWAY_PAUSE = timedelta(seconds=5)
_READY_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_SLOW_SECONDS = 30.0  # a busy disk takes its time: what was proved holds so long while the next proof is under way
_MARKER = ".foreask-deployment"
_SAMPLE = 100  # uploads that the ledger names: one of them in a folder without a marker tells whose it is
_PAGE = 1_000
_ANOTHERS = (
    "The uploads folder belongs to another deployment: let FOREASK_DATABASE_URL and FOREASK_DATA_DIR name the ledger"
    " and the folder of one deployment. If they do, run `foreask uploads adopt`."
)
_UNKNOWN = (
    "The uploads folder has no .foreask-deployment, and its files are not those of the ledger: is it mounted, and is"
    " FOREASK_DATABASE_URL right? If both are, run `foreask uploads adopt`."
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Upload:
    """`name` finds the bytes again; `sha256` is over the bytes alone."""

    name: str
    size_bytes: int
    sha256: bytes


class Owner(Protocol):
    """The deployment that stores: its id, and some uploads that its documents need."""

    async def id(self) -> UUID: ...
    async def newest_uploads(self, limit: int) -> Sequence[str]: ...


class Uploads:
    """A folder of uploads. Several machines share it as a network file system.

    Args:
        folder: where the files are.
        owner: the deployment whose ledger names them.
    """

    def __init__(self, folder: Path, owner: Owner) -> None:
        self.folder = folder
        self._owner = owner
        self._away = False
        self._probe: asyncio.Task[None] | None = None
        self._probed = self._proved = -_SLOW_SECONDS  # when a probe last ended, and succeeded

    def path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    async def require_own(self) -> None:
        """Return where the folder is this deployment's; it becomes so where nothing speaks against it.

        A folder without a marker is taken if it is empty and the ledger names no upload, or if it holds one that the
        ledger names.

        Raises:
            Unavailable: it is another's, or is not mounted; or the ledger cannot be reached.
            OSError: the folder cannot be read or written.
        """
        deployment = await self._owner.id()
        if await asyncio.to_thread(_marker, self.folder) is None:
            names = await self._owner.newest_uploads(_SAMPLE)
            if await asyncio.to_thread(self._fits, names):
                await self.adopt()
        marker = await asyncio.to_thread(_marker, self.folder)  # another process may have marked and used it meanwhile
        if marker is None:
            raise _not_ours(_UNKNOWN)
        if marker != str(deployment):
            log.error("uploads.refused", folder_of=marker, ledger_of=str(deployment))
            raise _not_ours(_ANOTHERS)

    async def _in_own(self, write: Callable[[], T]) -> T:
        """Write where the folder is this deployment's; looking and writing take one turn of a thread.

        Raises:
            Unavailable: as `require_own`.
            OSError: the disk refused.
        """
        deployment = str(await self._owner.id())
        written = await asyncio.to_thread(_if_marked, self.folder, deployment, write)
        if written:
            return written[0]
        await self.require_own()
        return await asyncio.to_thread(write)

    async def adopt(self) -> None:
        """Make the folder this deployment's, whatever it held."""
        await asyncio.to_thread(_mark, self.folder, await self._owner.id())

    def _fits(self, names: Sequence[str]) -> bool:
        if names:
            return any(self.path(name).exists() for name in names)
        return next(self.folder.glob("??/*"), None) is None

    async def ready(self) -> None:
        """Store and remove a small file, as an upload would be; what was found holds for some seconds.

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
            raise Unavailable("The folder of uploads does not answer.", component="uploads", retry_after=_RETRY_AFTER)

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

    async def locate(self, name: str) -> Path:
        """Return the path of an upload, which this process can open.

        Raises:
            Unavailable: the folder is away, or its disk fails; the upload may still be there.
            Unreadable: the upload alone is gone.
        """
        path = self.path(name)
        try:
            await asyncio.to_thread(_open_and_close, path)
        except FileNotFoundError as error:
            await self._check()
            raise Unreadable("The stored file is gone: upload the document again.") from error
        except OSError as error:
            self._away = True
            raise _away(error.strerror) from error
        return path

    async def require(self) -> None:
        """Raise `Unavailable` if the folder was away the last time and still is.

        A worker calls it before it claims documents: without the folder it would claim them in vain.
        """
        if self._away:
            await self._check()

    async def _check(self) -> None:
        """Return where the folder is there and is this deployment's."""
        self._away = True
        try:
            await self.require_own()
        except OSError as error:
            raise _away(error.strerror) from error
        self._away = False

    async def store(self, pieces: AsyncIterator[bytes], *, max_bytes: int) -> Upload:
        """Write a stream to disk while its bytes are counted; it is durable when this returns.

        Raises:
            TooLarge: more than `max_bytes` came; no file is left.
            Unavailable: the disk refused, because it is full for example, or the folder is another deployment's; no
                file is left.
        """
        name = uuid4().hex
        path = self.path(name)
        digest, size, buffer = hashlib.sha256(), 0, bytearray()
        file: BinaryIO | None = None
        with _removed_on_failure(path):
            try:
                async for piece in pieces:
                    size += len(piece)
                    if size > max_bytes:
                        raise _too_large(max_bytes)
                    digest.update(piece)
                    buffer += piece
                    if len(buffer) >= _FLUSH_BYTES:
                        if file is None:
                            file = await self._in_own(partial(_create, path))
                        await asyncio.to_thread(file.write, bytes(buffer))
                        buffer.clear()
                finish = partial(_finish, file, bytes(buffer), path)
                await (self._in_own(finish) if file is None else asyncio.to_thread(finish))
            finally:
                if file is not None:
                    file.close()
        return Upload(name, size, digest.digest())

    async def store_bytes(self, content: bytes, *, max_bytes: int) -> Upload:
        """Write bytes that are in memory already; raises as `store` does."""
        if len(content) > max_bytes:
            raise _too_large(max_bytes)
        name = uuid4().hex
        path = self.path(name)
        with _removed_on_failure(path):
            await self._in_own(partial(_finish, None, content, path))
        return Upload(name, len(content), hashlib.sha256(content).digest())

    async def remove(self, names: Sequence[str]) -> None:
        """Remove files that nobody needs; one that cannot be removed stays until the folder is tidied."""
        if names:
            await asyncio.to_thread(self._remove, names)

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                self.path(name).unlink(missing_ok=True)
            except OSError as error:
                log.warning("upload.not_removed", upload=name, reason=error.strerror or type(error).__name__)

    async def pages(self) -> AsyncIterator[list[str]]:
        """Yield the names of all files, some at a time; a crash left those that no document needs.

        Raises:
            OSError: the folder cannot be read.
        """
        for folder in await asyncio.to_thread(lambda: sorted(self.folder.glob("??/"))):
            names = await asyncio.to_thread(os.listdir, folder)
            for start in range(0, len(names), _PAGE):
                yield names[start : start + _PAGE]


@contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        sentence = f"The document could not be stored: {error.strerror or type(error).__name__}."
        raise Unavailable(sentence, component="uploads", retry_after=_RETRY_AFTER) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _open_and_close(path: Path) -> None:
    path.open("rb").close()


def _away(reason: str | None) -> Unavailable:
    message = f"the folder of uploads cannot be read here: {reason or 'its disk fails'}"
    return Unavailable(message, component="uploads", retry_after=_AWAY_PAUSE)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"The document is larger than {max_bytes:,} bytes (FOREASK_MAX_UPLOAD_BYTES).")


def _not_ours(sentence: str) -> Unavailable:
    return Unavailable(sentence, component="uploads", retry_after=_AWAY_PAUSE)


def _marker(folder: Path) -> str | None:
    """The id of the deployment that owns the folder; None where nobody does."""
    try:
        return (folder / _MARKER).read_text().strip() or None
    except FileNotFoundError:
        return None


def _if_marked(folder: Path, deployment: str, write: Callable[[], T]) -> list[T]:
    """Write where the folder is this deployment's, and return what that returned; else return nothing."""
    return [write()] if _marker(folder) == deployment else []


def _mark(folder: Path, deployment: UUID) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{_MARKER}-{uuid4().hex}"
    try:
        _finish(None, f"{deployment}\n".encode(), made)
        made.replace(folder / _MARKER)  # at once: nobody reads half of it
    finally:
        made.unlink(missing_ok=True)


def _create(path: Path) -> BinaryIO:
    try:
        return path.open("xb")
    except FileNotFoundError:  # there are few folders: all but the first uploads find theirs
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")


def _finish(file: BinaryIO | None, rest: bytes, path: Path) -> None:
    """Write the rest and make the file durable; a small upload is written here whole, in one turn of a thread."""
    with file or _create(path) as opened:
        opened.write(rest)
        opened.flush()
        os.fsync(opened.fileno())
    # The name must be as durable as the bytes: a ledger row is about to point to it.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
