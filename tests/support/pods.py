"""Pods of the rendered chart as containers, with the settings that a kubelet would apply to them.

`podman kube play` is the rejected alternative: it runs HTTP probes as `curl` in the container, which our image lacks.

Differences from a node: network policies do not exist, each `subPath` of a volume is a volume of its own, and the size
of a volume on disk is not enforced, because a kubelet evicts pods that exceed it.
"""

from __future__ import annotations

import base64
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import httpx

from tests.support.chart import NAMESPACE, Object, environment_of, of_kind, pods_of
from tests.support.chart_rules import matches, quantity
from tests.support.containers import run
from tests.support.deployment import ROOT

PROJECT = "foreask-chart-test"
KILLED = 128 + 9  # exit code after SIGKILL
_LABEL = f"project={PROJECT}"
_INIT = "-init"  # follows the pod's name
_CPU_SHARES = 1024  # of one CPU
# Fields that are applied, or that concern the scheduler, the registry and the API server only. An unknown field fails.
_SPEC = {
    *("containers", "initContainers", "securityContext", "terminationGracePeriodSeconds", "volumes"),
    *("affinity", "imagePullSecrets", "restartPolicy", "topologySpreadConstraints"),
    *("automountServiceAccountToken", "enableServiceLinks", "serviceAccountName"),
}
_CONTAINER = {
    *("args", "command", "env", "envFrom", "image", "imagePullPolicy", "name", "ports"),
    *("livenessProbe", "readinessProbe", "startupProbe", "resources", "securityContext", "volumeMounts"),
}
_SECURITY = {
    *("allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem", "seccompProfile"),
    *("fsGroup", "fsGroupChangePolicy", "runAsGroup", "runAsNonRoot", "runAsUser"),
}


@dataclass(frozen=True)
class Pod:
    """A pod of a Deployment, of a Job or of `helm test`.

    Args:
        name: name of the object that has the pod.
        spec: rendered specification.
        aliases: names by which Services reach the pod.
        secrets: values of the Secrets by name and key.
    """

    name: str
    spec: Object
    aliases: tuple[str, ...]
    secrets: Mapping[str, Mapping[str, str]]

    @property
    def container(self) -> Object:
        (container,) = self.spec["containers"]
        return dict(container)

    @property
    def grace_seconds(self) -> int:
        return int(self.spec.get("terminationGracePeriodSeconds", 30))

    @property
    def security(self) -> Object:
        """The security context of the container, which precedes the context of the pod."""
        return {**self.spec.get("securityContext", {}), **self.container.get("securityContext", {})}

    @property
    def paths(self) -> list[str]:
        """The folders that are volumes."""
        return [mount["mountPath"] for mount in self.container.get("volumeMounts", [])]

    def port(self, name: str) -> int:
        (number,) = [each["containerPort"] for each in self.container["ports"] if each["name"] == name]
        return int(number)


def rendered_pods(objects: Sequence[Object]) -> dict[str, Pod]:
    """Return the pods of the rendered objects by kind and name, such as `Deployment/foreask-api`."""
    secrets = {
        each["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in each["data"].items()}
        for each in of_kind(objects, "Secret")
    }
    return {
        name: Pod(name.partition("/")[2], pod["spec"], tuple(_aliases(objects, pod)), secrets)
        for name, pod in pods_of(objects).items()
    }


def _aliases(objects: Iterable[Object], pod: Object) -> Iterator[str]:
    for service in of_kind(objects, "Service"):
        if not matches({"matchLabels": service["spec"]["selector"]}, pod["metadata"].get("labels", {})):
            continue
        (container,) = pod["spec"]["containers"]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        for each in service["spec"]["ports"]:  # an alias cannot map ports
            assert ports[each["targetPort"]] == each["port"], f"{service['metadata']['name']} maps a port"
        name = service["metadata"]["name"]
        yield from (name, f"{name}.{NAMESPACE}.svc")


# A container as arguments of the engine's command


@dataclass(frozen=True)
class Mount:
    """A folder of a container.

    Args:
        path: location in the container.
        group: group of the folder, which may write.
        volume: name of the engine's volume; empty for a folder in memory.
        size_bytes: size of a folder in memory.
        mode: permissions of the folder.
    """

    path: str
    group: int
    volume: str
    size_bytes: int
    mode: str

    @property
    def options(self) -> list[str]:
        if self.volume:
            # A kubelet never copies files of the image into a volume, but a container engine would.
            return ["--mount", f"type=volume,source={self.volume},target={self.path},volume-nocopy"]
        return ["--tmpfs", f"{self.path}:rw,exec,size={self.size_bytes},mode={self.mode},gid={self.group}"]


def mounts(pod: Pod, container: Object) -> list[Mount]:
    """Return the mounts of a container."""
    volumes = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
    return [_mount(pod, volumes[each["name"]], each) for each in container.get("volumeMounts", [])]


def _mount(pod: Pod, volume: Object, mounted: Object) -> Mount:
    path, group = mounted["mountPath"], int(pod.spec["securityContext"]["fsGroup"])
    if "persistentVolumeClaim" in volume:
        return Mount(path, group, f"{PROJECT}-{volume['persistentVolumeClaim']['claimName']}", 0, "2775")
    size = int(quantity(volume["emptyDir"]["sizeLimit"]))
    if volume["emptyDir"].get("medium") == "Memory":
        return Mount(path, group, "", size, "2777")
    folder = "-".join(filter(None, (PROJECT, pod.name, volume["name"], mounted.get("subPath"))))
    return Mount(path, group, folder, size, "2777")


def arguments(pod: Pod, container: Object) -> list[str]:
    """Return a container's options, image and command as arguments of `docker run`.

    Raises:
        AssertionError: the specification has a field that is not applied, or a kubelet would refuse it.
    """
    for known, fields in ((_SPEC, pod.spec), (_CONTAINER, container)):
        assert fields.keys() <= known, f"{pod.name}: {sorted(fields.keys() - known)} is not applied"
    command = [*container.get("command", []), *container.get("args", [])]
    assert not any("$(" in word for word in command), f"{pod.name}: variables in a command are not expanded"
    options = [*_security(pod, container), *_limits(container)]
    for mount in mounts(pod, container):
        options += mount.options
    for name, value in environment_of(container, pod.secrets).items():
        options += ["--env", f"{name}={value}"]
    for port in container.get("ports", []):  # so that probes and the test reach it
        options += ["--publish", f"127.0.0.1::{port['containerPort']}"]
    if "command" in container:
        options += ["--entrypoint", command.pop(0)]
    return [*options, container["image"], *command]


def _security(pod: Pod, container: Object) -> list[str]:
    context = {**pod.spec.get("securityContext", {}), **container.get("securityContext", {})}
    assert context.keys() <= _SECURITY, f"{pod.name}: {sorted(context.keys() - _SECURITY)} is not applied"
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}, context  # the engine's default, too
    user, group = context["runAsUser"], context["runAsGroup"]
    assert user or not context.get("runAsNonRoot"), f"{pod.name}: a kubelet would refuse root"
    options = ["--user", f"{user}:{group}", "--group-add", str(context["fsGroup"])]
    if context.get("readOnlyRootFilesystem"):
        options += ["--read-only"]
    if context.get("allowPrivilegeEscalation") is False:
        options += ["--security-opt", "no-new-privileges"]
    capabilities = context.get("capabilities", {})
    for name in capabilities.get("drop", []):
        options += ["--cap-drop", name]
    for name in capabilities.get("add", []):
        options += ["--cap-add", name]
    return options


def _limits(container: Object) -> list[str]:
    resources = container.get("resources", {})
    limits, requests, options = resources.get("limits", {}), resources.get("requests", {}), list[str]()
    if "memory" in limits:
        size = str(int(quantity(limits["memory"])))
        options += ["--memory", size, "--memory-swap", size]  # nodes have no swap
    if "cpu" in limits:
        options += ["--cpus", str(float(quantity(limits["cpu"])))]
    if "cpu" in requests:
        options += ["--cpu-shares", str(max(2, int(quantity(requests["cpu"]) * _CPU_SHARES)))]
    return options


# Running pods


class Node:
    """A network of pods in a container engine; a context manager that removes containers and volumes at the end.

    Args:
        engine: command of the container engine.
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._prepared: set[str] = set()
        self._http = httpx.Client(trust_env=False)

    def __enter__(self) -> Self:
        self._remove()  # of a run that was killed
        self.command("network", "create", "--label", _LABEL, PROJECT)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error:
            for name in self._containers("--all"):
                done = self.attempt("logs", "--tail", "50", name)
                print(f"{name}:\n{done.stdout}{done.stderr}", flush=True)
        self._http.close()
        self._remove()

    def command(self, *arguments: str) -> str:
        """Run a command of the container engine."""
        return run([self._engine, *arguments])

    def attempt(self, *arguments: str, timeout_seconds: float | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the container engine, which may fail."""
        return subprocess.run(
            [self._engine, *arguments], check=False, capture_output=True, text=True, timeout=timeout_seconds
        )

    def build(self, image: str) -> None:
        """Build the image of this tree."""
        command = [self._engine, "build", "--tag", image, str(ROOT)]
        environment = {**os.environ, "DOCKER_BUILDKIT": "1"}  # the Dockerfile has a cache mount
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def prepare(self, pods: Iterable[Pod]) -> None:
        """Create the volumes of pods as a kubelet does: owned by root, writable by the group of the pod."""
        for pod in pods:
            for mount in mounts(pod, pod.container):
                if mount.volume and mount.volume not in self._prepared:
                    self._prepared.add(mount.volume)
                    self.command("volume", "create", "--label", _LABEL, mount.volume)
                    self._set_group(pod.container["image"], mount)

    def _set_group(self, image: str, mount: Mount) -> None:
        script = f"chown 0:{mount.group} /volume && chmod {mount.mode} /volume"
        volume = f"{mount.volume}:/volume"  # no image has this folder, so nothing is copied into the volume
        self.command(
            *("run", "--rm", "--user", "0", "--volume", volume, "--entrypoint", "sh", image, "-c", script),
        )

    def run_provider(self, image: str) -> None:
        """Start the scripted provider as `http://provider:8080`."""
        self.command(
            *("run", "--detach", "--label", _LABEL, "--name", f"{PROJECT}-provider"),
            *("--network", PROJECT, "--network-alias", "provider"),
            *("--volume", f"{ROOT / 'tests/support'}:/src/tests/support:ro", "--workdir", "/src"),
            *("--entrypoint", "python", image, "-m", "tests.support.provider", "--host", "0.0.0.0", "--port", "8080"),
        )

    def start_init_container(self, pod: Pod) -> None:
        (container,) = pod.spec["initContainers"]
        self.command("run", "--detach", *self._identity(pod, _INIT), *arguments(pod, container))

    def finish_init_container(self, pod: Pod) -> None:
        """Wait until the init container has exited with 0, and remove it."""
        name = _name(pod) + _INIT
        code = self.command("wait", name).strip()
        assert code == "0", f"{name} exited with {code}"
        self.command("rm", name)

    def start(self, pod: Pod) -> None:
        """Start the main container of a pod."""
        self.command("run", "--detach", *self._identity(pod), *arguments(pod, pod.container))

    def finish(self, pod: Pod) -> subprocess.CompletedProcess[str]:
        """Run the main container of a pod until it exits."""
        return self.attempt("run", "--rm", *self._identity(pod), *arguments(pod, pod.container))

    def _identity(self, pod: Pod, suffix: str = "") -> list[str]:
        name = f"{PROJECT}-{pod.name}{suffix}"
        options = ["--label", _LABEL, "--name", name, "--hostname", pod.name, "--network", PROJECT]
        aliases = () if suffix else pod.aliases
        return options + [word for alias in aliases for word in ("--network-alias", alias)]

    def running(self) -> set[str]:
        """Return the names of the running containers: of a pod, of the provider, or of a pod with `-init`."""
        return {name.removeprefix(f"{PROJECT}-") for name in self._containers()}

    def _containers(self, *options: str) -> list[str]:
        format_ = ("--format", "{{.Names}}")
        return sorted(self.command("ps", *options, "--filter", f"label={_LABEL}", *format_).split())

    def inside(self, pod: Pod, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the main container of a pod."""
        return self.attempt("exec", _name(pod), *command)

    def state(self, pod: Pod, template: str) -> str:
        """Return the state of the main container of a pod, by a template of `inspect`."""
        return self.command("inspect", "--format", template, _name(pod)).strip()

    def logs(self, pod: Pod) -> str:
        done = self.attempt("logs", "--tail", "100", _name(pod))
        return f"{pod.name}:\n{done.stdout}{done.stderr}"

    def memory(self) -> str:
        """Return a line with the memory and the limit of each running container."""
        return self.command("stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}", *self._containers())

    def stop(self, pod: Pod) -> int:
        """Send the signal that stops a pod, and SIGKILL after its grace period; return its exit code."""
        self.command("stop", "--time", str(pod.grace_seconds), _name(pod))
        return int(self.state(pod, "{{.State.ExitCode}}"))

    def url(self, pod: Pod, port: str) -> str:
        """Return the URL of a named port of a pod."""
        published = self.command("port", _name(pod), f"{pod.port(port)}/tcp").split()[0]
        return f"http://{published}"

    # Probes

    def succeeds(self, pod: Pod, kind: str) -> bool:
        """Run a probe once."""
        probe = pod.container[kind]
        timeout = probe.get("timeoutSeconds", 1)
        try:
            if "exec" in probe:
                command = ("exec", _name(pod), *probe["exec"]["command"])
                return self.attempt(*command, timeout_seconds=timeout).returncode == 0
            path, port = probe["httpGet"]["path"], probe["httpGet"]["port"]
            return self._http.get(self.url(pod, port) + path, timeout=timeout).status_code < 400
        except (httpx.HTTPError, subprocess.TimeoutExpired):
            return False

    def await_startup(self, pod: Pod) -> None:
        """Run the startup probe until it succeeds, at most as often as a kubelet would."""
        probe = pod.container["startupProbe"]
        for _ in range(probe.get("failureThreshold", 3)):
            assert self.state(pod, "{{.State.Running}}") == "true", f"exited: {self.logs(pod)}"
            if self.succeeds(pod, "startupProbe"):
                return
            time.sleep(probe.get("periodSeconds", 10))
        raise AssertionError(f"the startup probe failed: {self.logs(pod)}")

    def is_alive(self, pod: Pod) -> bool:
        """Return whether a kubelet would leave the pod running: one of its liveness probes in a row succeeds."""
        attempts = pod.container["livenessProbe"].get("failureThreshold", 3)
        return any(self.succeeds(pod, "livenessProbe") for _ in range(attempts))

    def _remove(self) -> None:
        found = ("--quiet", "--filter", f"label={_LABEL}")
        for listing, removal in (
            (("ps", "--all", *found), ("rm", "--force", "--volumes")),
            (("volume", "ls", *found), ("volume", "rm", "--force")),
            (("network", "ls", *found), ("network", "rm")),
        ):
            if ids := self.command(*listing).split():
                self.command(*removal, *ids)


def _name(pod: Pod) -> str:
    return f"{PROJECT}-{pod.name}"
