"""Progress of an ingest as counts and lines."""

from io import StringIO

import pytest
from foreask_client import Document, Job
from rich.console import Console

from cli.ingestion import DocumentProgress, UploadBatch, follow, waiting_reason
from cli.meter import IngestCounts, Meter, Stages
from shared.domain.errors import Unavailable
from tests.support import replies
from tests.support.clock import ManualClock
from tests.support.planted import guards


def lines(*counts, every=1.0, left=lambda: None):
    clock, text = ManualClock(), StringIO()
    with Meter(Console(file=text, width=200), clock, left=left) as meter:
        for count in counts:
            meter.show(count)
            clock.now += every
    return text.getvalue().splitlines()


def test_meter_without_terminal_prints_periodic_and_final_lines():
    counts = [
        IngestCounts(2, searchable=n // 4, chunks=10, chunks_generated=n, chunks_done=n, complete=True)
        for n in range(8)
    ]
    shown = lines(*counts, IngestCounts(2, 2, 1, 1, 10, 10, 10, complete=True), every=2)

    assert shown == [
        "documents 0 of 2, chunks 0 of 10, 0 generated",
        "documents 0 of 2, 1 searchable, chunks 5 of 10, 5 generated",
        "documents 2 of 2, 1 failed, chunks 10 of 10",
    ]


def test_scanned_pages_are_counted_until_read():
    batch = UploadBatch(2)
    batch.record("a", DocumentProgress.of(document("a", "reading", pages=9, pages_read=3, pages_unread=1)))
    batch.record("b", DocumentProgress.of(document("b", "ready", total=1, indexed=1)))
    reading = batch.count()
    batch.record("a", DocumentProgress.of(document("a", "degraded", pages=9, pages_read=8, pages_unread=1)))

    shown = lines(reading, batch.count())

    assert not reading.complete
    assert shown[0] == "documents 1 of 2, pages 4 of 9, chunks 1 of 1"
    assert shown[1] == "documents 2 of 2, chunks 1 of 1"


def test_job_adds_money_and_its_remaining_time():
    text, job = StringIO(), Job(**replies.job(eta_seconds=95, cost=0.0412))
    with Meter(Console(file=text, width=200)) as meter:
        meter.show(IngestCounts(1250, 640, 1, 650), job)
    assert text.getvalue() == "documents 640 of 1250, 650 searchable, 1 failed, about 2 min left, 0.0412 spent\n"


def test_terminal_shows_one_bar():
    console = Console(file=StringIO(), width=120, force_terminal=True)
    with Meter(console) as meter:
        meter.show(IngestCounts(2, 1, chunks=20, chunks_done=10))
        assert [task.description for task in meter._bar[0].tasks] == ["documents"]
        assert "chunks 10 of 20" in meter._bar[0].tasks[0].fields["note"]


@guards(
    "cli/meter.py",
    "self._ask_left(count) if job is None",
    "None if job is None",
    means="an upload of an hour shows no time left",
)
def test_upload_shows_time_of_server():
    answers = [None, 240, 230]
    counts = [IngestCounts(200, number // 4) for number in range(12)]
    shown = lines(*counts, IngestCounts(200, 200), left=lambda: answers.pop(0) if answers else 220)

    assert shown == ["documents 0 of 200", "documents 2 of 200, about 4 min left", "documents 200 of 200"]


def document(name, state, total=0, indexed=0, dead=0, **pages):
    counts = {"total": total, "searchable": indexed, "generated": indexed, "indexed": indexed, "dead": dead}
    return Document(
        **replies.document(id=name, external_id=name, state=state, chunks=counts | {"discarded": 0}, **pages)
    )


class DocumentServer:
    """A client of a server whose documents change with each request."""

    def __init__(self, *rounds):
        self.rounds = list(rounds)
        self.requested = []

    def documents(self, ids):
        self.requested.append(list(ids))
        documents = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        if isinstance(documents, Exception):
            raise documents
        return [d for d in documents if d.id in ids]


def batch(*names):
    made = UploadBatch(len(names))
    for name in names:
        made.record(name, DocumentProgress.of(document(name, "queued")))
    return made


def follow_at_once(server, followed, until="ready"):
    return list(follow(server, followed, until, sleep=lambda _: None))


def test_follow_ends_when_all_documents_are_final():
    asking = [document("a", "searchable", 4, 1), document("b", "queued")]
    ended = [document("a", "ready", 4, 4), document("b", "failed")]

    counts = follow_at_once(DocumentServer(asking, ended), batch("a", "b"))

    assert counts == [
        IngestCounts(2, 0, 0, 1, 4, 1, 1, complete=False),
        IngestCounts(2, 2, 1, 1, 4, 4, 4, complete=True),
    ]


def test_follow_until_searchable_ends_when_all_searchable():
    server = DocumentServer(
        [document("a", "searchable", 4), document("b", "indexing", 2)], [document("b", "searchable", 2)]
    )

    counts = follow_at_once(server, batch("a", "b"), "searchable")

    assert [(count.documents_done, count.searchable) for count in counts] == [(1, 1), (2, 2)]
    assert server.requested == [["a", "b"], ["b"]]


def test_follow_round_reads_bounded_number_of_documents():
    names = [f"d{number}" for number in range(2_500)]
    server = DocumentServer([document(name, "ready", 1, 1) for name in names])

    counts = follow_at_once(server, batch(*names))

    assert [count.documents_done for count in counts] == [1_000, 2_000, 2_500]
    assert max(map(len, server.requested)) == 100
    assert [name for names_of_one in server.requested for name in names_of_one] == names


def test_follow_counts_deleted_document_as_failed():
    followed = batch("a")
    (count,) = follow_at_once(DocumentServer([]), followed)
    assert (count.failed, followed.documents["a"].external_id) == (1, "a")


def test_follow_does_not_poll_unchanged_documents():
    server = DocumentServer([])
    submitted = batch("a")
    submitted.record("a", DocumentProgress.of(document("a", "ready", 3, 3)))

    (count,) = follow_at_once(server, submitted)

    assert (count.documents_done, count.chunks) == (1, 3)
    assert server.requested == []


def test_follow_survives_one_unavailable_reply():
    server = DocumentServer(Unavailable("unavailable", component="api"), [document("a", "ready", 1, 1)])
    *_, last = follow_at_once(server, batch("a"))
    assert last.documents_done == 1


def test_follow_survives_repeated_unavailable_replies():
    unavailable, searchable = Unavailable("unavailable", component="api"), [document("a", "searchable", 1)]
    server = DocumentServer(*[unavailable, searchable] * 20, [document("a", "ready", 1, 1)])
    *_, last = follow_at_once(server, batch("a"))
    assert last.documents_done == 1


def test_follow_fails_if_server_stays_unavailable():
    server = DocumentServer(Unavailable("unavailable", component="api"))
    with pytest.raises(Unavailable):
        follow_at_once(server, batch("a"))


def test_long_stage_prints_periodic_lines():
    clock, out = ManualClock(), StringIO()
    with Stages(Console(file=out, width=60), clock) as stages:
        for second in range(26):
            clock.now = float(second)
            stages.show("embedding", second * 100, 2600)
            stages.show("indexing", second, 26)
        stages.show("quick", 1, 1)

    assert out.getvalue().splitlines() == [
        "embedding 1,000 of 2,600",
        "indexing 10 of 26",
        "embedding 2,000 of 2,600",
        "indexing 20 of 26",
    ]


@guards(
    "cli/meter.py",
    'f"waiting: {reason}"',
    '"waiting"',
    means="a load that waits does not say why",
)
def test_meter_prints_reason_of_standstill_once():
    clock, text, asked = ManualClock(), StringIO(), []

    def why(stalled_seconds):
        asked.append((clock.now, stalled_seconds))
        return f"The llm provider answered 402: no credit; the next call is made in {300 - clock.now:.0f} s."

    with Meter(Console(file=text, width=200), clock, why) as meter:
        for second in range(12):
            clock.now = float(second)
            meter.show(IngestCounts(2, searchable=min(second, 4)))  # it moves for four seconds
        meter.show(IngestCounts(2, 2))

    printed = [line for line in text.getvalue().splitlines() if line.startswith("waiting")]
    assert printed == ["waiting: The llm provider answered 402: no credit; the next call is made in 298 s."]
    assert asked == [(2, 0), (4, 0), (6, 2), (8, 4), (10, 6)]


class Server:
    """Answers the status with a cause of the pace."""

    def __init__(self, cause):
        self.cause = cause

    def status(self):
        if self.cause is None:
            raise Unavailable("no server", component="api")
        return {"pace": {"cause": self.cause, "message": "Why."}}


@guards(
    "cli/ingestion.py",
    "stalled_seconds < _START_SECONDS",
    "False",
    means="a load on a slow machine reports workers as missing while they start",
    case="no_worker-19-500: out of memory",
)
@pytest.mark.parametrize(
    ("cause", "stalled", "expected"),
    [
        ("cooldown", 0, "Why."),
        ("breaker", 3, "Why."),
        ("paused", 3, "Why."),
        ("no_worker", 2, None),
        ("no_worker", 19, "500: out of memory"),
        ("no_worker", 20, "Why."),
        ("limit", 3, "500: out of memory"),
        ("working", 3, "500: out of memory"),
        ("working", 2, None),
        (None, 3, None),
    ],
)
def test_reason_to_wait_is_of_server_or_document(cause, stalled, expected):
    batch = UploadBatch(3)
    batch.record("1", DocumentProgress("a.md", "ready"))
    batch.record("2", DocumentProgress("b.md", "searchable", error="500: out of memory"))

    assert waiting_reason(Server(cause), batch, stalled_seconds=stalled) == expected
