"""The first minute of `foreask up` prints each problem once."""

from io import StringIO

from rich.console import Console

from cli.first_minute import problems_of, watch
from shared.domain.errors import Unavailable
from tests.support.clock import ManualClock

WRONG_KEY = "The llm provider answered 401: it does not accept the API key; the next call is made in {} s."


def test_first_minute_prints_each_problem_once():
    clock, text, polls = ManualClock(), StringIO(), []

    def health():
        polls.append(clock.now)
        if clock.now < 5:
            raise Unavailable("No server", component="api")
        broken = {"qdrant": "Qdrant answered 401: wrong key"} if clock.now > 20 else {}
        return {"reasons": broken, "warnings": [WRONG_KEY.format(30 - len(polls) % 30)]}

    def wait(seconds):
        clock.now += seconds
        return False

    watch(lambda: problems_of(health()), Console(file=text, width=200), wait, clock)

    assert text.getvalue().splitlines() == [
        f"! {WRONG_KEY.format(27)}",
        "! qdrant: Qdrant answered 401: wrong key",
    ]
    assert polls[-1] <= 60


def test_stop_ends_first_minute():
    polls = []

    watch(lambda: polls.append(1) or [], Console(file=StringIO()), lambda _: True)

    assert polls == []
