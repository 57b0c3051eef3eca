"""The time that open work still needs: the only place that computes it.

The time is the open work divided by the pace. Work is counted in chunks: chunks that are not finished, and the chunks
that documents which are not parsed yet are expected to have. The pace is the number of chunks that finished per second
over the last minutes. Without evidence of work or pace, the time is unknown.

A job needs the time for its own work and for the work that is processed before it. Workers take a tenant's chunks by
priority, then by age, so that is the work of jobs with a higher priority, of jobs with the same priority that were
opened earlier, and of documents without a job. No job therefore needs longer than all open work, the last one needs
exactly as long, and a job with an earlier place never needs longer than a later one. Tenants share the workers fairly:
the measured pace is the tenant's share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from uuid import UUID

RECENT = timedelta(minutes=1)  # without a finished chunk in this time, nothing finishes
MINUTES = 6  # earlier minutes from which the pace is read
_SHORTEST_SECONDS = 10.0  # a pace over a shorter time is meaningless
_MOST_OF_RECENT_SECONDS = 30.0
_FEW_CHUNKS = 8  # finished chunks from which a pace of one minute or less is evidence: fewer differ too much
_FEW_DOCUMENTS = 5  # parsed documents from which their mean number of chunks is evidence


@dataclass(frozen=True, slots=True)
class FinishedChunks:
    """The chunks that finished lately; a dead chunk has finished, too.

    Args:
        recent: their number in the last minute.
        first: the part of `recent` that finished at its first time.
        span: time between the first and the last of `recent`.
        earlier: their numbers in the minutes of the clock that started more than a minute ago, by the age of the start
            in seconds; minutes without any are missing, and the chunks of `recent` are not included.
    """

    recent: int = 0
    first: int = 0
    span: timedelta = timedelta()
    earlier: Mapping[float, int] = field(default_factory=dict)

    @property
    def per_second(self) -> float | None:
        """The pace, over up to six minutes since the last minute without a finished chunk; None without evidence."""
        if not self.recent:
            return None
        run, span_seconds = self._run(), self.span.total_seconds()
        whole = run[:-1]  # the work may have started in the middle of the oldest minute
        if not whole and (not run or span_seconds >= _MOST_OF_RECENT_SECONDS):
            # The first chunks needed an unknown time. Chunks that finish in groups are counted from group to group.
            chunks = self.recent - self.first
            return chunks / span_seconds if chunks >= _FEW_CHUNKS and span_seconds >= _SHORTEST_SECONDS else None
        chunks = self.recent + sum(count for _, count in whole)
        if not whole and chunks < _FEW_CHUNKS:
            return None  # single documents of the last two minutes prove no pace
        return chunks / (RECENT.total_seconds() + sum(seconds for seconds, _ in whole))

    def _run(self) -> list[tuple[float, int]]:
        """Return the seconds and the chunks of the minutes in which work finished without a break, newest first."""
        recent = RECENT.total_seconds()
        by_slot = {int(age // 60): (age, count) for age, count in self.earlier.items() if age >= recent}
        if not by_slot:
            return []
        offset = next(iter(by_slot.values()))[0] % 60
        newest = (offset, by_slot.get(1, (0.0, 0))[1])  # a part of a minute, the rest of which is recent
        later = [(60.0, by_slot[slot][1]) for slot in takewhile(by_slot.__contains__, range(2, MINUTES + 1))]
        return [newest, *later] if later or newest[1] else []


@dataclass(frozen=True, slots=True)
class Work:
    """The open work of a job, or of all documents without an open one.

    Args:
        job_id: the job; None for documents without one, whose work counts as the first.
        opened_at: when the job was opened.
        priority: its lane.
        chunks: number of chunks of its documents, in any state.
        open_chunks: the part that workers still have to generate or index.
        in_batches: the part that waits for a batch of the provider, whose time is unknown.
        parsed: number of its documents with chunks.
        unparsed: number of its documents that are not parsed, or not even uploaded.
        is_paused: whether no worker takes its work.
    """

    job_id: UUID | None = None
    opened_at: datetime | None = None
    priority: int = 0
    chunks: int = 0
    open_chunks: int = 0
    in_batches: int = 0
    parsed: int = 0
    unparsed: int = 0
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """The finished and all chunks of a job; `total` includes expected ones; None if unknown."""

    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The time for all open work, and for the work of jobs.

    Args:
        whole: time for all work that is not paused; None without work or without evidence.
        of_jobs: time for jobs; jobs whose time is unknown are missing.
        chunks: progress of open jobs in chunks.
        per_second: the pace; None without evidence.
        is_in_batches: whether all work that is not paused waits for batches of the provider.
    """

    whole: timedelta | None = None
    of_jobs: Mapping[UUID, timedelta] = field(default_factory=dict)
    chunks: Mapping[UUID, ChunkProgress] = field(default_factory=dict)
    per_second: float | None = None
    is_in_batches: bool = False


def time_left(works: Sequence[Work], finished: FinishedChunks) -> TimeLeft:
    """Return the time that a tenant's open work needs.

    Args:
        works: the work of each open job, and of documents without a job.
        finished: the chunks that finished lately.
    """
    mean, pace = _mean(works), finished.per_second
    expected = {work.job_id: _expected(work, mean) for work in works}
    ahead: float | None = 0.0
    of_jobs: dict[UUID, timedelta] = {}
    active = [work for work in works if not work.is_paused]
    for work in sorted(active, key=_place):
        added = expected[work.job_id]
        ahead = None if ahead is None or added is None else ahead + work.open_chunks + added
        has_work = work.open_chunks + work.unparsed > 0 and not work.in_batches
        if work.job_id is not None and ahead is not None and pace and has_work:
            of_jobs[work.job_id] = timedelta(seconds=ahead / pace)
    return TimeLeft(
        whole=timedelta(seconds=ahead / pace) if ahead and pace else None,
        of_jobs=of_jobs,
        chunks={work.job_id: _progress(work, expected[work.job_id]) for work in works if work.job_id and work.chunks},
        per_second=pace,
        is_in_batches=any(work.in_batches for work in active)
        and not any(work.open_chunks or work.unparsed for work in active),
    )


def _place(work: Work) -> tuple[bool, int, float]:
    """Return the order in which workers take the works; documents without a job come first."""
    opened = 0.0 if work.opened_at is None else work.opened_at.timestamp()
    return work.job_id is not None, work.priority, opened


def _mean(works: Sequence[Work]) -> float | None:
    """Return the mean number of chunks of a parsed document; None if few are parsed."""
    parsed = sum(work.parsed for work in works)
    return sum(work.chunks for work in works) / parsed if parsed >= _FEW_DOCUMENTS else None


def _expected(work: Work, mean: float | None) -> float | None:
    """Return the expected chunks of unparsed documents; None if unknown.

    The mean of a job with few parsed documents is close to the mean of all, so that one large document does not
    multiply the number.
    """
    if not work.unparsed:
        return 0.0
    if mean is None:
        return None
    return work.unparsed * (work.chunks + _FEW_DOCUMENTS * mean) / (work.parsed + _FEW_DOCUMENTS)


def _progress(work: Work, expected: float | None) -> ChunkProgress:
    done = max(0, work.chunks - work.open_chunks - work.in_batches)
    return ChunkProgress(done, None if expected is None else max(work.chunks, done) + round(expected))
