"""`foreask up` from start to stop, and other commands against it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.collector import collecting
from tests.support.deployment import ROOT
from tests.support.waiting import TIMEOUT_SECONDS, wait_until

LEAVE = "# Leave\n\nEverybody has thirty days of leave a year.\n"
CLI = [sys.executable, "-m", "cli"]
USUAL_UMASK = 0o022  # other users may read
NOBODY = 65534


# Prints the replies that a user of the machine gets: of the API, the engines and the file system.
AS_ANOTHER_USER = """
import encodings.idna, http.client, json, os, socket, sys

api, qdrant, valkey, folder, user = *map(int, sys.argv[1:4]), sys.argv[4], int(sys.argv[5])
if os.geteuid() == 0:  # only now, because the user need not be able to read this Python
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)

def status(port, method, path, body=None):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request(method, path, json.dumps(body) if body is not None else None, {"content-type": "application/json"})
    return client.getresponse().status

def valkey_reply():
    with socket.create_connection(("127.0.0.1", valkey), 60) as connection:
        connection.sendall(b"PING\\r\\n")
        return connection.recv(100).split()[0].decode()

def is_readable():
    try:
        return bool(os.listdir(folder))
    except PermissionError:
        return False

source = {"name": "etc", "collection": "etc", "uri": "file:///etc", "options": {"include": "shadow"}}
print(json.dumps({
    "page": status(api, "GET", "/ask"),
    "live": status(api, "GET", "/health/live"),
    "documents": status(api, "GET", "/v1/documents"),
    "source": status(api, "POST", "/v1/sources", source),
    "tools": status(api, "POST", "/mcp", {}),
    "collections": status(qdrant, "GET", "/collections"),
    "points": status(qdrant, "POST", "/collections/any/points/scroll", {}),
    "valkey": valkey_reply(),
    "folder": is_readable(),
}))
"""


class Up:
    """`foreask up` as a process with a scripted provider; each of its processes sends its spans when it exits."""

    def __init__(self, provider, data_dir, collector):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("FOREASK_", "OPENAI_"))}
        models = {
            f"FOREASK_{kind}_{name}": value
            for kind in ("LLM", "EMBEDDING")
            for name, value in (("BASE_URL", provider.url), ("MODEL", "scripted"), ("API_KEY", "scripted"))
        }
        traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "3600000"}
        # FastAPI's spans would contain addresses.
        traced |= {"FASTAPI_OTEL_AUTO_CONFIGURE": "true", "no_proxy": "127.0.0.1"}
        self.collector = collector
        self.folder = data_dir.parent
        temporary = self.folder / "tmp"  # killed processes leave files
        temporary.mkdir()
        own = {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "TMPDIR": str(temporary)}
        self.environment = clean | models | traced | own
        self.data_dir = data_dir
        self.log = data_dir.with_suffix(".log")
        self.process = None
        self.url = None

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        command = [*CLI, "up", "--data-dir", str(self.data_dir), "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=USUAL_UMASK,
            )
        self.url = self.wait_for(r"foreask answers at (\S+),")
        return self

    def wait_for(self, pattern, timeout=TIMEOUT_SECONDS):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            match = re.search(pattern, self.log.read_text())
            if match:
                return match[1] if match.groups() else match[0]
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"{pattern} did not appear:\n{self.log.read_text()}")

    def children(self):
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, *command):
        """The child that `python -m` started as `command`, whatever options follow."""

        def is_it(child):
            words = child.cmdline()
            return list(command) in [words[at + 1 : at + 1 + len(command)] for at, w in enumerate(words) if w == "-m"]

        return next(filter(is_it, self.children()))

    def stop(self, number):
        self.process.send_signal(number)
        return self.process.wait(timeout=TIMEOUT_SECONDS)

    def foreask(self, *arguments, code=0):
        done = subprocess.run(
            [*CLI, *arguments],
            env=self.environment | {"FOREASK_URL": self.url},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def interruptible():
    """Reset SIGINT: a shell's background jobs ignore it, and all processes that the tests start would inherit this."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def deployment(provider_process, tmp_path_factory):
    with collecting() as collector:
        deployment = Up(provider_process, tmp_path_factory.mktemp("up") / "data", collector)
        yield deployment
        if deployment.running:
            deployment.process.kill()
            deployment.process.wait()


@pytest.fixture
def up(deployment, provider):
    """A running `foreask up`, which tests share until it exits because each start takes seconds of processor time."""
    if not deployment.running:
        deployment.start()
    return deployment


def readable_by_others(folder):
    """Return the files and folders that other users may read; a link's own mode means nothing.

    The engines delete files meanwhile.
    """
    readable = []
    for parent, _, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent) / name for name in files)):
            with suppress(FileNotFoundError):
                if not path.is_symlink() and path.stat().st_mode & 0o077:
                    readable.append(path)
    return readable


def have_exited(processes):
    _, alive = psutil.wait_procs(processes, timeout=TIMEOUT_SECONDS)
    return not alive


def test_stopped_processes_exit_and_restart_keeps_data(up):
    folder = up.folder / "handbook"
    folder.mkdir()
    (folder / "leave.md").write_text(LEAVE)
    out = up.foreask("ingest", "handbook", "--collection", "handbook")
    assert "1 files: 1 ready" in out
    assert readable_by_others(up.data_dir) == []
    assert {"uploads", "qdrant", "postgres", "valkey", "logs"} <= {path.name for path in up.data_dir.iterdir()}
    assert "other users of this machine" not in up.log.read_text()
    children = up.children()

    assert up.stop(signal.SIGTERM) == 0  # as a service manager does
    assert have_exited(children)
    assert "stopped; the data stays in" in up.log.read_text()
    written = (up.data_dir / "logs" / "worker-ingest.log").read_text().splitlines()
    lines = [json.loads(line) for line in written if line.startswith("{")]
    assert "ready" in [line["state"] for line in lines if line["event"] == "document.ended"]
    (upload,) = up.collector.named("POST /v1/documents")
    print(up.collector.tree(upload.trace_id))
    assert {span.service for span in up.collector.spans if span.trace_id == upload.trace_id} == {
        f"foreask-{role}" for role in ("api", "parse", "ingest")
    }
    assert {span.scope for span in up.collector.spans} == {"foreask"}

    up.start()
    reply = json.loads(up.foreask("ask", "How many days of leave are there?", "-c", "handbook", "--json"))
    assert "thirty days" in reply["chunks"][0]["text"]


def test_another_user_reaches_nothing(up):
    ports = json.loads((up.data_dir / "ports.json").read_text())
    api = httpx.URL(up.url).port
    arguments = map(str, (api, ports["qdrant"], ports["valkey"], up.data_dir, NOBODY))
    command = [sys.executable, "-c", AS_ANOTHER_USER, *arguments]
    seen = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    is_root = os.geteuid() == 0  # else the user is the own one
    private = {"documents": 401, "source": 401, "tools": 401, "folder": False}
    own = {"documents": 200, "source": 201, "tools": 406, "folder": True}
    assert seen == {
        "page": 200,
        "live": 200,
        "collections": 401,
        "points": 401,
        "valkey": "-NOAUTH",
        **(private if is_root else own),
    }


def test_starting_server_prints_its_check(up):
    for part in ("PostgreSQL", "Redis", "Qdrant", "Uploads", "Questions", "Answers", "Embeddings"):
        assert up.wait_for(rf"ok +{part} .*")


def test_killed_worker_is_restarted_and_logged(up):
    killed = up.child("workers", "ingest")
    killed.kill()

    up.wait_for("child ended and will be restarted")

    def has_successor():
        with suppress(StopIteration, psutil.Error):
            worker = up.child("workers", "ingest")
            return worker.pid != killed.pid and worker.nice() > up.child("api").nice()  # queries run first

    wait_until(has_successor, "no new worker")


def test_client_commands_use_running_server(up):
    folder = up.folder / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "leave.md").write_text(LEAVE)
    (folder / "deep" / "travel.md").write_text("# Travel\n\nTrains are booked in Bergen.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    (folder / ".hidden").write_text("not for you")
    (folder / "gone.md").symlink_to(folder / "nowhere.md")

    # The client cannot read one file, and the server cannot parse another.
    out = up.foreask("ingest", "docs", code=3)
    assert "4 files (left out: 1 hidden)" in out
    assert "docs/gone.md" in out
    assert "docs/broken.pdf" in out
    assert "1 not uploaded" in out

    assert up.foreask("ingest", "docs/leave.md", "docs/broken.pdf", code=3)
    assert "1 files: 1 ready" in up.foreask("ingest", "docs/leave.md")  # it exists already
    assert "docs/nowhere" not in out

    listed = [line for line in up.foreask("documents", "--state", "ready").splitlines() if "default/docs/" in line]
    assert sorted(line.split()[2] for line in listed) == ["default/docs/deep/travel.md", "default/docs/leave.md"]
    document_id = next(line.split()[0] for line in listed if "leave" in line)
    shown = up.foreask("documents", "show", document_id)
    assert "What is said of" in shown

    answer = up.foreask("ask", "How many days of leave are there?", "--show-chunks", "--explain")
    assert "The documents say so [1]." in answer
    assert "docs/leave.md" in answer
    assert "score" in answer
    assert "chunks by channel" in answer

    assert "default" in up.foreask("collections")
    assert "ledger" in up.foreask("status")
    failed = up.foreask("documents", "--state", "failed").split()[0]
    assert up.foreask("documents", "retry", failed).strip() in {"queued", "parsing", "failed"}
    assert up.foreask("documents", "delete", document_id) == "deleted\n"
    assert "default/docs/leave.md" not in up.foreask("documents", "--state", "ready")


def test_demo_files_are_unreadable_for_other_users(deployment, tmp_path):
    folder = tmp_path / "demo"
    command = [*CLI, "demo", "--data-dir", str(folder)]
    demo = subprocess.Popen(
        command, env=deployment.environment, cwd=tmp_path, stdout=subprocess.DEVNULL, umask=USUAL_UMASK
    )
    try:
        wait_until(lambda: next(folder.glob("documents/packages/*"), None))
        wait_until(lambda: next(folder.glob("uploads/??/*"), None))
        assert readable_by_others(folder) == []
    finally:
        demo.terminate()
        demo.wait(timeout=TIMEOUT_SECONDS)


@pytest.mark.usefixtures("interruptible")
def test_server_works_after_interrupted_ingest(up, provider):
    folder = up.folder / "reports"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.md").write_text(f"# Report {number}\n\nThe number of this report is {number}.\n")
    provider.script(latency_seconds=5)
    environment = up.environment | {"FOREASK_URL": up.url}
    ingest = subprocess.Popen(
        [*CLI, "ingest", "reports"], env=environment, cwd=up.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    while httpx.get(f"{up.url}/v1/documents", timeout=TIMEOUT_SECONDS).text.count('"reports/') < 5:
        time.sleep(0.1)

    ingest.send_signal(signal.SIGINT)
    out, _ = ingest.communicate(timeout=TIMEOUT_SECONDS)

    assert ingest.returncode == 130
    assert b"The server continues with the uploaded files" in out
    assert b"Traceback" not in out
    assert "5 files: 5 ready" in up.foreask("ingest", "reports")


def test_busy_port_or_folder_prints_one_sentence(up):
    port = httpx.URL(up.url).port
    for arguments, sentence in (
        (["--data-dir", str(up.folder / "other"), "--port", str(port)], "cannot listen"),
        (["--data-dir", str(up.data_dir), "--port", "0"], "is in use by process"),
    ):
        done = subprocess.run(
            [*CLI, "up", *arguments],
            env=up.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        assert done.returncode == 1
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


def test_second_signal_kills_all_processes(up):
    children = up.children()
    api = up.child("api")
    up.child("workers", "ingest").suspend()  # so that it cannot stop in an orderly way

    up.process.send_signal(signal.SIGINT)
    wait_until(lambda: not api.is_running() or api.status() == psutil.STATUS_ZOMBIE, "the API does not stop")
    assert up.process.poll() is None
    up.process.send_signal(signal.SIGINT)

    assert up.process.wait(timeout=TIMEOUT_SECONDS) == 128 + signal.SIGINT
    assert have_exited(children)
