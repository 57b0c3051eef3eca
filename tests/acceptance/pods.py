"""`make chart-test`: the pods of the rendered chart in real containers, used, inspected and stopped.

The values are `ci/try.yaml`, so one pod of each engine runs as well. Each pod has its own security context, limits,
volumes and probes. Network policies, nodes and volumes of several nodes need a cluster.

Without a container engine it runs tests/faults/test_chart_pods.py instead, where the pods are processes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.domain.access.database_roles import APP_ROLE, PARSE_ROLE
from tests.acceptance.containers import use
from tests.support.chart import RELEASE, render, values_of
from tests.support.chart_rules import PROCESSES
from tests.support.containers import ENGINES, Api, engine, eventually, say
from tests.support.deployment import ROOT
from tests.support.pods import KILLED, Node, Pod, rendered_pods

IMAGE, TAG = "foreask", "chart-test"
ENGINE_PODS = ("postgres", "valkey", "qdrant")
READ_ONLY = ("/", "/etc", "/opt/foreask", "/data", "/data/uploads")  # without the folders that are volumes
QUESTION = {"question": "How many days of leave are there?"}


def values(isolation: str) -> dict[str, Any]:
    """Return the values of a first try, with the image of this tree and the scripted provider."""
    return {
        **values_of("try"),
        "image": {"repository": IMAGE, "tag": TAG},
        "settings": {
            "FOREASK_LLM_BASE_URL": "http://provider:8080/v1",
            "FOREASK_LLM_MODEL": "scripted",
            "FOREASK_EMBEDDING_MODEL": "scripted-embedding",
            "FOREASK_PARSE_ISOLATION": isolation,
        },
        "secrets": {"values": {"FOREASK_LLM_API_KEY": "scripted"}},
    }


def deployed(pods: Mapping[str, Pod], names: Iterable[str]) -> list[Pod]:
    return [pods[f"Deployment/{RELEASE}-{name}"] for name in names]


def isolation(node: Node) -> str:
    """Run the pod of `helm test` that reports on isolation; return the setting that this machine allows."""
    done = node.finish(rendered_pods(render(values("require")))[f"Pod/{RELEASE}-test-isolation"])
    assert done.stdout, done.stderr  # it has not reported
    say(f"isolation: {done.stdout.strip()}")
    return "allow" if done.returncode else "require"


def start_engines(node: Node, pods: Sequence[Pod]) -> None:
    for pod in pods:
        node.start(pod)
    for pod in pods:
        await_started(node, pod)


def start_processes(node: Node, pods: Sequence[Pod], job: Pod, database: Pod) -> None:
    """Start the init containers, the schema Job, for which they wait, and then the processes."""
    for pod in pods:
        node.start_init_container(pod)
    eventually("all init containers wait for the schema", lambda: schema_is_awaited(node, pods, database))
    done = node.finish(job)
    assert done.returncode == 0, done.stdout + done.stderr
    say("the Job has updated the schema")
    for pod in pods:
        node.finish_init_container(pod)
        node.start(pod)
    for pod in pods:
        await_started(node, pod)


def schema_is_awaited(node: Node, pods: Sequence[Pod], database: Pod) -> bool:
    """Return whether PostgreSQL has refused the roles of the pods, which the Job will create.

    Raises:
        AssertionError: an init container has exited.
    """
    exited = {f"{pod.name}-init" for pod in pods} - node.running()
    assert not exited, f"these did not wait for the schema: {sorted(exited)}"
    log = node.logs(database)
    return all(f'user "{role}"' in log for role in (APP_ROLE, PARSE_ROLE))


def await_started(node: Node, pod: Pod) -> None:
    node.await_startup(pod)
    if "readinessProbe" in pod.container:
        eventually(f"{pod.name} is ready", lambda: node.succeeds(pod, "readinessProbe"))
    say(f"{pod.name} is started")


def check_confinement(node: Node, pod: Pod) -> None:
    """Check the user, capabilities and file systems of a pod from its inside."""
    status = dict(line.partition(":")[::2] for line in node.inside(pod, "cat", "/proc/1/status").stdout.splitlines())
    user, group = str(pod.security["runAsUser"]), str(pod.security["runAsGroup"])
    assert user != "0"
    assert status["Uid"].split() == [user] * 4, f"{pod.name}: {status['Uid']}"
    assert status["Gid"].split() == [group] * 4, f"{pod.name}: {status['Gid']}"
    assert str(pod.security["fsGroup"]) in {group, *status["Groups"].split()}, pod.name
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[capabilities], 16) == 0, f"{pod.name}: {capabilities}"
    assert status["NoNewPrivs"].strip() == "1", pod.name
    assert status["Seccomp"].strip() == "2", f"{pod.name} has no seccomp filter"
    check_files(node, pod)
    say(f"{pod.name}: user {user}, no capabilities, seccomp filter, read-only root")


def check_files(node: Node, pod: Pod) -> None:
    """Check that files can be created in the volumes of a pod and nowhere else."""
    for path in pod.paths:
        written = node.inside(pod, "sh", "-c", 'touch "$0/.written" && rm "$0/.written"', path)
        assert written.returncode == 0, f"{pod.name}: {path}: {written.stderr}"
    for path in set(READ_ONLY) - set(pod.paths):
        if node.inside(pod, "test", "-d", path).returncode == 0:
            refused = node.inside(pod, "touch", f"{path}/.written")
            assert refused.returncode != 0, f"{pod.name}: a file was created in {path}"
            assert "Read-only file system" in refused.stderr, f"{pod.name}: {path}: {refused.stderr}"


def use_api(node: Node, pods: Mapping[str, Pod]) -> None:
    """Upload three documents with the key in the Secret, and ask for an answer with a citation."""
    (pod,) = deployed(pods, ["api"])
    api = Api(node.url(pod, "http"), pod.secrets[RELEASE]["API_KEY"])
    with api.client:
        use(api)
        reply = api.client.post("/v1/query", json=QUESTION).raise_for_status().json()
    cited = [citation["external_id"] for citation in reply["citations"]]
    assert cited, reply
    say(f"an answer cites {cited}")
    done = node.finish(pods[f"Pod/{RELEASE}-test-ready"])
    assert done.returncode == 0, done.stdout + done.stderr
    say(f"helm test: {done.stdout.strip()}")


def check_health(node: Node, pods: Iterable[Pod]) -> None:
    for pod in pods:
        assert node.is_alive(pod), f"not alive: {node.logs(pod)}"
        assert node.state(pod, "{{.State.OOMKilled}}") == "false", f"{pod.name} exceeded its memory"
    print(node.memory(), end="", flush=True)


def check_logs(node: Node, processes: Iterable[Pod]) -> None:
    """Check that no library warns of the user or the file systems of a pod."""
    for pod in processes:
        log = node.logs(pod)
        assert "Warning: " not in log, log


def stop(node: Node, pod: Pod) -> None:
    """Stop a pod: one of foreask must exit with 0, and one of an engine before it is killed."""
    started = time.monotonic()
    code = node.stop(pod)
    say(f"{pod.name} exited with {code} after {time.monotonic() - started:.1f} of {pod.grace_seconds} s")
    assert code != KILLED, f"killed: {node.logs(pod)}"
    assert node.state(pod, "{{.State.OOMKilled}}") == "false", f"{pod.name} exceeded its memory"
    assert code == 0 or pod.name in {f"{RELEASE}-{name}" for name in ENGINE_PODS}, node.logs(pod)


def run_pods(node: Node) -> int:
    """Run every pod of the chart; return their number."""
    image = f"{IMAGE}:{TAG}"
    node.build(image)
    pods = rendered_pods(render(values(isolation(node))))
    (job,) = [pod for name, pod in pods.items() if name.startswith("Job/")]
    engines, processes = deployed(pods, ENGINE_PODS), deployed(pods, PROCESSES)
    node.prepare([*engines, *processes])
    node.run_provider(image)
    start_engines(node, engines)
    start_processes(node, processes, job, pods[f"Deployment/{RELEASE}-postgres"])
    for pod in (*engines, *processes):
        check_confinement(node, pod)
    use_api(node, pods)
    check_health(node, [*engines, *processes])
    check_logs(node, processes)
    for pod in (*processes, *engines):
        stop(node, pod)
    return len(pods)


def main() -> int:
    available = engine()
    if available is None:
        print(f"No container engine ({', '.join(ENGINES)}) answers, so no container was started.")
        command = [sys.executable, "-m", "pytest", "tests/faults/test_chart_pods.py"]
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    started = time.monotonic()
    with Node(available) as node:
        number = run_pods(node)
    print(f"done in {time.monotonic() - started:.0f} s: {number} pods")
    return 0


if __name__ == "__main__":
    sys.exit(main())
