"""A Git repository at one commit, wherever it is stored."""

from __future__ import annotations

import re
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    GitProtocolError,
    NotGitRepository,
    ObjectMissing,
    WrongObjectException,
)
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from urllib3.exceptions import HTTPError

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


class Repository(ABC):
    """The objects that a commit consists of.

    The worker only receives and stores files. Objects in them are read in a confined process. Calls that block have a
    thread of their own, because a server decides how long they take.

    Args:
        label: name of the repository in errors.
        reader: reads objects.
    """

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

    async def fetch(self, object_id: str, following: Sequence[str]) -> list[Stored]:
        """Fetch a content that is not on this machine, and return its stores.

        Args:
            object_id: its id.
            following: ids of the contents that are probably read next.

        Raises:
            TooLarge: it has more bytes than this machine unpacks.
        """
        del following
        raise Unavailable(f"The repository at {self.label} lacks the object {object_id}.", component=COMPONENT)

    def use(self, object_id: str) -> None:  # noqa: B027 - only fetched contents are counted
        """Note that a content was used."""

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
            reason = problem_of(error) or error.strerror or type(error).__name__
            raise Unavailable(
                f"The repository at {self.label} cannot be read: {reason}.", component=COMPONENT
            ) from None
        except _BROKEN as error:
            reason = problem_of(error) or type(error.__cause__ or error).__name__
            raise Unavailable(
                f"The repository at {self.label} cannot be read: {reason}.", component=COMPONENT
            ) from None


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
