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


def test_without_a_terminal_a_line_comes_now_and_then_and_at_the_end():
    counts = [Count(2, chunks=10, chunks_generated=n, chunks_done=n, complete=True) for n in range(8)]
    shown = lines(*counts, Count(2, 2, 1, 10, 10, 10, complete=True), every=2)

    assert shown == [
        "documents 0 of 2, chunks 0 of 10, 0 generated",
        "documents 0 of 2, chunks 5 of 10, 5 generated, 0.5/s, 0:00:10 left",
        "documents 2 of 2, 1 failed, chunks 10 of 10",
    ]


def test_an_eta_over_unread_documents_is_a_lower_bound():
    shown = lines(Count(2, chunks=10), Count(2, chunks=10, chunks_done=5), every=10)
    assert "at least 0:00:10 left" in shown[1]


def test_what_was_done_before_is_no_pace():
    shown = lines(Count(2), Count(2, 1, chunks=20, chunks_done=10), Count(2, 1, chunks=20, chunks_done=11), every=10)
    assert "0.1/s" in shown[2]


def document(name, state, total=0, indexed=0, dead=0):
    chunks = {"total": total, "generated": indexed, "indexed": indexed, "dead": dead}
    return {"id": name, "external_id": name, "state": state, "chunks": chunks, "error": None}


class DocumentServer:
    """A client of a server whose documents move on with each round."""

    def __init__(self, *rounds):
        self.rounds = list(rounds)
        self.looked_up = []

    def documents(self, collection, state):
        if state == "queued" and len(self.rounds) > 1:
            self.rounds.pop(0)
        if isinstance(self.rounds[0], Exception):
            raise self.rounds[0]
        return iter([d for d in self.rounds[0] if d["state"] == state])

    def document(self, name):
        self.looked_up.append(name)
        return next(d for d in self.rounds[0] if d["id"] == name)


def batch(*names):
    made = UploadBatch(len(names))
    for name in names:
        made.documents[name] = {"document_id": name, "external_id": name, "state": "queued"}
    return made


def test_documents_are_followed_until_each_has_ended():
    asking = [document("a", "generating", 4, 1), document("b", "queued"), document("theirs", "generating", 100)]
    ended = [document("a", "ready", 4, 4), document("b", "failed"), document("theirs", "generating", 100)]
    server = DocumentServer([], asking, ended)

    counts = list(follow(server, batch("a", "b"), "default", sleep=lambda _: None))

    assert counts == [
        Count(2, 0, 0, 4, 1, 1, complete=False),
        Count(2, 2, 1, 4, 4, 4, complete=True),
    ]


def test_what_was_there_already_is_looked_at_once():
    server = DocumentServer([], [document("a", "ready", 3, 3)])
    submitted = batch("a")
    submitted.documents["a"]["state"] = "ready"

    (count,) = follow(server, submitted, "default", sleep=lambda _: None)

    assert (count.documents_done, count.chunks) == (1, 3)
    assert server.looked_up == ["a"]


def test_a_server_that_is_away_for_a_moment_is_waited_for():
    server = DocumentServer([], Unavailable("away", component="api"), [document("a", "ready", 1, 1)])
    *_, last = follow(server, batch("a"), "default", sleep=lambda _: None)
    assert last.documents_done == 1


def test_a_server_that_is_away_now_and_then_is_waited_for_each_time():
    away, asking = Unavailable("away", component="api"), [document("a", "generating", 1)]
    server = DocumentServer([], *[away, asking] * 20, [document("a", "ready", 1, 1)])
    *_, last = follow(server, batch("a"), "default", sleep=lambda _: None)
    assert last.documents_done == 1


def test_a_server_that_stays_away_ends_the_wait():
    server = DocumentServer(Unavailable("away", component="api"))
    with pytest.raises(Unavailable):
        list(follow(server, batch("a"), "default", sleep=lambda _: None))


def test_a_stage_that_takes_long_prints_a_line_now_and_then():
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
