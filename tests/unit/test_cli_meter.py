"""How far the work is, in numbers and in lines."""

from datetime import timedelta
from io import StringIO

import pytest
from rich.console import Console

from cli.ingestion import UploadBatch, follow
from cli.meter import Count, Meter, Rate, Stages
from shared.domain.errors import Unavailable


class ManualClock:
    now = 0.0

    def __call__(self):
        return self.now


def test_the_rate_is_that_of_the_last_minute():
    clock = ManualClock()
    rate = Rate(clock)
    for second in range(200):
        clock.now = float(second)
        rate.note(second if second < 100 else 100 + (second - 100) * 4)

    assert rate.per_second == 4
    assert rate.eta(40) == timedelta(seconds=10)


def test_there_is_no_eta_before_anything_is_done():
    clock = ManualClock()
    rate = Rate(clock)
    rate.note(0)
    assert rate.per_second == 0
    assert rate.eta(10) is None


def lines(*counts, every=1.0):
    clock, text = ManualClock(), StringIO()
    with Meter(Console(file=text, width=200), clock) as meter:
        for count in counts:
            meter.show(count)
            clock.now += every
    return text.getvalue().splitlines()


def test_progress_without_terminal_prints_occasional_lines():
    counts = [
        Count(2, searchable=n // 4, chunks=10, chunks_generated=n, chunks_done=n, complete=True) for n in range(8)
    ]
    shown = lines(*counts, Count(2, 2, 1, 1, 10, 10, 10, complete=True), every=2)

    assert shown == [
        "documents 0 of 2, chunks 0 of 10, 0 generated",
        "documents 0 of 2, 1 searchable, chunks 5 of 10, 5 generated, 0.5/s, 0:00:10 left",
        "documents 2 of 2, 1 failed, chunks 10 of 10",
    ]


def test_eta_with_unread_documents_is_lower_bound():
    shown = lines(Count(2, chunks=10), Count(2, chunks=10, chunks_done=5), every=10)
    assert "at least 0:00:10 left" in shown[1]


def test_earlier_work_does_not_count_as_rate():
    shown = lines(
        Count(2),
        Count(2, 1, searchable=1, chunks=20, chunks_done=10),
        Count(2, 1, searchable=1, chunks=20, chunks_done=11),
        every=10,
    )
    assert "0.1/s" in shown[2]


def document(name, state, total=0, indexed=0, dead=0):
    chunks = {"total": total, "searchable": indexed, "generated": indexed, "indexed": indexed, "dead": dead}
    return {"id": name, "external_id": name, "state": state, "chunks": chunks, "error": None}


class DocumentServer:
    """A client of a server whose documents move on with each request."""

    def __init__(self, *rounds):
        self.rounds = list(rounds)
        self.looked_up = []

    def documents_of(self, names):
        self.looked_up.append(list(names))
        documents = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        if isinstance(documents, Exception):
            raise documents
        return [d for d in documents if d["id"] in names]


def batch(*names):
    made = UploadBatch(len(names))
    for name in names:
        made.see(name, document(name, "queued"))
    return made


def follow_at_once(server, followed, until="ready"):
    return list(follow(server, followed, until, sleep=lambda _: None))


def test_documents_are_followed_until_each_has_ended():
    asking = [document("a", "searchable", 4, 1), document("b", "queued")]
    ended = [document("a", "ready", 4, 4), document("b", "failed")]

    counts = follow_at_once(DocumentServer(asking, ended), batch("a", "b"))

    assert counts == [
        Count(2, 0, 0, 1, 4, 1, 1, complete=False),
        Count(2, 2, 1, 1, 4, 4, 4, complete=True),
    ]


def test_documents_are_followed_until_each_is_found():
    server = DocumentServer(
        [document("a", "searchable", 4), document("b", "indexing", 2)], [document("b", "searchable", 2)]
    )

    counts = follow_at_once(server, batch("a", "b"), "searchable")

    assert [(count.documents_done, count.searchable) for count in counts] == [(1, 1), (2, 2)]
    assert server.looked_up == [["a", "b"], ["b"]]


def test_polls_read_bounded_parts_in_turn():
    names = [f"d{number}" for number in range(2_500)]
    server = DocumentServer([document(name, "ready", 1, 1) for name in names])

    counts = follow_at_once(server, batch(*names))

    assert [count.documents_done for count in counts] == [1_000, 2_000, 2_500]
    assert max(map(len, server.looked_up)) == 100
    assert [name for names_of_one in server.looked_up for name in names_of_one] == names


def test_deleted_document_ends_its_wait():
    followed = batch("a")
    (count,) = follow_at_once(DocumentServer([]), followed)
    assert (count.failed, followed.documents["a"]["external_id"]) == (1, "a")


def test_finished_documents_are_not_polled():
    server = DocumentServer([])
    submitted = batch("a")
    submitted.see("a", document("a", "ready", 3, 3))

    (count,) = follow_at_once(server, submitted)

    assert (count.documents_done, count.chunks) == (1, 3)
    assert server.looked_up == []


def test_brief_outage_is_waited_out():
    server = DocumentServer(Unavailable("away", component="api"), [document("a", "ready", 1, 1)])
    *_, last = follow_at_once(server, batch("a"))
    assert last.documents_done == 1


def test_repeated_outages_are_each_waited_out():
    away, asking = Unavailable("away", component="api"), [document("a", "searchable", 1)]
    server = DocumentServer(*[away, asking] * 20, [document("a", "ready", 1, 1)])
    *_, last = follow_at_once(server, batch("a"))
    assert last.documents_done == 1


def test_lasting_outage_ends_wait():
    server = DocumentServer(Unavailable("away", component="api"))
    with pytest.raises(Unavailable):
        follow_at_once(server, batch("a"))


def test_long_stage_prints_occasional_lines():
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
