"""A cache of recently read blocks of objects, so that consecutive documents of a pack share requests."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from functools import partial

BLOCK_BYTES = 256 << 10  # some hundred small documents; a request for one of them would take about as long
_KEPT = 16  # 4 MB: the packs that the slots of a worker are in

Read = Callable[[str, int, int], Coroutine[None, None, bytes]]


class BlockCache:
    """Reads parts of objects, which never change, in blocks, and caches the last blocks.

    Concurrent readers of a block share one request.

    Args:
        read: reads a number of bytes of an object from an offset, or fewer at its end.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._blocks: OrderedDict[tuple[str, int], asyncio.Task[bytes]] = OrderedDict()  # the last read is the last

    async def read(self, name: str, offset: int, length: int) -> bytes:
        """Read a part of an object, shorter at its end; raise the errors of `read`."""
        if length > BLOCK_BYTES:
            return await self._read(name, offset, length)
        first, last = offset // BLOCK_BYTES, (offset + length - 1) // BLOCK_BYTES
        parts = [await asyncio.shield(self._block(name, number)) for number in range(first, last + 1)]
        start = offset - first * BLOCK_BYTES
        return b"".join(parts)[start : start + length]

    def forget(self, names: Iterable[str]) -> None:
        """Drop the blocks of removed objects."""
        removed = set(names)
        for key in [key for key in self._blocks if key[0] in removed]:
            del self._blocks[key]

    def _block(self, name: str, number: int) -> asyncio.Task[bytes]:
        key = name, number
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = asyncio.create_task(self._read(name, number * BLOCK_BYTES, BLOCK_BYTES))
            block.add_done_callback(partial(self._drop_failed, key))
            if len(self._blocks) > _KEPT:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(key)
        return block

    def _drop_failed(self, key: tuple[str, int], block: asyncio.Task[bytes]) -> None:
        failed = block.cancelled() or block.exception() is not None
        if failed and self._blocks.get(key) is block:
            del self._blocks[key]
