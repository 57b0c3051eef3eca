"""Programs that are forks of one process: their exits, their own state, and their deaths."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from cli.programs import MODULES
from embedded.forks import Forks
from embedded.supervisor import Child, Supervisor
from tests.support.deployment import ROOT
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, wait_until

SLEEP = "import time; time.sleep(600)"
# Prints the secrets of others in its memory, which it may read although the server has closed it.
SEARCH = r"""
import ctypes, re
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
found = set()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        first, last = (int(each, 16) for each in line.split()[0].split("-"))
        if "rw" in line and "[v" not in line:
            memory.seek(first)
            found |= set(re.findall(rb"secre[t]_\w+", memory.read(last - first)))
print(sorted(found))
"""


@pytest.fixture
def forks(tmp_path):
    forks = Forks(tmp_path / "server.log")
    yield forks
    forks.close()


@pytest.fixture
def launch(forks, tmp_path):
    """A function that starts code as a program, with some variables; its output is in `log`."""
    started = []

    def launch(code, modules=(), **environment):
        child = child_of(code, tmp_path / "log", modules=modules, environment=environment)
        with child.log.open("ab") as output:
            started.append(forks.launch(child, output))
        return started[-1]

    yield launch
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait()


def child_of(code, log, **more):
    command = [sys.executable, "-m", "tests.support.forked", code]
    return Child(name="program", command=command, log=log, inherits=False, **more)


def test_exit_codes_are_of_program(launch):
    killed = launch(SLEEP)
    assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)

    assert killed.wait() == killed.poll() == -signal.SIGKILL
    assert launch("raise SystemExit(7)").wait() == 7
    assert launch("raise ValueError").wait() == 1


@guards(
    "embedded/fork_server.py",
    "        os.environ.clear()\n",
    "",
    means="programs have the variables of the process that forks them",
)
def test_program_has_own_environment_session_and_output(launch, tmp_path):
    code = "import json, os, sys; print(json.dumps([dict(os.environ), os.getsid(0), os.getppid(), sys.argv[1:]]))"
    program = launch(code, COLOUR="blue", PATH="/bin")
    assert program.wait() == 0

    variables, session, parent, arguments = json.loads((tmp_path / "log").read_text())
    assert variables == {"COLOUR": "blue", "PATH": "/bin"}
    assert session == program.pid
    assert parent != os.getpid()
    assert arguments == [code]


@guards(
    "embedded/fork_server.py",
    "        gc.freeze()  # a collection in a program would copy the pages that it shares\n",
    "        gc.read = [*getattr(gc, 'read', []), os.pread(environment, 1 << 20, 0)]\n",
    means="programs have the secrets of programs that were started before, in their memory",
)
def test_program_has_no_secrets_of_others(launch, tmp_path):
    first = launch(SLEEP, KEY="secret_of_first")
    assert launch(SEARCH, KEY="secret_of_second").wait() == 0

    assert first.poll() is None
    assert (tmp_path / "log").read_text().strip() == "[b'secret_of_second']"


def test_command_is_listed(launch):
    program = psutil.Process(launch(SLEEP).pid)

    wait_until(lambda: program.cmdline()[:3] == [sys.executable, "-m", "tests.support.forked"])


def test_server_of_all_programs_has_one_thread(forks, launch):
    launch(SLEEP, modules=[module for modules in MODULES.values() for module in modules])

    server = psutil.Process(forks.pid)
    assert server.num_threads() == 1
    assert not server.net_connections()


def test_programs_import_only_existing_modules():
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    for modules in MODULES.values():
        subprocess.run([sys.executable, "-c", code, *modules], cwd=ROOT, check=True)


def test_programs_of_killed_server_die_and_restart(forks, tmp_path):
    child = child_of(SLEEP, tmp_path / "log", launch=forks.launch)
    with Supervisor([child]) as supervisor:
        (before,) = supervisor.pids().values()
        program = psutil.Process(before)
        os.kill(forks.pid, signal.SIGKILL)

        psutil.wait_procs([program], timeout=TIMEOUT_SECONDS)
        assert not program.is_running()
        wait_until(lambda: set(supervisor.pids().values()) - {before})


def test_killed_program_is_restarted_by_same_server(forks, tmp_path):
    child = child_of(SLEEP, tmp_path / "log", launch=forks.launch)
    with Supervisor([child]) as supervisor:
        (before,) = supervisor.pids().values()
        server = forks.pid
        os.kill(before, signal.SIGKILL)

        wait_until(lambda: set(supervisor.pids().values()) - {before})
        assert forks.pid == server


@guards(
    "embedded/fork_server.py",
    "        _die_with(server)\n",
    "",
    means="programs continue without a supervisor when the process that has forked them dies",
)
def test_programs_die_with_their_starter(tmp_path):
    code = f"""
import sys
from pathlib import Path
from embedded.forks import Forks
from embedded.supervisor import Child
forks, log = Forks(Path({str(tmp_path / "server.log")!r})), Path({str(tmp_path / "log")!r})
child = Child(name="program", command=[sys.executable, "-m", "tests.support.forked", {SLEEP!r}], log=log)
print(forks.launch(child, log.open("ab")).pid, forks.pid, flush=True)
{SLEEP}
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        program, server = (psutil.Process(int(pid)) for pid in starter.stdout.readline().split())
        starter.kill()

    _, alive = psutil.wait_procs([program, server], timeout=TIMEOUT_SECONDS)
    assert not alive


def test_unimportable_module_fails_in_program(launch, tmp_path):
    program = launch("import no_such_module", modules=["no_such_module"])

    assert program.wait() == 1
    assert "No module named 'no_such_module'" in (tmp_path / "log").read_text()
