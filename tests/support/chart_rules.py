"""Rules of the chart's objects that no schema contains: references, selectors, limits, probes and security."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from tests.support.chart import NAMESPACE, Object, component, containers_of, name_of, of_kind, pods_of

PROCESSES = ("api", "parse", "read", "generate", "index", "scheduler")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_UNITS = {"": 1, "m": Fraction(1, 1000), "k": 1000, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def violations(objects: Sequence[Object], outside: Mapping[str, set[str]]) -> list[str]:
    """Return every violation of a rule.

    Args:
        objects: the rendered objects.
        outside: names of objects by kind that the values name, and that the chart does not create.
    """
    rules = (_names, _selectors, _spread, _references, _ports, _backends, _containers, _pods, _probes, _targets)
    return [f"{rule.__name__.strip('_')}: {problem}" for rule in rules for problem in rule(objects, outside)]


def quantity(text: object) -> Fraction:
    match = re.fullmatch(r"([0-9.]+)(m|k|M|G|Ki|Mi|Gi)?", str(text))
    assert match is not None, text
    return Fraction(match[1]) * _UNITS[match[2] or ""]


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches labels."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", []))


def is_process(pod: Object) -> bool:
    labels = pod["metadata"].get("labels", {})
    return labels.get("app.kubernetes.io/name") == "foreask" and component(pod) in PROCESSES


def _names(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    counts = Counter((each["kind"], each["metadata"]["name"]) for each in objects)
    yield from (f"{kind}/{name} is rendered {count} times" for (kind, name), count in counts.items() if count > 1)
    for each in objects:
        if each["metadata"].get("namespace") != NAMESPACE:
            yield f"{name_of(each)} has another namespace"
        if not _NAME.fullmatch(each["metadata"]["name"]):
            yield f"{name_of(each)} is not a valid name"
        labels = [each["metadata"].get("labels", {})]
        labels += [pod["metadata"].get("labels", {}) for pod in pods_of([each]).values()]
        yield from (
            f"{name_of(each)}: {value!r} is not a valid label"
            for some in labels
            for value in some.values()
            if not isinstance(value, str) or not _LABEL.fullmatch(value)
        )


def _selectors(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    pods = pods_of(objects)
    for each in of_kind(objects, "Deployment", "PodDisruptionBudget"):
        found = [name for name, pod in pods.items() if matches(each["spec"]["selector"], pod["metadata"]["labels"])]
        expected = f"Deployment/{each['metadata']['name']}"
        if found != [expected]:
            yield f"{name_of(each)} selects {found}"
    for each in of_kind(objects, "NetworkPolicy"):
        if not any(matches(each["spec"]["podSelector"], pod["metadata"]["labels"]) for pod in pods.values()):
            yield f"{name_of(each)} selects no pod"
    for each in of_kind(objects, "Service"):
        selector = {"matchLabels": each["spec"]["selector"]}
        found = [name for name, pod in pods.items() if matches(selector, pod["metadata"]["labels"])]
        if not found or any(not name.startswith("Deployment/") for name in found):
            yield f"{name_of(each)} selects {found}"
    services = [each["metadata"]["labels"] for each in of_kind(objects, "Service")]
    for each in of_kind(objects, "ServiceMonitor"):
        if sum(matches(each["spec"]["selector"], labels) for labels in services) != 1:
            yield f"{name_of(each)} selects not exactly one Service"


def _spread(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    for name, pod in pods_of(objects).items():
        for spread in pod["spec"].get("topologySpreadConstraints", []):
            if not matches(spread["labelSelector"], pod["metadata"]["labels"]):
                yield f"{name} spreads other pods"


def _references(objects: Sequence[Object], outside: Mapping[str, set[str]]) -> Iterator[str]:
    keys = {each["metadata"]["name"]: set(each["data"]) for each in of_kind(objects, "Secret")}
    claims = {each["metadata"]["name"] for each in of_kind(objects, "PersistentVolumeClaim")} | outside["claim"]
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")} | outside["account"]
    for name, pod in pods_of(objects).items():
        spec = pod["spec"]
        if spec.get("serviceAccountName", "default") not in accounts | {"default"}:
            yield f"{name}: service account {spec['serviceAccountName']}"
        yield from (
            f"{name}: {each['name']}"
            for each in spec.get("imagePullSecrets", [])
            if each["name"] not in outside["secret"]
        )
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        mounted = {mount["name"] for each in containers_of(pod) for mount in each.get("volumeMounts", [])}
        if volumes != mounted:
            yield f"{name}: volumes {volumes} and mounts {mounted}"
        for volume in spec.get("volumes", []):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and claim not in claims:
                yield f"{name}: claim {claim}"
        for container in containers_of(pod):
            yield from (f"{name}: {problem}" for problem in _unresolved(container, keys, outside["secret"]))
    for each in of_kind(objects, "TriggerAuthentication"):
        (reference,) = each["spec"]["secretTargetRef"]
        if reference["name"] not in outside["secret"] and reference["key"] not in keys.get(reference["name"], set()):
            yield f"{name_of(each)}: {reference}"


def _unresolved(container: Object, keys: Mapping[str, set[str]], outside: set[str]) -> Iterator[str]:
    names = [each["name"] for each in container.get("env", [])]
    yield from (f"{name} is set {count} times" for name, count in Counter(names).items() if count > 1)
    for each in container.get("envFrom", []):
        if each["secretRef"]["name"] not in outside:
            yield f"Secret {each['secretRef']['name']}"
    for each in container.get("env", []):
        reference = each.get("valueFrom", {}).get("secretKeyRef")
        if reference is None or reference["name"] in outside or reference.get("optional"):
            continue
        if reference["key"] not in keys.get(reference["name"], set()):
            yield f"{each['name']} from {reference}"


def _ports(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    pods = pods_of(objects).values()
    for each in of_kind(objects, "Service"):
        name = each["metadata"]["name"]
        selector = {"matchLabels": each["spec"]["selector"]}
        for pod in pods:
            if matches(selector, pod["metadata"]["labels"]):
                ports = {port["name"] for some in containers_of(pod) for port in some.get("ports", [])}
                yield from (
                    f"Service/{name}: {p['targetPort']}" for p in each["spec"]["ports"] if p["targetPort"] not in ports
                )


def _backends(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    services = {each["metadata"]["name"]: each for each in of_kind(objects, "Service")}
    for each in of_kind(objects, "Ingress"):
        for rule in each["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                service = services.get(backend["name"], {"spec": {"ports": []}})
                if backend["port"]["name"] not in {port["name"] for port in service["spec"]["ports"]}:
                    yield f"{name_of(each)}: {backend}"
    for each in of_kind(objects, "HTTPRoute"):
        for rule in each["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                service = services.get(backend["name"], {"spec": {"ports": []}})
                if backend["port"] not in {port["port"] for port in service["spec"]["ports"]}:
                    yield f"{name_of(each)}: {backend}"


def _containers(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    for name, pod in pods_of(objects).items():
        for container in containers_of(pod):
            resources, security = container["resources"], container["securityContext"]
            if not {"cpu", "memory"} <= resources["requests"].keys() or "memory" not in resources["limits"]:
                yield f"{name}: {container['name']} has no limits"
            for resource, limit in resources["limits"].items():
                if quantity(resources["requests"].get(resource, 0)) > quantity(limit):
                    yield f"{name}: {container['name']} requests more {resource} than its limit"
            expected = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            if security != expected:
                yield f"{name}: {container['name']} has {security}"


def _pods(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    for name, pod in pods_of(objects).items():
        spec, security = pod["spec"], pod["spec"]["securityContext"]
        if not security["runAsNonRoot"] or security["runAsUser"] == 0:
            yield f"{name} runs as root"
        if security["seccompProfile"] != {"type": "RuntimeDefault"}:
            yield f"{name} has no seccomp profile"
        if spec["automountServiceAccountToken"] is not False:
            yield f"{name} mounts a token"
        if spec["enableServiceLinks"] is not False:
            yield f"{name} receives variables of Services"
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{name}: {volume['name']} has no limit"


def _probes(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    for name, pod in pods_of(objects).items():
        if not name.startswith("Deployment/"):
            continue
        for container in pod["spec"]["containers"]:
            ports = {port["name"] for port in container["ports"]}
            expected = {"startupProbe", "livenessProbe"} | ({"readinessProbe"} if container["name"] == "api" else set())
            probes = {key: value for key, value in container.items() if key.endswith("Probe")}
            if probes.keys() != expected:
                yield f"{name} has {sorted(probes)}"
            for probe in probes.values():
                if "httpGet" in probe and probe["httpGet"]["port"] not in ports:
                    yield f"{name}: probe of {probe['httpGet']}"
        if is_process(pod) and pod["spec"]["terminationGracePeriodSeconds"] < _needed_grace(pod):
            yield f"{name} is killed before it has finished its calls"


def _needed_grace(pod: Object) -> int:
    (container,) = pod["spec"]["containers"]
    variables = {each["name"]: each.get("value", "") for each in container["env"]}
    return int(variables.get("FOREASK_SHUTDOWN_TIMEOUT", 20)) + int(variables.get("FOREASK_API_DRAIN", 0)) + 10


def _targets(objects: Sequence[Object], _: Mapping[str, set[str]]) -> Iterator[str]:
    deployments = {each["metadata"]["name"]: each for each in of_kind(objects, "Deployment")}
    scaled = {}
    for each in of_kind(objects, "HorizontalPodAutoscaler", "ScaledObject"):
        spec = each["spec"]
        low, high = (
            spec.get("minReplicas", spec.get("minReplicaCount")),
            spec.get("maxReplicas", spec.get("maxReplicaCount")),
        )
        scaled[spec["scaleTargetRef"]["name"]] = each
        if not 1 <= low <= high:
            yield f"{name_of(each)} scales from {low} to {high}"
    yield from (f"{name_of(each)} scales {name}" for name, each in scaled.items() if name not in deployments)
    for name, each in deployments.items():
        if ("replicas" in each["spec"]) == (name in scaled):
            yield f"{name}: the number of its pods has two owners, or none"
    for each in of_kind(objects, "PodDisruptionBudget"):
        if {"minAvailable", "maxUnavailable"} <= each["spec"].keys():
            yield f"{name_of(each)} has both bounds"
        pods = deployments[each["metadata"]["name"]]["spec"].get("replicas", 2)
        if each["spec"].get("minAvailable") == pods:
            yield f"{name_of(each)} blocks the drain of a node"
