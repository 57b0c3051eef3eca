"""The script that verifies the chart on a real API server sends dry runs, and reports errors and warnings."""

import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.chart import component, render, values_of
from tests.support.deployment import ROOT
from tests.support.planted import guards

RESOURCES = {
    "/api/v1": [("Namespace", "namespaces", False), ("Pod", "pods", True), ("Service", "services", True)],
    "/apis/apps/v1": [("Deployment", "deployments", True)],
}


def script():
    specification = importlib.util.spec_from_file_location("verify", ROOT / "deploy/helm/verify.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Server(ThreadingHTTPServer):
    """A server that knows some resources, records every applied object, and warns of or refuses objects by name."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.applied = {}
        self.warned, self.refused = set(), set()
        self.existing, self.deleted = set(), []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path in self.server.existing:
            return self._reply(200, {})
        resources = RESOURCES.get(self.path)
        listed = [{"kind": kind, "name": name, "namespaced": scoped} for kind, name, scoped in resources or ()]
        return self._reply(404 if resources is None else 200, {"resources": listed})

    def do_DELETE(self):
        self.server.deleted.append(self.path)
        self._reply(200, {})

    def do_PATCH(self):
        parts = urlsplit(self.path)
        length = int(self.headers["content-length"])
        name = json.loads(self.rfile.read(length))["metadata"]["name"]
        self.server.applied[parts.path] = parse_qs(parts.query)
        warnings = [f'299 - "{name} violates a standard"'] if name in self.server.warned else []
        refused = name in self.server.refused
        self._reply(422 if refused else 200, {"message": f"{name} is invalid"}, warnings)

    def _reply(self, status, body, warnings=()):
        content = json.dumps(body).encode()
        self.send_response(status)
        for warning in warnings:
            self.send_header("Warning", warning)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Write nothing."""


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def kubeconfig_of(server, user):
    address = f"http://127.0.0.1:{server.server_port}"
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "local", "user": "admin"}}],
        "clusters": [{"name": "local", "cluster": {"server": address}}],
        "users": [{"name": "admin", "user": user}],
    }


@pytest.fixture
def verification(server, tmp_path):
    verify, kubeconfig = script(), kubeconfig_of(server, {"token": "secret"})
    options = verify.argparse.Namespace(wait=False, timeout=1, namespace="work", tag="", previous=None)
    return verify.ClusterCheck(verify.Cluster(kubeconfig, tmp_path), None, options, {})


@pytest.fixture(scope="module")
def objects():
    return [each for each in render(values_of("try")) if each["kind"] in ("Deployment", "Service")]


def test_dry_run_applies_objects_and_pods(verification, server, objects):
    result = verification.dry_run(objects)

    assert result.endswith("0 warnings")
    deployments = [each for each in objects if each["kind"] == "Deployment"]
    assert len(server.applied) == len(objects) + len(deployments)
    assert "/apis/apps/v1/namespaces/work/deployments/foreask-api" in server.applied
    assert "/api/v1/namespaces/work/pods/foreask-api" in server.applied
    for parameters in server.applied.values():
        assert parameters["dryRun"] == ["All"]
        assert parameters["fieldValidation"] == ["Strict"]


def test_warning_and_error_fail_dry_run(verification, server, objects):
    names = {component(each): each["metadata"]["name"] for each in objects if each["kind"] == "Deployment"}
    server.warned, server.refused = {names["parse"]}, {names["index"]}

    with pytest.raises(ValueError, match="Deployment/foreask-index: foreask-index is invalid") as caught:
        verification.dry_run(objects)

    assert "foreask-parse violates a standard" in str(caught.value)


def test_unknown_kind_is_an_error(verification, server):
    each = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "a", "namespace": "work"}}
    with pytest.raises(ValueError, match="the server has no ScaledObject of"):
        verification.dry_run([each])


def test_failed_step_is_reported(verification, capsys):
    verification.step("first", lambda: "done")
    assert not verification.failed

    def fail():
        raise ValueError("the Job was not replaced")

    verification.step("second", fail)
    assert verification.failed
    assert "FAILED  second  ValueError: the Job was not replaced" in capsys.readouterr().out


@guards(
    "deploy/helm/verify.py",
    '}") is not None:',
    '}") is False:',
    means="the check of a cluster deletes a namespace that it has not created",
)
def test_existing_namespace_is_neither_changed_nor_deleted(server, tmp_path, monkeypatch, capsys):
    server.existing.add("/api/v1/namespaces/foreask")
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig_of(server, {"token": "secret"})))
    monkeypatch.setattr("sys.argv", ["verify.py", "--kubeconfig", str(path), "--namespace", "foreask"])

    with pytest.raises(SystemExit):
        script().main()

    assert "--namespace foreask: it exists" in capsys.readouterr().err
    assert (server.applied, server.deleted) == ({}, [])


def test_kubeconfig_without_credentials_is_refused(server, tmp_path):
    with pytest.raises(SystemExit, match="neither a token nor a certificate"):
        script().Cluster(kubeconfig_of(server, {"exec": {"command": "aws"}}), tmp_path)
