"""A Git repository at one commit, wherever it is stored. All calls block."""

from __future__ import annotations

import re
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    GitProtocolError,
    NotGitRepository,
    ObjectMissing,
    WrongObjectException,
)
from dulwich.object_store import BaseObjectStore
from dulwich.objects import Commit, ObjectID, Tag, Tree
from dulwich.refs import Ref
from urllib3.exceptions import HTTPError

from shared.domain.errors import Misconfigured, Unavailable
from shared.process.network import problem_of
from shared.sources.files import COMPONENT

SMALL_BYTES = 1_024  # a pointer of Git LFS has fewer bytes, by its specification

_NAMED = 10  # refs that an error names
_NAMEABLE = (b"refs/heads/", b"refs/tags/")
_MOST_TAGS = 10  # tags may point to tags
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

    Args:
        label: name of the repository in errors.
    """

    commit: ObjectID = ObjectID(b"")

    def __init__(self, label: str) -> None:
        self.label = label

    @abstractmethod
    def open(self, ref: str) -> ObjectID:
        """Find the commit of a ref, and return the id of its tree.

        Raises:
            Misconfigured: there is no repository, no access to it, or no such ref.
        """

    @abstractmethod
    def tree(self, tree_id: ObjectID) -> Tree:
        """Return a tree of the commit."""

    @abstractmethod
    def present(self, content_id: ObjectID) -> bytes | None:
        """Return the content of a file if it is on this machine, and None otherwise. A small one always is."""

    @abstractmethod
    def content(self, content_id: ObjectID, following: Callable[[], Iterable[ObjectID]]) -> bytes:
        """Return the content of a file.

        Args:
            content_id: its id.
            following: returns the contents that are probably read next.

        Raises:
            TooLarge: it has more bytes than this machine unpacks.
        """

    def stop(self) -> None:  # noqa: B027 - a local repository answers at once
        """Abort a running call of another thread, which then fails."""

    @abstractmethod
    def close(self) -> None:
        """Delete temporary files."""

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


def commit_of(store: BaseObjectStore, refs: Refs, ref: str) -> Commit:
    """Return the commit that a ref names, or to which its tag points.

    Raises:
        Misconfigured: there is no such ref, or it is not a commit.
    """
    object_id = chosen(refs, ref)
    if object_id not in store:
        raise unknown(refs, ref)
    found = store[object_id]
    for _ in range(_MOST_TAGS):
        if not isinstance(found, Tag):
            break
        found = store[found.object[1]]
    if not isinstance(found, Commit):
        raise Misconfigured(f"{ref!r} is not a commit: choose another branch or tag.", component=COMPONENT)
    return found
