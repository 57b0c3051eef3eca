"""Progress of work: a live bar on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from shared.domain.durations import duration

if TYPE_CHECKING:
    from foreask_client import Job

_LINE_EVERY_SECONDS = 10.0
_ASK_SECONDS = 2.0  # between two questions for the reason, or for the time left
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class IngestCounts:
    """Counts of a batch of documents. A chunk is done when it is indexed, dead or discarded.

    A page is done when it is read or dead.
    A `searchable` document can be found, at least by its text. `uploaded`: number of uploaded ones during the upload.
    """

    documents: int
    documents_done: int = 0
    failed: int = 0
    searchable: int = 0
    chunks: int = 0
    chunks_generated: int = 0
    chunks_done: int = 0
    pages: int = 0
    pages_done: int = 0
    complete: bool = False  # every document has been read, so `chunks` is final
    uploaded: int | None = None


class Meter:
    """Shows changing counts as one bar or as lines, and why they do not change; a context manager.

    Args:
        console: the terminal.
        clock: clock in monotonic seconds.
        why: returns a sentence about the reason why work waits; None without any. Its argument is the time in seconds
            in which nothing has changed.
        left: returns the server's time left in seconds while no job is shown; None if it is unknown.
    """

    def __init__(
        self,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
        why: Callable[[float], str | None] = lambda _: None,
        left: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._console = console
        self._clock = clock
        self._why = why
        self._left = left
        self._left_seconds: int | None = None
        self._left_at: float | None = None  # when it was asked for
        self._counted: IngestCounts | None = None
        self._changed_at = 0.0
        self._ask_at: float | None = None
        self._shown: set[str] = set()  # reasons, without their numbers
        self._next_line = 0.0
        self._last = ""
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            progress = Progress(
                TextColumn("{task.description:<9}"),
                BarColumn(bar_width=30),
                TextColumn("{task.completed:.0f} of {task.total:.0f}"),
                TextColumn("[dim]{task.fields[note]}"),
                console=self._console,
            )
            self._bar = progress, progress.add_task("documents", total=0, note="")
            progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def show(self, count: IngestCounts, job: Job | None = None) -> None:
        """Show counts, with the remaining time and the costs of their job if it is given."""
        notes = [*_notes(count), *_page_notes(count), *_chunk_notes(count)]
        seconds = self._ask_left(count) if job is None else job.eta_seconds
        notes += [] if seconds is None else [f"about {duration(seconds)} left"]
        notes += [f"{job.cost:,.4f} spent"] if job is not None and job.cost else []
        self._explain(count)
        if self._bar is None:
            self._line(count, notes)
            return
        progress, documents = self._bar
        progress.update(documents, total=count.documents, completed=count.documents_done, note=", ".join(notes))

    def _ask_left(self, count: IngestCounts) -> int | None:
        """Return the time left in seconds as of the last question for it."""
        now = self._clock()
        if count.documents_done == count.documents:
            return None
        if self._left_at is None or now >= self._left_at + _ASK_SECONDS:
            self._left_at, self._left_seconds = now, self._left()
        return self._left_seconds

    def _explain(self, count: IngestCounts) -> None:
        """Print each reason once why work waits, or does not start."""
        now = self._clock()
        if count != self._counted:
            self._counted, self._changed_at = count, now
        if self._ask_at is None:
            self._ask_at = now + _ASK_SECONDS
        if now < self._ask_at or count.documents_done == count.documents:
            return
        self._ask_at = now + _ASK_SECONDS
        reason = self._why(now - self._changed_at)
        if reason is not None and (kind := _DIGITS.sub("", reason)) not in self._shown:
            self._shown.add(kind)
            self._console.print(f"waiting: {reason}", markup=False, highlight=False, soft_wrap=True)

    def _line(self, count: IngestCounts, notes: Sequence[str]) -> None:
        now = self._clock()
        is_finished = count.documents_done == count.documents
        if now < self._next_line and not is_finished:
            return
        self._next_line = now + _LINE_EVERY_SECONDS
        line = ", ".join([f"documents {count.documents_done} of {count.documents}", *notes])
        if line != self._last:
            self._console.print(line, highlight=False, soft_wrap=True)
            self._last = line


def _notes(count: IngestCounts) -> list[str]:
    """Return the numbers of documents that are uploaded, searchable and failed."""
    uploaded = [] if count.uploaded is None else [f"{count.uploaded} uploaded"]
    found = [f"{count.searchable} searchable"] if count.searchable > count.documents_done - count.failed else []
    return [*uploaded, *found, *([f"{count.failed} failed"] if count.failed else [])]


def _page_notes(count: IngestCounts) -> list[str]:
    """Return the progress of scanned pages while some are unread."""
    return [f"pages {count.pages_done} of {count.pages}"] if count.pages > count.pages_done else []


def _chunk_notes(count: IngestCounts) -> list[str]:
    """Return the progress of chunks, and the number of generated ones while some are not done."""
    notes = [f"chunks {count.chunks_done} of {count.chunks}"] if count.chunks else []
    return [*notes, f"{count.chunks_generated} generated"] if count.chunks > count.chunks_done else notes


class Stages:
    """Shows the progress of several stages; a context manager."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._tasks: dict[str, TaskID] = {}
        self._lines: dict[str, float] = {}  # time of the next line of each stage
        self._progress = Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:.0f} of {task.total:.0f}"),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def show(self, stage: str, done: int, total: int, left_seconds: int | None = None) -> None:
        """Show a stage, with the server's time left if it is known."""
        left = "" if left_seconds is None else f"about {duration(left_seconds)} left"
        if self._console.is_terminal:
            task = self._tasks.get(stage)
            if task is None:
                task = self._tasks[stage] = self._progress.add_task(stage, total=total, left=left)
            self._progress.update(task, completed=done, total=total, left=left)
            return
        now = self._clock()
        if now >= self._lines.setdefault(stage, now + _LINE_EVERY_SECONDS):  # a short stage prints no line
            self._lines[stage] = now + _LINE_EVERY_SECONDS
            line = f"{stage} {done:,} of {total:,}" + (f", {left}" if left else "")
            self._console.print(line, highlight=False, soft_wrap=True)
