"""A worker with a hanging event loop exits; a worker that was only stopped continues."""

import os
import signal
import subprocess
import sys
import time

from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS
from workers.watchdog import EXIT_CODE

PROGRAM = """
import asyncio, sys, threading, time
from datetime import timedelta
from workers.watchdog import Watchdog

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
Watchdog(loop, timedelta(seconds=1)).start()
if sys.argv[1] == "hang":
    loop.call_soon_threadsafe(lambda: time.sleep(30))
if sys.argv[1] == "occupy":
    for _ in range(100):
        loop.call_soon_threadsafe(loop.run_in_executor, None, lambda: time.sleep(30))
print("up", flush=True)
time.sleep(float(sys.argv[2]))
"""


def run(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "up\n"
    return process


def test_hanging_loop_exits_process_and_logs_location():
    process = run("hang", "30")
    _, output = process.communicate(timeout=TIMEOUT_SECONDS)

    assert process.returncode == EXIT_CODE
    assert "line 10 in <lambda>" in output


@guards(
    "workers/watchdog.py",
    '"executor": _Beat(self._ask_executor)',
    '"executor": _Beat(self._ask_loop)',
    means="a worker whose threads are all occupied parses no file until its restart",
)
def test_occupied_executor_exits_process_and_logs_location():
    process = run("occupy", "30")
    _, output = process.communicate(timeout=TIMEOUT_SECONDS)

    assert process.returncode == EXIT_CODE
    assert "line 13 in <lambda>" in output


def test_stopped_process_continues_after_resume():
    process = run("turn", "1")
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=TIMEOUT_SECONDS)

    assert process.returncode == 0
