"""The pods of the rendered chart as processes over the embedded engines.

A pod runs as a kubelet runs it: its init container, its process with the rendered variables and no others, its probes,
SIGTERM, and SIGKILL after its grace period. Deployments are rolled as their controller rolls them, with one pod more.
The names of the engines are mapped to loopback, and the ports of each pod to free ones.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from embedded.ports import free_port
from shared.confined import confinement
from shared.domain.access.database_roles import APP_ROLE, PARSE_ROLE
from shared.settings import Settings
from tests.support.chart import Object, component, environment_of, of_kind, render
from tests.support.deployment import Process, ScriptedProvider, execute
from tests.support.fleet import KEYS, LINKS, Fleet, Proxy, _address, _query
from tests.support.waiting import TIMEOUT_SECONDS, wait_until

SCALE_PASSWORD = "0123456789abcdef"  # noqa: S105 - of a database of the test
# Addresses of the engines in the chart's values, which are mapped to loopback.
NAMES = {"ledger": "postgres.engines:5432", "broker": "valkey.engines:6379", "qdrant": "qdrant.engines:6333"}
_TICK_SECONDS = 0.1
_LOST_LEASES = re.compile(r"^foreask_leases_lost_total\S* (\S+)$", re.MULTILINE)
_START_SECONDS = 180.0


@dataclass
class Pod:
    """A pod of a Deployment; `ports` are its own ports by the container's port."""

    name: str
    component: str
    spec: Object
    ports: dict[int, int] = field(default_factory=lambda: {8350: free_port(), 9350: free_port()})
    process: Process | None = None
    started: bool = False  # its startup probe has succeeded
    ready: bool = False
    terminating: bool = False
    failures: dict[str, int] = field(default_factory=dict)
    probed: dict[str, float] = field(default_factory=dict)

    @property
    def container(self) -> Object:
        return dict(self.spec["containers"][0])


class Endpoints(httpx.BaseTransport):
    """The Service of the API: sends each request to the next ready pod, and records failures."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._transport = httpx.HTTPTransport(limits=httpx.Limits(max_connections=100))
        self._requests = 0
        self.failures: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        pods = [pod for pod in list(self._cluster.pods.values()) if pod.component == "api" and pod.ready]
        if not pods:
            raise httpx.ConnectError("no API is ready")
        self._requests += 1
        pod = pods[self._requests % len(pods)]
        request.url = request.url.copy_with(host="127.0.0.1", port=pod.ports[8350])
        asked = f"{pod.name}: {request.method} {request.url.path}"
        try:
            response = self._transport.handle_request(request)
        except httpx.TransportError as error:
            self.failures.append(f"{asked}: {error!r}")
            raise
        if response.status_code >= 500:
            self.failures.append(f"{asked}: {response.status_code}")
        return response

    def close(self) -> None:
        self._transport.close()


class Cluster(Fleet):
    """The rendered objects as processes; a context manager that starts and stops them.

    Args:
        settings: settings of the scripted provider, and the keys of the API.
        values: more values of the chart.
        prepare: function that is called when the engines run, and before any pod is created.
    """

    def __init__(
        self,
        settings: Settings,
        data_dir: Path,
        values: Mapping[str, Any],
        prepare: Callable[[Cluster], None] = lambda _: None,
    ) -> None:
        super().__init__(settings, data_dir, launch=execute, crew=())
        self.client.close()
        self.service = Endpoints(self)
        self.client = httpx.Client(base_url="http://foreask-api", transport=self.service, timeout=60)
        self.use_key_of("default")
        self.pods: dict[str, Pod] = {}
        self.events: list[str] = []
        self.killed: list[str] = []
        self.crashes: list[str] = []
        self.objects: list[Object] = []
        self._values, self._prepare = values, prepare
        self._numbers = 0
        self._lock = threading.Lock()
        self._probing = threading.Thread(target=self._probe_pods, name="kubelet", daemon=True)

    # Start

    def start(self) -> Self:
        self.stack.start()
        self.proxy = Proxy({link: _address(self._url(variable)) for link, variable in LINKS.items()})
        self.volume.mkdir(parents=True, exist_ok=True)
        self._prepare(self)
        self.objects = render({**self.values(), **self._values})
        self._probing.start()
        with ThreadPoolExecutor(16) as pool:
            starting = [
                pool.submit(self.create, component(each))
                for each in of_kind(self.objects, "Deployment")
                for _ in range(self.least_pods(each))
            ]
            wait_until(lambda: len(self.events) == len(starting), "the init containers did not start")
            assert {event.partition(" ")[0] for event in self.events} == {"waits"}
            self.migrate_schema()
            for each in starting:
                each.result()
        return self

    def values(self) -> dict[str, Any]:
        """Return the chart's values for the embedded engines and the scripted provider."""
        settings = self.stack.settings
        database, broker, qdrant = (self._named(link, self._url(variable)) for link, variable in LINKS.items())
        location = database.rpartition("@")[2]
        assert settings.app_database_password
        assert settings.parse_database_password
        passwords = {
            "APP": settings.app_database_password.get_secret_value(),
            "PARSE": settings.parse_database_password.get_secret_value(),
            "SCALE": SCALE_PASSWORD,
        }
        roles = {"APP": APP_ROLE, "PARSE": PARSE_ROLE, "SCALE": "foreask_scale"}
        secrets = {
            "FOREASK_OWNER_DATABASE_URL": database,
            **{f"FOREASK_{key}_DATABASE_PASSWORD": password for key, password in passwords.items()},
            **{
                f"FOREASK_{key}_DATABASE_URL": f"postgresql://{roles[key]}:{password}@{location}"
                for key, password in passwords.items()
            },
            "FOREASK_REDIS_URL": broker,
            "FOREASK_API_KEYS": ",".join(f"{tenant}:{key}" for tenant, key in KEYS.items()),
            "FOREASK_LLM_API_KEY": "scripted",
            "FOREASK_EMBEDDING_API_KEY": "scripted",
        }
        if settings.qdrant_api_key:
            secrets["FOREASK_QDRANT_API_KEY"] = settings.qdrant_api_key.get_secret_value()
        return {
            "settings": {
                "FOREASK_QDRANT_URL": qdrant,
                "FOREASK_LLM_BASE_URL": settings.llm_url,
                "FOREASK_LLM_MODEL": settings.llm_model,
                "FOREASK_EMBEDDING_BASE_URL": settings.embedding_url,
                "FOREASK_EMBEDDING_MODEL": settings.embedding_model,
                "FOREASK_LLM_MAX_IN_FLIGHT": settings.llm_max_in_flight,
                "FOREASK_QUESTIONS_PER_CHUNK": 2,
                "FOREASK_CALIBRATE": False,  # its embeddings would be counted
                "FOREASK_PARSE_ISOLATION": "allow" if confinement.lacking() else "require",
            },
            "secrets": {"create": True, "values": secrets},
            "store": {"claim": {"existing": "uploads"}},
            "networkPolicy": {"enginePeers": [{"podSelector": {}}]},
            "postgres": {"maxConnections": 500},
        }

    def least_pods(self, deployment: Object) -> int:
        """Return the number of pods of a Deployment: its own, or the minimum of its autoscaler."""
        name = deployment["metadata"]["name"]
        for each in of_kind(self.objects, "ScaledObject", "HorizontalPodAutoscaler"):
            if each["spec"]["scaleTargetRef"]["name"] == name:
                return int(each["spec"].get("minReplicaCount") or each["spec"]["minReplicas"])
        return int(deployment["spec"]["replicas"])

    def migrate_schema(self) -> None:
        """Run the Job, and repeat it after a failure, as its restart policy says."""
        (job,) = of_kind(self.objects, "Job")
        (container,) = job["spec"]["template"]["spec"]["containers"]
        self.events.append("migrates")  # a pod may run before the Job has exited, but not before it has started
        for _ in range(job["spec"]["backoffLimit"]):
            if self._execute("schema-job", container, {}).wait(timeout=TIMEOUT_SECONDS) == 0:
                return
        raise AssertionError(f"the schema was not migrated\n{self.logs()}")

    @property
    def volume(self) -> Path:
        """The folder of the claim, as `/data/uploads` in each pod."""
        return self.data_dir / "image" / "data" / "uploads"

    # Pods

    def create(self, role: str) -> Pod:
        """Create a pod of a role, and wait until it is ready."""
        (deployment,) = [each for each in of_kind(self.objects, "Deployment") if component(each) == role]
        with self._lock:
            self._numbers += 1
            pod = Pod(f"{role}-{self._numbers}", role, deployment["spec"]["template"]["spec"])
        (init,) = pod.spec["initContainers"]
        waiting = self._execute(f"{pod.name}-wait", init, pod.ports)
        self.events.append(f"waits {pod.name}")
        while waiting.wait(timeout=TIMEOUT_SECONDS) != 0:  # a kubelet restarts it
            waiting = self._execute(f"{pod.name}-wait", init, pod.ports)
        self.events.append(f"runs {pod.name}")
        pod.process = self._execute(pod.name, pod.container, pod.ports)
        self.pods[pod.name] = pod
        wait_until(lambda: pod.ready, f"{pod.name} is not ready\n{self.log(pod.name)}", timeout=_START_SECONDS)
        return pod

    def replace_pod(self, name: str) -> None:
        """Replace a pod: create another one, and when that is ready, end this one."""
        self.create(self.pods[name].component)
        self.end_pod(name)

    def end_pod(self, name: str) -> None:
        """Send SIGTERM, and SIGKILL after the grace period."""
        pod = self.pods[name]
        assert pod.process is not None
        pod.terminating = True
        pod.process.send_signal(signal.SIGTERM)
        try:
            pod.process.wait(timeout=pod.spec["terminationGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            self.killed.append(name)
            pod.process.kill()
            pod.process.wait()
        del self.pods[name]

    def scale(self, role: str) -> int:
        """Run as many pods of a role as its ScaledObject asks for; return the number."""
        (scaled,) = [each for each in of_kind(self.objects, "ScaledObject") if component(each) == role]
        spec = scaled["spec"]
        (trigger,) = spec["triggers"]
        (secret,) = of_kind(self.objects, "Secret")
        url = base64.b64decode(secret["data"]["FOREASK_SCALE_DATABASE_URL"]).decode()
        wanted = self._ask(self._mapped(url), trigger["metadata"]["query"])
        number = min(max(wanted, spec["minReplicaCount"]), spec["maxReplicaCount"])
        names = [name for name, pod in self.pods.items() if pod.component == role]
        for _ in range(number - len(names)):
            self.create(role)
        for name in names[number:]:
            self.end_pod(name)
        return number

    def lost_leases(self) -> float:
        """Return the number of lost leases that the processes have counted."""
        lost = 0.0
        for pod in list(self.pods.values()):
            text = httpx.get(f"http://127.0.0.1:{pod.ports[9350]}/metrics", trust_env=False, timeout=60).text
            lost += sum(float(value) for value in _LOST_LEASES.findall(text))
        return lost

    def _ask(self, url: str, query: str) -> int:
        (row,) = asyncio.run(_query(url, query))
        (value,) = row.values()
        return int(value)

    def _execute(self, name: str, container: Object, ports: Mapping[int, int]) -> Process:
        """Run a container's command with its rendered variables and no others."""
        secrets = {
            each["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in each["data"].items()}
            for each in of_kind(self.objects, "Secret")
        }
        temporary = self.data_dir / "tmp" / name
        temporary.mkdir(parents=True, exist_ok=True)
        image = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH", "LANG")}
        image |= {"HOME": str(self.volume.parent), "TMPDIR": str(temporary)}
        variables = {key: self._mapped(value) for key, value in environment_of(container, secrets).items()}
        own = {"FOREASK_DATA_DIR": str(self.volume.parent)} if "FOREASK_DATA_DIR" in variables else {}
        for variable in ("FOREASK_API_PORT", "FOREASK_METRICS_PORT"):
            if variable in variables:
                own[variable] = str(ports[int(variables[variable])])
        log = self.data_dir / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        process = execute([sys.executable, "-m", "cli", *container["args"]], {**image, **variables, **own}, log)
        self.processes[name] = process
        return process

    def _named(self, link: str, url: str) -> str:
        return url.replace(_address(url), NAMES[link])

    def _mapped(self, value: str) -> str:
        assert self.proxy is not None
        for link, name in NAMES.items():
            value = value.replace(name, f"127.0.0.1:{self.proxy.ports[link]}")
        return value

    # Probes

    def _probe_pods(self) -> None:
        with httpx.Client(trust_env=False) as client:
            while not self._ending.wait(_TICK_SECONDS):
                for pod in list(self.pods.values()):
                    self._probe_pod(client, pod)

    def _probe_pod(self, client: httpx.Client, pod: Pod) -> None:
        assert pod.process is not None
        if pod.process.poll() is not None:
            pod.ready = False
            if not pod.terminating:
                self.crashes.append(f"{pod.name} exited with {pod.process.returncode}")
                pod.terminating = True  # its exit is recorded once
            return
        if not pod.started:
            pod.started = self._probe(client, pod, "startupProbe") is True
            pod.ready = pod.started and "readinessProbe" not in pod.container
            return
        self._probe(client, pod, "livenessProbe")
        if "readinessProbe" in pod.container:
            result = self._probe(client, pod, "readinessProbe")
            pod.ready = pod.ready if result is None else result
            if pod.terminating and pod.failures.get("readinessProbe"):
                pod.ready = False  # a Service leaves out a pod that is deleted, some time after its deletion

    def _probe(self, client: httpx.Client, pod: Pod, kind: str) -> bool | None:
        """Run a probe if it is due; return its state if that is certain now."""
        probe = pod.container[kind]
        now = time.monotonic()
        if now < pod.probed.get(kind, 0.0) + probe["periodSeconds"]:
            return None
        pod.probed[kind] = now
        ports = {each["name"]: pod.ports[each["containerPort"]] for each in pod.container["ports"]}
        url = f"http://127.0.0.1:{ports[probe['httpGet']['port']]}{probe['httpGet']['path']}"
        with suppress(httpx.HTTPError):
            if client.get(url, timeout=probe["timeoutSeconds"]).status_code < 400:
                pod.failures[kind] = 0
                return True
        pod.failures[kind] = pod.failures.get(kind, 0) + 1
        if pod.failures[kind] < probe["failureThreshold"]:
            return None
        if kind == "livenessProbe" and not pod.terminating:
            self.crashes.append(f"{pod.name} is not alive")
        return False

    # A deployment of the fault suite

    def recover(self) -> None:
        """Do nothing: pods are replaced by the controllers."""

    def stop(self) -> None:
        self._ending.set()
        if self._probing.ident:
            self._probing.join()
        super().stop()


def cluster_settings(provider: ScriptedProvider) -> Settings:
    return provider.settings(llm_max_in_flight=4)
