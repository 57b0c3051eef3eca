"""Stored bytes of one upload or one pack, which are removed if the request fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Self

from shared.storage.uploads import Upload, Uploads


class UploadGuard:
    """Stores one upload or one pack, and removes its bytes if the `async with` block raises.

    Call `disarm` before a row may name the bytes: a row without its bytes cannot be parsed, while the scheduler removes
    bytes without a row.
    """

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads
        self._upload: Upload | None = None
        self._armed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._armed and self._upload is not None:
            await self.remove()

    async def store(self, pieces: AsyncIterator[bytes], *, max_bytes: int) -> Upload:
        """Write a stream to disk; it is durable when this returns.

        Raises:
            TooLarge: the stream exceeds `max_bytes`.
            Unavailable: the disk failed.
        """
        self._upload = await self._uploads.store(pieces, max_bytes=max_bytes)
        return self._upload

    async def store_bytes(self, content: bytes, *, max_bytes: int) -> Upload:
        """Write bytes to disk; they are durable when this returns.

        Raises:
            TooLarge: the content exceeds `max_bytes`.
            Unavailable: the disk failed.
        """
        self._upload = await self._uploads.store_bytes(content, max_bytes=max_bytes)
        return self._upload

    async def claim(self, tenant: str, token: str, *, max_bytes: int) -> Upload:
        """Claim bytes that a client sent to the store; raises as `Uploads.take`."""
        self._upload = await self._uploads.take(tenant, token, max_bytes=max_bytes)
        return self._upload

    async def store_pack(self, contents: Sequence[bytes]) -> list[Upload]:
        """Write several documents as one object; they are durable when this returns.

        Raises:
            Unavailable: the disk failed.
        """
        uploads = await self._uploads.store_pack(contents)
        self._upload = uploads[0]
        return uploads

    @property
    def stored_in(self) -> str:
        """The name of the object that was stored."""
        assert self._upload is not None
        return self._upload.stored_in

    async def remove(self) -> None:
        """Remove the stored bytes."""
        await self._uploads.remove([self.stored_in])

    def disarm(self) -> None:
        self._armed = False

    def arm(self) -> None:
        self._armed = True
