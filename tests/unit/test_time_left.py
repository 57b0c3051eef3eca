"""The time that open work needs: recorded sequences of loads, and the order of jobs."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from shared.domain.time_left import ChunkProgress, FinishedChunks, Work, time_left
from tests.support.planted import guards

STEADIEST = 1.4  # a larger factor between two ticks is a jump
FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))
STEADY = FinishedChunks(recent=120, first=2, span=timedelta(seconds=58), earlier={70.0: 20, 130.0: 120})  # two a second
OPENED = datetime(2026, 10, 1, tzinfo=UTC)


def finished_at(now, events):
    """Return the numbers that the ledger reads at a time: `events` are times in seconds and numbers of chunks."""
    recent = [(at, count) for at, count in events if now - 60 < at <= now]
    earlier = Counter()
    for at, count in events:
        if now - 420 < at <= now - 60:
            earlier[now - at // 60 * 60] += count
    times = [at for at, _ in recent]
    return FinishedChunks(
        recent=sum(count for _, count in recent),
        first=sum(count for at, count in recent if at == min(times)),
        span=timedelta(seconds=max(times) - min(times)) if times else timedelta(),
        earlier=earlier,
    )


def numbers(events, total, *, until, of=lambda now, done: Work(chunks=0)):
    """Return the time left in seconds, or None, at each second of a load of `total` chunks."""
    shown = []
    for now in range(until):
        done = sum(count for at, count in events if at <= now)
        whole = time_left([of(now, total - done)], finished_at(now, events)).whole
        shown.append(None if whole is None else whole.total_seconds())
    return shown


def parsed(_, left):
    return Work(open_chunks=left, chunks=left, parsed=10)


def largest_jump(shown):
    """Return the largest factor between two ticks of more than a minute."""
    known = [(before, after) for before, after in pairwise(shown) if before and after and min(before, after) > 60]
    return max(max(after / before, before / after) for before, after in known)


# The second in which a load starts, and the times and numbers of its chunks; one follows another load.
LOADS = {
    "one by one": (0, [(37 + number / 2, 1) for number in range(1_000)]),
    "in groups": (0, [(37 + number * 4, 8) for number in range(125)]),
    "large groups": (0, [(61 + number * 16, 32) for number in range(32)]),
    "later": (200, [*((number, 3) for number in range(20)), *((203 + number / 2, 1) for number in range(1_000))]),
}


@guards(
    "shared/domain/time_left.py",
    "whole = run[:-1]",
    "whole = run",
    means="the estimate of a new load doubles at the end of its first minute",
    case="one by one",
)
@pytest.mark.parametrize(("start", "events"), LOADS.values(), ids=LOADS.keys())
def test_steady_load_never_jumps(start, events):
    total = sum(count for _, count in events)
    shown = numbers(events, total, until=round(events[-1][0]), of=parsed)[start:]

    assert shown[0] is None
    assert sum(each is not None for each in shown) > len(shown) * 0.7
    assert largest_jump(shown) < STEADIEST


@pytest.mark.parametrize(("start", "events"), LOADS.values(), ids=LOADS.keys())
def test_steady_load_ends_as_predicted(start, events):
    total, end = sum(count for _, count in events), events[-1][0]
    shown = numbers(events, total, until=round(end), of=parsed)

    later = [(now, left) for now, left in enumerate(shown) if left is not None and now > start + 90]
    assert later
    assert all(abs(now + left - end) < 0.3 * (end - now) + 18 for now, left in later)


def test_nothing_is_said_before_evidence():
    events = [(5, 32), (9, 32), (16, 32)]
    shown = numbers(events, 1_000, until=20, of=parsed)

    assert shown[:16] == [None] * 16
    assert shown[16] is not None


def test_nothing_is_said_while_nothing_finishes():
    events = [(number, 2) for number in range(300)]
    shown = numbers(events, 1_000, until=400, of=parsed)

    assert shown[359] is None
    assert shown[340] is not None


def test_unparsed_documents_count_by_mean():
    few = Work(unparsed=90, parsed=4, chunks=40, open_chunks=40)
    work = Work(unparsed=90, parsed=10, chunks=40, open_chunks=40)

    assert time_left([few], STEADY).whole is None
    assert time_left([work], STEADY).whole == timedelta(seconds=(40 + 90 * 4) / 2)


@guards(
    "shared/domain/time_left.py",
    "(work.chunks + _FEW_DOCUMENTS * mean) / (work.parsed + _FEW_DOCUMENTS)",
    "(work.chunks / work.parsed if work.parsed else mean)",
    means="one large document at the start of a load multiplies its time",
)
def test_first_document_of_job_multiplies_nothing():
    others = Work(parsed=1_000, chunks=2_000)
    before, after = (
        time_left([others, Work(FIRST, OPENED, unparsed=99, parsed=parsed, chunks=chunks)], STEADY).whole
        for parsed, chunks in ((0, 0), (1, 100))
    )

    assert after / before < 10


def test_job_waits_for_jobs_before_it():
    works = [
        Work(open_chunks=20),
        Work(FIRST, OPENED + timedelta(minutes=1), priority=1, open_chunks=400),
        Work(SECOND, OPENED, priority=1, open_chunks=100),
        Work(THIRD, OPENED + timedelta(hours=1), priority=0, open_chunks=60),
    ]

    left = time_left(works, STEADY)

    assert left.of_jobs == {
        THIRD: timedelta(seconds=40),
        SECOND: timedelta(seconds=90),
        FIRST: timedelta(seconds=290),
    }
    assert left.whole == left.of_jobs[FIRST] == max(left.of_jobs.values())


def test_paused_and_batched_jobs_have_no_time():
    works = [
        Work(FIRST, OPENED, open_chunks=400, is_paused=True),
        Work(SECOND, OPENED, open_chunks=10, in_batches=90),
        Work(THIRD, OPENED + timedelta(hours=1), open_chunks=50),
    ]

    left = time_left(works, STEADY)

    assert left.of_jobs == {THIRD: timedelta(seconds=30)}
    assert (left.whole, left.is_in_batches) == (timedelta(seconds=30), False)
    assert time_left([Work(in_batches=90)], STEADY).is_in_batches


def test_progress_of_job_includes_expected_chunks():
    works = [Work(FIRST, OPENED, chunks=50, open_chunks=30, parsed=10, unparsed=4), Work(SECOND, OPENED, chunks=9)]

    assert time_left(works, FinishedChunks()).chunks == {FIRST: ChunkProgress(20, 71), SECOND: ChunkProgress(9, 9)}


@guards(
    "shared/domain/time_left.py",
    "chunks >= _FEW_CHUNKS and",
    "chunks and",
    means="the first chunks of an ingest promise a time that is several times too long or too short",
)
@guards(
    "shared/domain/time_left.py",
    "self.recent - self.first",
    "self.recent",
    means="the estimate of a load is too low at its start",
)
def test_few_chunks_prove_no_pace():
    few, enough = (FinishedChunks(recent=recent, first=2, span=timedelta(seconds=20)) for recent in (9, 10))

    assert (few.per_second, enough.per_second) == (None, 0.4)


@guards(
    "shared/domain/time_left.py",
    "if not whole and chunks < _FEW_CHUNKS:",
    "if not whole and not chunks:",
    means="a load promises hours because single documents were uploaded in the two minutes before it",
)
def test_single_documents_before_load_prove_no_pace():
    few, enough = (FinishedChunks(recent=recent, first=1, earlier={70.0: 1}) for recent in (1, 8))
    slow = FinishedChunks(recent=1, first=1, earlier={70.0: 1, 130.0: 1, 190.0: 1})

    assert (few.per_second, enough.per_second) == (None, 8 / 60)
    assert slow.per_second == 3 / 130
