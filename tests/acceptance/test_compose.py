"""docker-compose.yml by its own commands: the same processes here, over the embedded engines."""

import re
import sys
from contextlib import contextmanager

import pytest
import yaml

from bench.deployment import ROOT, Deployment

COMPOSE = (ROOT / "docker-compose.yml").read_text()
SERVICES = yaml.safe_load(COMPOSE)["services"]
ENGINES = ("postgres", "valkey", "qdrant")
WORKERS = ("worker-parse", "worker-generate", "worker-index", "scheduler")
LEAVE = (
    "# Leave\n\nEverybody has thirty days of leave a year.\n\n# Travel\n\nTrains are booked by the office in Bergen.\n"
)


class Composed(Deployment):
    """The services of docker-compose.yml as local processes."""

    def start(self):
        self.stack.start()
        assert self.service("migrate").wait() == 0
        for name in ("api", *WORKERS):
            self.service(name)
        self._wait_for_api()
        return self

    def service(self, name, number=1):
        # What the image's entry point is to a service's command, `python -m cli` is here.
        return self.run(f"{name}-{number}", [sys.executable, "-m", "cli", *SERVICES[name]["command"]])

    @contextmanager
    def alive(self):
        yield
        ended = {name: process.poll() for name, process in self.processes.items() if not name.startswith("migrate")}
        assert not any(code is not None for code in ended.values()), (ended, self.logs())


@pytest.fixture(scope="module")
def deployment(provider_process, tmp_path_factory):
    with Composed(provider_process.settings(), tmp_path_factory.mktemp("composed")) as composed:
        yield composed


@pytest.fixture
def composed(deployment, provider):
    """The services at work, none of which may end."""
    with deployment.alive():
        yield deployment


def test_a_document_becomes_ready_by_the_commands_of_compose(composed):
    accepted = composed.client.post("/v1/documents", files={"file": ("leave.md", LEAVE.encode())})
    assert accepted.status_code == 202

    (document,) = composed.wait_until_settled(1)

    assert document["state"] == "ready"
    found = composed.client.post("/v1/retrieve", json={"question": "How many days of leave are there?"}).json()
    assert "thirty days" in found["chunks"][0]["text"]


def test_two_ask_workers_share_the_work_and_pay_once(composed, provider):
    texts = {f"report-{n}.md": f"# Report {n}\n\nThe number of report {n} is {n * n}." for n in range(60)}
    composed.service("worker-generate", 2)
    provider.script(latency_seconds=0.2)
    composed.ingest(texts, "reports")

    documents = composed.wait_until_settled(len(texts), "reports")

    assert {document["state"] for document in documents} == {"ready"}
    assert provider.stats()["paid_twice"] == 0


def test_workers_can_be_scaled():
    for name in WORKERS:
        assert "container_name" not in SERVICES[name]
        assert "ports" not in SERVICES[name]


def test_every_service_comes_back_after_a_crash_and_waits_for_its_engines():
    for name, service in SERVICES.items():
        assert service["restart"] in (("on-failure:5",) if name == "migrate" else ("unless-stopped",))
        if name in ENGINES:
            assert "healthcheck" in service
            assert service["volumes"]
        elif name != "migrate":
            assert service["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
            assert all(service["depends_on"][engine] == {"condition": "service_healthy"} for engine in ENGINES)


def test_the_broker_keeps_what_it_is_given():
    command = SERVICES["valkey"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


def test_no_secret_has_a_usable_default():
    secrets = re.findall(r"\$\{(\w*(?:PASSWORD|KEYS?))([^}]*)\}", COMPOSE)
    names = {name for name, _ in secrets}
    assert names == {"POSTGRES_PASSWORD", "VALKEY_PASSWORD", "QDRANT_API_KEY", "FOREASK_API_KEYS"}
    assert all(rest.startswith(":?") for _, rest in secrets)


def test_the_api_alone_is_published_and_to_this_machine_alone():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"api": ["${FOREASK_PUBLISH:-127.0.0.1}:${FOREASK_PORT:-8350}:8350"]}


def test_uploads_are_shared_by_those_who_need_them():
    for name in ("api", "worker-parse", "worker-index", "scheduler"):
        assert "uploads:/data/uploads" in SERVICES[name]["volumes"]
        assert SERVICES[name]["environment"]["FOREASK_DATA_DIR"] == "/data"


def test_every_variable_that_compose_demands_is_in_the_example():
    named = {line.partition("=")[0].lstrip("#") for line in (ROOT / ".env.example").read_text().splitlines()}
    assert set(re.findall(r"\$\{(\w+)", COMPOSE)) <= named


def test_the_image_holds_the_packages_that_servers_import():
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE))
    assert copied == {"api", "cli", "shared", "workers"}
    assert copied <= set(re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert "USER foreask" in dockerfile
    assert re.search(r"pip install .* \. ", dockerfile)  # no extra
