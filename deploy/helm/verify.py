"""Verify the chart on a real API server: `python deploy/helm/verify.py --kubeconfig FILE [--values FILE] [--wait]`.

In a namespace of its own, which enforces the `restricted` Pod Security Standard and has a quota, it

1. applies every rendered object as a dry run on the server, with strict fields, and reports errors and warnings;
2. installs the chart, or the previous one if `--previous` names it, and upgrades to this chart with another image tag;
3. checks that the schema Job was replaced, and that its pods are admitted;
4. rolls back, and uninstalls.

An API server without nodes is sufficient. With nodes, `--wait` also waits until all pods are ready, and runs the tests
of the chart. With `--break-schema` it then upgrades to an image that does not exist, and checks that the previous pods
stay ready. The exit code is 1 if a step fails. It needs the packages helm-python-sdk, httpx and pyyaml.
"""

from __future__ import annotations

import argparse
import base64
import json
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml
from httpx import codes

CHART = Path(__file__).resolve().parent / "foreask"
RELEASE = "foreask"
_MANAGER = "foreask-verify"
_POLL_SECONDS, _STABLE_SECONDS = 1.0, 60.0
Object = dict[str, Any]


class Cluster:
    """A client of the API server that a kubeconfig names."""

    def __init__(self, kubeconfig: Mapping[str, Any], folder: Path) -> None:
        def named(kind: str, name: str) -> Mapping[str, Any]:
            (found,) = [each for each in kubeconfig[f"{kind}s"] if each["name"] == name]
            return dict(found[kind])

        context = named("context", kubeconfig["current-context"])
        cluster, user = named("cluster", context["cluster"]), named("user", context["user"])
        if "exec" in user:  # a program of the cloud
            sys.exit("This kubeconfig has neither a token nor a certificate: write one with `kubectl create token`.")
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._client = httpx.Client(
            base_url=cluster["server"],
            headers=headers,
            verify=_trust(cluster, user, folder),
            trust_env=False,
            timeout=60,
        )
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def path_of(self, each: Object) -> str:
        """Return the address of an object.

        Raises:
            LookupError: the server does not know the object's kind.
        """
        group = each["apiVersion"]
        root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
        if (group, each["kind"]) not in self._plurals:
            reply = self._client.get(root)
            for resource in reply.json()["resources"] if reply.is_success else []:
                if "/" not in resource["name"]:
                    self._plurals[group, resource["kind"]] = resource["name"], resource["namespaced"]
        if (group, each["kind"]) not in self._plurals:
            raise LookupError(f"the server has no {each['kind']} of {group}")
        plural, namespaced = self._plurals[group, each["kind"]]
        scope = f"/namespaces/{each['metadata']['namespace']}" if namespaced else ""
        return f"{root}{scope}/{plural}/{each['metadata']['name']}"

    def apply(self, each: Object, *, dry_run: bool) -> tuple[str, list[str]]:
        """Apply an object on the server; return the error, empty if there is none, and the warnings."""
        parameters = {"fieldManager": _MANAGER, "fieldValidation": "Strict", "force": "true"}
        if dry_run:
            parameters["dryRun"] = "All"
        try:
            path = self.path_of(each)
        except LookupError as error:
            return str(error), []
        headers = {"Content-Type": "application/apply-patch+yaml"}
        reply = self._client.patch(path, params=parameters, headers=headers, content=json.dumps(each))
        error = "" if reply.is_success else str(reply.json().get("message", reply.text))
        return error, reply.headers.get_list("warning")

    def get(self, path: str) -> Object | None:
        reply = self._client.get(path)
        return dict(reply.raise_for_status().json()) if reply.status_code != codes.NOT_FOUND else None

    def delete(self, path: str) -> None:
        self._client.delete(path)

    def jobs(self, namespace: str) -> set[str]:
        """Return the names of the schema Jobs."""
        found = self.get(f"/apis/batch/v1/namespaces/{namespace}/jobs") or {"items": []}
        return {each["metadata"]["name"] for each in found["items"]}

    def ready(self, namespace: str) -> dict[str, int]:
        """Return the number of ready pods of each Deployment."""
        found = self.get(f"/apis/apps/v1/namespaces/{namespace}/deployments") or {"items": []}
        return {each["metadata"]["name"]: each["status"].get("readyReplicas", 0) for each in found["items"]}


def _trust(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    """Return the server's authority and the client's certificate."""

    def file(entry: Mapping[str, Any], name: str) -> str | None:
        if f"{name}-data" not in entry:
            return entry.get(name)
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(entry[f"{name}-data"]))
        return str(path)

    context = ssl.create_default_context(cafile=file(cluster, "certificate-authority"))
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate := file(user, "client-certificate"):
        context.load_cert_chain(certificate, file(user, "client-key"))
    return context


def namespace_objects(namespace: str) -> list[Object]:
    """Return a namespace that enforces and warns of the restricted standard, and has a quota of CPU and memory."""
    modes = ("enforce", "warn", "audit")
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in modes}
    quota = {"requests.cpu": "64", "requests.memory": "128Gi", "limits.memory": "256Gi", "pods": "200"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}},
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "limits", "namespace": namespace},
            "spec": {"hard": quota},
        },
    ]


def pods_of(objects: list[Object]) -> Iterator[Object]:
    """Yield a pod for each template, because a controller's templates are only warned of, never refused."""
    for each in objects:
        if each["kind"] in ("Deployment", "Job"):
            template = each["spec"]["template"]
            metadata = {**template["metadata"], "namespace": each["metadata"]["namespace"]}
            spec = {**template["spec"], "serviceAccountName": "default"}
            metadata["name"] = each["metadata"]["name"]
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def parsed(texts: Mapping[str, str]) -> list[Object]:
    names = [name for name in texts if not name.endswith((".tpl", "NOTES.txt"))]
    return [each for name in sorted(names) for each in yaml.safe_load_all(texts[name]) if each]


class ClusterCheck:
    """The steps; each prints its result."""

    def __init__(self, cluster: Cluster, config: Any, options: argparse.Namespace, values: dict[str, Any]) -> None:
        self._cluster, self._config, self._options, self._values = cluster, config, options, values
        self._wait = {"wait": "watcher", "timeout": options.timeout} if options.wait else {}
        self.failed = False

    def step(self, name: str, action: Callable[[], str]) -> None:
        """Run a step, and print its result or its error."""
        started = time.monotonic()
        try:
            result, state = action(), "passed"
        except Exception as error:  # noqa: BLE001 - the error is the result of the step
            result, state, self.failed = f"{type(error).__name__}: {error}", "FAILED", True
        print(f"{state}  {name}  {result}  ({time.monotonic() - started:.2f} s)", flush=True)

    def dry_run(self, objects: list[Object]) -> str:
        problems, warnings = [], 0
        every = [*objects, *pods_of(objects)]
        for each in every:
            error, warned = self._cluster.apply(each, dry_run=True)
            warnings += len(warned)
            name = f"{each['kind']}/{each['metadata']['name']}"
            problems += [f"{name}: {problem}" for problem in ([error] if error else []) + warned]
        if problems:
            raise ValueError("; ".join(problems))
        return f"{len(every)} objects and pods, {warnings} warnings"

    def install(self) -> str:
        chart = str(self._options.previous or CHART)
        release = self._config.install(chart, RELEASE, self._values, **self._wait)
        return f"revision {release['revision']}, {release['status']}"

    def upgrade(self) -> str:
        before = self._cluster.jobs(self._options.namespace)
        values = {**self._values, "image": {**self._values.get("image", {}), **self.tag()}}
        release = self._config.upgrade(str(CHART), RELEASE, values, **self._wait)
        after = self._cluster.jobs(self._options.namespace)
        if self.tag() and before == after:
            raise ValueError(f"the schema Job was not replaced: {after}")
        jobs = ", ".join(sorted(after - before)) or "unchanged"
        return f"revision {release['revision']}, {release['status']}, Job {jobs}"

    def tag(self) -> dict[str, str]:
        """Return another tag of the image; with nodes it must exist, so it is an option then."""
        return {"tag": self._options.tag} if self._options.tag else {}

    def test(self) -> str:
        self._config.test(RELEASE, timeout=self._options.timeout)
        return "API ready, files are read in confined processes"

    def break_schema(self) -> str:
        before = self._cluster.ready(self._options.namespace)
        values = {**self._values, "image": {**self._values.get("image", {}), "tag": "does-not-exist"}}
        self._config.upgrade(str(CHART), RELEASE, values)
        deadline = time.monotonic() + _STABLE_SECONDS
        while time.monotonic() < deadline:
            now = self._cluster.ready(self._options.namespace)
            if any(now.get(name, 0) < count for name, count in before.items()):
                raise ValueError(f"pods were stopped: {before} became {now}")
            time.sleep(_POLL_SECONDS)
        return f"the previous pods stay ready: {before}"

    def rollback(self) -> str:
        self._config.rollback(RELEASE, version=1, **self._wait)
        return f"revision {self._config.status(RELEASE)['revision']}"

    def uninstall(self) -> str:
        self._config.uninstall(RELEASE)
        left = self._cluster.get(f"/apis/apps/v1/namespaces/{self._options.namespace}/deployments")
        names = [each["metadata"]["name"] for each in (left or {"items": []})["items"]]
        return f"{len(names)} Deployments left" if not names else f"being deleted: {names}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", default="foreask-verify", help="created, and deleted at the end")
    parser.add_argument("--values", type=Path, default=CHART / "ci" / "production.yaml")
    parser.add_argument(
        "--previous", type=Path, help="folder or archive of the previous chart, which is installed first"
    )
    parser.add_argument("--tag", default="0.1.0-next", help="tag of the image of the upgrade; empty: the same image")
    parser.add_argument("--wait", action="store_true", help="the cluster has nodes: wait for pods, and run the tests")
    parser.add_argument("--break-schema", action="store_true", help="upgrade to a missing image; needs --wait")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for each step with --wait")
    options = parser.parse_args()
    import helm_python as helm  # noqa: PLC0415 - the packages of the tests are not needed for --help

    values = yaml.safe_load(options.values.read_text())
    with tempfile.TemporaryDirectory() as folder, helm.Chart.load(str(CHART)) as chart:
        cluster = Cluster(yaml.safe_load(options.kubeconfig.read_text()), Path(folder))
        objects = parsed(chart.render(values, name=RELEASE, namespace=options.namespace))
        if cluster.get(f"/api/v1/namespaces/{options.namespace}") is not None:
            parser.error(f"--namespace {options.namespace}: it exists, and would be deleted at the end")
        config = helm.Config(kubeconfig_path=str(options.kubeconfig), namespace=options.namespace)
        verification = ClusterCheck(cluster, config, options, values)
        try:
            for each in namespace_objects(options.namespace):
                error, _ = cluster.apply(each, dry_run=False)
                if error:
                    print(f"FAILED  namespace  {error}")
                    return 1
            run(verification, objects, options)
        finally:
            cluster.delete(f"/api/v1/namespaces/{options.namespace}")
            config.close()
    return verification.failed


def run(verification: ClusterCheck, objects: list[Object], options: argparse.Namespace) -> None:
    """Run the steps in their order; a failed step does not prevent the next one."""
    verification.step("dry run on the server", lambda: verification.dry_run(objects))
    verification.step("install", verification.install)
    verification.step("upgrade", verification.upgrade)
    if options.wait:
        verification.step("test", verification.test)
    if options.break_schema:
        verification.step("upgrade with a failing Job", verification.break_schema)
    verification.step("rollback", verification.rollback)
    verification.step("uninstall", verification.uninstall)


if __name__ == "__main__":
    sys.exit(main())
