"""The contents of files by their ids. Expected ones are fetched and unpacked together, in any order of reading."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from features.sources.errors import COMPONENT, too_large
from features.sources.git.objects import GitReader, too_large_object
from features.sources.git.repository import Repository
from shared.domain.errors import Unavailable

_MOST_AT_ONCE = 250  # that one request to the reader names
_MOST_READY_BYTES = 4 << 20  # of the contents that were unpacked with others


class Blobs:
    """The contents of a repository. One task at a time reads.

    Args:
        git: reads objects in a confined process.
        repository: the repository.
    """

    def __init__(self, git: GitReader, repository: Repository) -> None:
        self._git = git
        self._repository = repository
        self._expected = dict[str, None]()
        self._ready = dict[str, bytes]()

    def expect(self, object_ids: Iterable[str]) -> None:
        """Name the contents that are read next, in any order. They replace the contents of the last call."""
        self._expected = dict.fromkeys(object_ids)

    def expects(self, object_id: str) -> bool:
        """Return whether a content is expected, or can be read without a request to a server."""
        return object_id in self._expected or object_id in self._ready or self._repository.has(object_id)

    async def read(self, object_id: str, key: str, *, max_bytes: int, is_current: bool) -> bytes:
        """Return a content.

        Args:
            object_id: its id.
            key: name of its file in errors.
            max_bytes: its maximum size.
            is_current: whether it belongs to the opened commit.

        Raises:
            TooLarge: it has more bytes than allowed, or than this machine unpacks.
            ObjectRefused: it may not belong to the opened commit, and the server refuses to send it.
            Unavailable: it cannot be fetched.
        """
        self._expected.pop(object_id, None)
        content = self._ready.pop(object_id, None)
        if content is None:
            content = await self._unpacked(object_id, key, max_bytes, is_current=is_current)
        if len(content) > max_bytes:  # it was unpacked with others within another limit
            raise too_large(len(content), max_bytes)
        return content

    async def _unpacked(self, object_id: str, key: str, max_bytes: int, *, is_current: bool) -> bytes:
        expected = [each for each in self._expected if each not in self._ready]
        async with self._repository.holding(object_id, expected, is_current=is_current) as stores:
            wanted = [object_id, *islice(expected, _MOST_AT_ONCE)]
            found = await self._git.contents(stores, wanted, max_bytes=max_bytes)
        if object_id in found.too_large:
            size = found.too_large[object_id]
            raise too_large(size, max_bytes) if size else too_large_object()
        content = found.by_id.pop(object_id, None)
        if content is None:
            raise Unavailable(f"The repository lacks the content of {key}.", component=COMPONENT)
        self._ready |= found.by_id
        surplus = sum(map(len, self._ready.values())) - _MOST_READY_BYTES
        while surplus > 0:
            surplus -= len(self._ready.pop(next(iter(self._ready))))
        return content
