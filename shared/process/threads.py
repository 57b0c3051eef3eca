"""Threads for calls whose length a tenant or a server decides.

The default executor of the event loop has a few threads, which all tenants share: it parses replies, opens files and
computes digests. A call that takes long there, or never returns, delays the work of every tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class OwnThreads:
    """Threads of one user of them, which are started when they are needed.

    Args:
        name: start of the threads' names.
        count: maximum number of threads; further calls wait.
    """

    def __init__(self, name: str, count: int = 1) -> None:
        self._name = name
        self._count = count
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Call a function in a thread, and return its result. The call of a cancelled task continues."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._count, self._name)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    @property
    def started(self) -> bool:
        return self._executor is not None

    def close(self) -> None:
        """End the threads after their calls; a later call starts others."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None
