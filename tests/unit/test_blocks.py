"""Parts of packs are read in blocks, and each block is read once."""

import asyncio

import pytest

from shared.storage.blocks import BLOCK_BYTES, BlockCache

PACK = bytes(range(256)) * (3 * BLOCK_BYTES // 256) + b"the end"


class RecordingStore:
    """An object store that records its requests; while it is closed, requests wait."""

    def __init__(self):
        self.requests = []
        self.open = asyncio.Event()
        self.open.set()
        self.unavailable = False

    async def read(self, name, offset, length):
        self.requests.append((name, offset, length))
        await self.open.wait()
        if self.unavailable:
            raise ConnectionError
        return PACK[offset : offset + length]


@pytest.fixture
def store():
    return RecordingStore()


@pytest.fixture
def blocks(store):
    return BlockCache(store.read)


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 9), (BLOCK_BYTES - 3, 9), (BLOCK_BYTES, BLOCK_BYTES), (7, 2 * BLOCK_BYTES), (len(PACK) - 7, 7), (5, 0)],
)
async def test_part_is_read_at_any_offset(blocks, offset, length):
    assert await blocks.read("pack", offset, length) == PACK[offset : offset + length]


async def test_read_past_end_of_object_is_shorter(blocks):
    assert await blocks.read("pack", len(PACK) - 3, 9) == b"end"
    assert await blocks.read("pack", 10 * BLOCK_BYTES, 9) == b""


async def test_concurrent_and_later_reads_share_a_request(blocks, store):
    await asyncio.gather(*(blocks.read("pack", offset, 9) for offset in range(0, 900, 9)))
    await blocks.read("pack", 1800, 9)

    assert store.requests == [("pack", 0, BLOCK_BYTES)]


async def test_cancelled_reader_does_not_cancel_shared_read(blocks, store):
    store.open.clear()
    first, second = (asyncio.create_task(blocks.read("pack", 0, 9)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    store.open.set()

    assert await second == PACK[:9]
    assert len(store.requests) == 1


async def test_failed_read_is_not_cached(blocks, store):
    store.unavailable = True
    with pytest.raises(ConnectionError):
        await blocks.read("pack", 0, 9)
    store.unavailable = False

    assert await blocks.read("pack", 0, 9) == PACK[:9]


async def test_cache_is_bounded_and_drops_removed_blocks(blocks, store):
    names = [f"pack-{number}" for number in range(17)]
    for name in names:
        await blocks.read(name, 0, 9)
    store.requests.clear()

    blocks.forget([names[-1]])
    for name in (names[-2], names[-1], names[0]):
        await blocks.read(name, 0, 9)

    assert [name for name, _, _ in store.requests] == [names[-1], names[0]]
