"""The processor priority of a process whose work can wait."""

import os
import subprocess
import sys

import pytest

from tests.support.planted import guards

PROGRAM = '''
import os, sys
from pathlib import Path
from shared.process import priority

os.nice(int(sys.argv[1]))
session = Path("/proc/self/autogroup")

def group():
    """Return the niceness of the session's group: "" without one (a container's first session, another kernel)."""
    return (session.read_text().split() or [""])[-1] if session.exists() else ""

before = group()
priority.lower(int(sys.argv[2]))
print(os.nice(0), before, group(), sep=",")
'''


def lowered(start: int, to: int, *, leads: bool) -> list[str]:
    """Return the niceness of a process after `lower`, and its session's niceness before and after."""
    command = [sys.executable, "-c", PROGRAM, str(start), str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=leads)
    return done.stdout.strip().split(",")


@pytest.mark.parametrize(("start", "to"), [(0, 10), (3, 10), (12, 10)])
def test_niceness_is_raised_and_never_lowered(start, to):
    own = min(19, os.nice(0) + start)  # tests may run with a niceness of their own

    assert lowered(start, to, leads=True)[0] == str(max(own, to))


def test_session_of_process_is_lowered():
    _, before, after = lowered(0, 10, leads=True)

    assert after == ("5" if before else "")


@guards(
    "shared/process/priority.py",
    "if os.getsid(0) == os.getpid():",
    "if True:",
    means="a worker lowers the priority of a session that it does not lead",
)
def test_session_that_process_does_not_lead_is_unchanged():
    _, before, after = lowered(0, 10, leads=False)

    assert after == before
