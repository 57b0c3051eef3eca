"""The budget of processor seconds: warnings, failures, and the conversion of other machines' seconds."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.costs import Budget, Cost, Recorder, children_seconds, compared, reference_seconds, rendered
from tests.support.planted import guards
from tests.support.waiting import wait_until

BUDGET = Budget(reference_seconds=0.1, folders={"unit": 10.0})
TEST = "tests/unit/test_retry.py::test_one"


def rows(seconds, reference=0.1):
    return compared({TEST: Cost(seconds, seconds)}, reference, BUDGET)


@pytest.mark.parametrize(
    ("seconds", "warns", "fails"), [(13, False, False), (14, True, False), (19.9, True, False), (20.1, True, True)]
)
def test_folder_above_budget_warns_then_fails(seconds, warns, fails):
    (row,) = rows(seconds)

    assert (row.folder, row.tests, row.warns, row.fails) == ("unit", 1, warns, fails)


def test_seconds_of_slower_processor_are_converted():
    (row,) = rows(30, reference=0.3)

    assert row.seconds == pytest.approx(10)
    assert not row.warns


def test_folder_without_budget_never_fails():
    (row,) = compared({"tests/other/test_a.py::test_b": Cost(1000, 1000)}, 0.1, BUDGET)

    assert (row.warns, row.fails) == (False, False)


@guards(
    "tests/support/slow.py",
    'return test.rpartition("::")[2] not in _FAST_FAULTS',
    "return False",
    means="`make test-all` always fails, because slow scenarios are compared with the budget of the fast ones",
)
def test_slow_tests_have_a_budget_of_their_own():
    slow = "tests/integration/test_fuzz.py::test_generated_requests_cause_no_server_error"
    fault = "tests/faults/test_edits.py::test_edits_under_kills_show_one_complete_version"
    fast = "tests/faults/test_broker_fails.py::test_killed_broker_loses_no_work"
    costs = {slow: Cost(1000, 1000), f"{slow}[a]": Cost(1, 1), fault: Cost(9, 9), fast: Cost(2, 2)}

    rows = {row.folder: row.tests for row in compared(costs, 0.1, BUDGET)}

    assert rows == {"slow": 3, "faults": 1}


def test_costliest_tests_are_listed_above_budget():
    costs = {TEST: Cost(15, 15), "tests/unit/test_retry.py::test_two": Cost(1, 9)}
    within, above = (list(rendered(rows(seconds), costs)) for seconds in (1, 15))

    assert not [line for line in within if "costliest" in line]
    costliest = above.index("The costliest tests of unit, in processor seconds:")
    assert above[costliest + 1] == f"    15.0  {TEST}"
    waits = above.index("The tests that wait longest without working, in seconds:")
    assert above[waits + 1] == "     8.0  tests/unit/test_retry.py::test_two"


def test_time_of_ended_child_belongs_to_its_test():
    recorder = Recorder()
    recorder.start()
    subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)
    recorder.add(TEST, 0.0, 1.0)
    recorder.assign()

    assert recorder.costs[TEST].processor_seconds > 0.05


def test_time_of_running_grandchild_is_counted():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    before = children_seconds()
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        try:
            wait_until(lambda: children_seconds() - before > 0.3)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_reference_work_takes_processor_time():
    assert 0.001 < reference_seconds() < 60


def test_checked_in_budget_names_existing_folders():
    folders = Budget.read().folders

    rows = {"start", "slow"}
    assert folders.keys() == rows | {"acceptance", "contract", "faults", "integration", "page", "properties", "unit"}
