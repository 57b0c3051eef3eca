"""The log has one line in a while for an event that repeats."""

from shared.process.telemetry.repetitions import Repetitions
from tests.support.clock import ManualClock


def test_event_is_new_once_a_minute():
    clock = ManualClock()
    repetitions = Repetitions(clock)
    repeated = []
    for second in range(0, 130, 10):
        clock.now = float(second)
        repeated.append(repetitions.repeats("llm", 401))

    assert [index * 10 for index, each in enumerate(repeated) if not each] == [0, 60, 120]


def test_kinds_of_events_are_independent_and_bounded():
    repetitions = Repetitions(ManualClock())

    assert [repetitions.repeats("llm", status) for status in (401, 402, 401)] == [False, False, True]
    assert not any(repetitions.repeats(code) for code in range(1_000))
    assert len(repetitions._first) <= 100
