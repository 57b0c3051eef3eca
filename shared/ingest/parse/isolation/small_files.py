"""Small files that wait for a process are read together: a message of their own would cost as much as reading one.

While a group is being read, the next one gathers, so that no file waits for others to arrive.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import structlog

from shared.domain.errors import Transient

KindT = TypeVar("KindT", bound=Hashable)
FileT = TypeVar("FileT")
AnswerT = TypeVar("AnswerT")

SMALL_BYTES = 32_768
MOST_TOGETHER = 32  # a group of such files takes some ten milliseconds, for which other tenants wait

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class Waiting(Generic[FileT, AnswerT]):
    """A file and its answer; None if it has to be read alone."""

    file: FileT
    answer: asyncio.Future[AnswerT | None]


class SmallFiles(Generic[KindT, FileT, AnswerT]):
    """Small files by the kind of process that may read them.

    Args:
        read: waits for a free process of a kind, takes a group by calling its second argument, and sets the answers of
            its files. A file without an answer is read alone.
        most_groups: maximum number of groups of a kind that are read concurrently.
    """

    def __init__(
        self, read: Callable[[KindT, Callable[[], list[Waiting[FileT, AnswerT]]]], Awaitable[None]], most_groups: int
    ) -> None:
        self._read = read
        self._most_groups = most_groups
        self._waiting: dict[KindT, deque[Waiting[FileT, AnswerT]]] = {}
        self._readers = Counter[KindT]()
        self._tasks = set[asyncio.Task[None]]()

    async def answer(self, kind: KindT, file: FileT) -> AnswerT | None:
        """Return the answer to a file; None if it has to be read alone, because it or its group failed."""
        waiting = self._waiting.setdefault(kind, deque())
        one: Waiting[FileT, AnswerT] = Waiting(file, asyncio.get_running_loop().create_future())
        waiting.append(one)
        readers = self._readers[kind]
        if readers * MOST_TOGETHER < len(waiting) and readers < self._most_groups:
            self._readers[kind] += 1
            task = asyncio.create_task(self._read_all(kind, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await one.answer

    async def _read_all(self, kind: KindT, waiting: deque[Waiting[FileT, AnswerT]]) -> None:
        try:
            while waiting:
                await self._read_group(kind, waiting)
        finally:
            self._readers[kind] -= 1
            if not self._readers[kind]:
                del self._readers[kind], self._waiting[kind]

    async def _read_group(self, kind: KindT, waiting: deque[Waiting[FileT, AnswerT]]) -> None:
        group: list[Waiting[FileT, AnswerT]] = []
        try:
            await self._read(kind, partial(_take, waiting, group))
        except Transient as error:
            log.warning("small_files.unread", files=len(group), reason=error.message)
        except Exception:  # the boundary of a task: each file is read alone, which reports its own error
            log.exception("small_files.raised", files=len(group))
        finally:
            _take(waiting, group)  # at least one, if it failed before it took any
            for one in group:
                if not one.answer.done():
                    one.answer.set_result(None)


def _take(
    waiting: deque[Waiting[FileT, AnswerT]], group: list[Waiting[FileT, AnswerT]]
) -> list[Waiting[FileT, AnswerT]]:
    """Move the files that have waited longest to an empty group; files of cancelled callers are dropped."""
    while waiting and not group:
        group += [
            one for one in (waiting.popleft() for _ in range(min(MOST_TOGETHER, len(waiting)))) if not one.answer.done()
        ]
    return group
