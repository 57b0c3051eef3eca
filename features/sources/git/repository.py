"""A Git repository at one commit, wherever it is stored."""

from __future__ import annotations

import re
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http.client import HTTPException, RemoteDisconnected
from itertools import islice
from typing import TypeVar

from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    GitProtocolError,
    HangupException,
    NotGitRepository,
    ObjectMissing,
    WrongObjectException,
)
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from urllib3.exceptions import HTTPError, IncompleteRead, ResponseError

from features.sources.errors import COMPONENT
from features.sources.git.objects import GitReader, Stored
from features.sources.git.packs import TooLargePack
from shared.domain.errors import Misconfigured, Unavailable
from shared.process.network import problem_of
from shared.process.threads import OwnThreads

T = TypeVar("T")
_NAMED = 10  # refs that an error names
_NAMEABLE = (b"refs/heads/", b"refs/tags/")
_COMMIT_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_SHORT_ID = re.compile(r"[0-9a-f]{4,63}")
# dulwich reports files and replies that it cannot parse by these.
_BROKEN = (
    ApplyDeltaError,
    AssertionError,
    ChecksumMismatch,
    FileFormatException,
    GitProtocolError,
    HTTPError,
    LookupError,
    ObjectMissing,
    TypeError,
    ValueError,
    WrongObjectException,
    struct.error,
    zlib.error,
)

Refs = Mapping[Ref, ObjectID]


class ObjectRefused(Unavailable):
    """The server refuses to send an object by its id, or does not have it."""


class Repository(ABC):
    """The objects that a commit consists of.

    The worker only receives and stores files. Objects in them are read in a confined process. Calls that block have a
    thread of their own, because a server decides how long they take.

    `reads_by_id` is whether contents can be read before the repository is opened, also of another commit.

    Args:
        label: name of the repository in errors.
        reader: reads objects.
    """

    reads_by_id = False

    def __init__(self, label: str, reader: GitReader) -> None:
        self.label = label
        self.reader = reader
        self.commit = ""
        self._thread = OwnThreads("git")

    @property
    @abstractmethod
    def stores(self) -> list[Stored]:
        """The objects that are on this machine."""

    @abstractmethod
    async def _refs(self, ref: str) -> Refs:
        """Open the repository, and return its refs."""

    async def open(self, ref: str) -> str:
        """Find the commit of a ref, and return the id of its tree.

        Raises:
            Misconfigured: there is no repository, no access to it, or no such ref.
            Unavailable: it cannot be read.
        """
        refs = await self._refs(ref)
        found = await self.reader.commit(self.stores, chosen(refs, ref).decode())
        if found == "missing":
            raise unknown(refs, ref)
        if found == "other":
            raise Misconfigured(f"{ref!r} is not a commit: choose another branch or tag.", component=COMPONENT)
        self.commit, tree = found
        return tree

    @asynccontextmanager
    async def holding(
        self,
        object_id: str,
        expected: Sequence[str],
        *,
        is_current: bool,
    ) -> AsyncIterator[list[Stored]]:
        """Yield the stores in which a content is, and fetch it if it is not on this machine.

        Args:
            object_id: its id.
            expected: ids of the contents that are read next, in any order.
            is_current: whether it belongs to the opened commit.

        Raises:
            TooLarge: it has more bytes than this machine unpacks.
            ObjectRefused: it may not belong to the opened commit, and the server refuses to send it.
            Unavailable: it cannot be fetched.
        """
        del object_id, expected, is_current
        yield self.stores

    def has(self, object_id: str) -> bool:  # noqa: ARG002 - a local repository has all
        """Return whether a content can be read without a request to a server."""
        return True

    def stop(self) -> None:  # noqa: B027 - a local repository answers at once
        """Abort a running call of the thread, which then fails."""

    async def aclose(self) -> None:
        """Stop the thread, and delete temporary files."""
        self.stop()
        if self._thread.started:
            await self.in_thread(self._close_connections)
            self._thread.close()
        for stored in self.stores:
            stored.close()
        self._remove_files()

    def _close_connections(self) -> None:  # noqa: B027 - a local repository has none
        """Close connections, in the thread."""

    @abstractmethod
    def _remove_files(self) -> None:
        """Delete temporary files."""

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Call in the thread of this repository, after the calls of cancelled tasks have returned."""

        def reading() -> T:
            with self.reading():
                return call()

        return await self._thread.run(reading)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert the errors of dulwich.

        Its messages quote the server's replies, which may quote our request and its credentials.

        Raises:
            Misconfigured: there is no repository.
            Unavailable: the repository cannot be read.
        """
        try:
            yield
        except TooLargePack:
            raise
        except NotGitRepository as error:
            raise Misconfigured(f"There is no repository at {self.label}.", component=COMPONENT) from error
        except OSError as error:
            reason = problem_of(error) or error.strerror or "the system reports no reason"
            raise Unavailable(
                f"The repository at {self.label} cannot be read: {reason}.", component=COMPONENT
            ) from None
        except _BROKEN as error:
            raise Unavailable(
                f"The repository at {self.label} cannot be read: {_reason(error)}.", component=COMPONENT
            ) from None


def _reason(error: Exception) -> str:
    """Return why a repository cannot be read, as a clause about its server without any text of the server."""
    if problem := problem_of(error):
        return problem
    for cause in _causes(error):
        if isinstance(cause, ResponseError):
            return "its redirects do not end"
        if isinstance(cause, (IncompleteRead, RemoteDisconnected, HangupException)):
            return "it closed the connection before the end of its reply"
        if isinstance(cause, HTTPException):
            return "its replies are not valid HTTP: check the scheme and the port of its address"
    return "its replies do not follow Git's protocol: check its address"


def _causes(error: Exception) -> Iterator[BaseException]:
    """Yield an error of dulwich and its causes; urllib3 names the cause of a lost connection as an argument only."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        yield from (each for each in cause.args if isinstance(each, Exception))
        cause = cause.__cause__


def chosen(refs: Refs, ref: str) -> ObjectID:
    """Return the id that a ref names. A branch precedes a tag of the same name, as in `git clone --branch`.

    Args:
        refs: ids by complete names, such as `refs/heads/main`.
        ref: name of a branch or tag, a complete name, HEAD, or the complete id of a commit.

    Raises:
        Misconfigured: there is no such ref; the message names some refs.
    """
    wanted = ref.encode()
    names = [wanted] if ref == "HEAD" or ref.startswith("refs/") else [b"refs/heads/" + wanted, b"refs/tags/" + wanted]
    for name in map(Ref, names):
        if name in refs:
            return refs[name]
    if _COMMIT_ID.fullmatch(ref) and ref.strip("0"):  # zeros name no object
        return ObjectID(wanted)
    raise unknown(refs, ref)


def unknown(refs: Refs, ref: str) -> Misconfigured:
    """Return the error that a repository does not have a ref."""
    hint = " The id of a commit must be complete." if _SHORT_ID.fullmatch(ref) else ""
    short = (name.decode(errors="replace").split("/", 2)[-1] for name in sorted(refs) if name.startswith(_NAMEABLE))
    listed = ", ".join(islice(dict.fromkeys(short), _NAMED))
    return Misconfigured(
        f"The repository has no branch, tag or commit {ref!r}.{hint}"
        f" It has {f'the refs: {listed}' if listed else 'no commits'}.",
        component=COMPONENT,
    )
