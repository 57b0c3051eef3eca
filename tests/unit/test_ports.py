"""A port that is chosen seconds before its process listens on it stays reserved."""

import random
import subprocess
import sys

from embedded.ports import free_port
from tests.support.deployment import ROOT

CHOOSE = "import random; random.seed(5); from embedded.ports import free_port; print(free_port(), flush=True); input()"


def test_concurrent_processes_choose_different_ports():
    command = [sys.executable, "-c", CHOOSE]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        chosen = int(other.stdout.readline())
        random.seed(5)
        mine = free_port()
        other.stdin.write("\n")

    assert mine != chosen


def test_port_is_free_after_its_process_exits():
    def choose() -> str:
        command = [sys.executable, "-c", CHOOSE]
        return subprocess.run(command, cwd=ROOT, input="\n", stdout=subprocess.PIPE, text=True, check=True).stdout

    assert choose() == choose()
