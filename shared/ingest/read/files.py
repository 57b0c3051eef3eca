"""Files whose pages are being read: each is fetched once for all its pages that are in progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class _SharedFile:
    """A file; `users` counts the pages that need it."""

    users: int = 0
    path: Path | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)


class OpenFiles:
    """Files of uploads, by name.

    Args:
        fetch: fetches the file of an upload.
    """

    def __init__(self, fetch: Callable[[str], AbstractAsyncContextManager[Path]]) -> None:
        self._fetch = fetch
        self._files: dict[str, _SharedFile] = {}

    @asynccontextmanager
    async def fetched(self, name: str) -> AsyncIterator[Path]:
        """Yield the path of a file, which is valid inside the block.

        Raises:
            ForeaskError: the file cannot be fetched; the next user tries again.
        """
        file = self._files.setdefault(name, _SharedFile())
        file.users += 1
        try:
            async with file.opening:
                if file.path is None:
                    file.path = await file.stack.enter_async_context(self._fetch(name))
            yield file.path
        finally:
            file.users -= 1
            if not file.users:
                del self._files[name]
                await file.stack.aclose()
