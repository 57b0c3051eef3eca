"""The chart in deploy/helm: rendered by a Helm engine in a Python package, and checked with Kubernetes' schemas.

Both packages are used by tests only. If one of them is unusable, tests fail with a sentence that says so.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from tests.support.deployment import ROOT

CHART = ROOT / "deploy" / "helm" / "foreask"
RELEASE, NAMESPACE = "foreask", "work"
MINOR_VERSIONS = 4  # of Kubernetes, the newest that the schemas have
# APIs of operators and controllers, whose objects have no schema in Kubernetes itself.
CUSTOM = ("keda.sh/", "monitoring.coreos.com/", "gateway.networking.k8s.io/")
_PACKAGES = {"helm_python": "helm-python-sdk", "kubernetes_validate": "kubernetes-validate"}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Object = dict[str, Any]


class UnusableError(AssertionError):
    """A package of the tests is missing or does not do its part; the chart may be right."""


def package(module: str) -> ModuleType:
    """Import a package of the chart's tests.

    Raises:
        UnusableError: it cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        raise UnusableError(_sentence(module, f"cannot be imported ({error})")) from error


def _sentence(module: str, trouble: str) -> str:
    return (
        f"The package {_PACKAGES[module]} {trouble}. Only tests use it, in tests/support/chart.py: install the version"
        " in constraints.txt, or replace the package there. This says nothing about the chart."
    )


@cache
def chart() -> Any:
    """Return the loaded chart.

    Raises:
        UnusableError: the engine is missing, or it is not Helm 4.
    """
    helm = package("helm_python")
    version = helm.helm_sdk_version()
    if not version.startswith("v4."):
        raise UnusableError(_sentence("helm_python", f"contains Helm {version} instead of Helm 4"))
    return helm.Chart.load(str(CHART))


def files(values: Mapping[str, Any], **options: Any) -> dict[str, str]:
    """Return the rendered text of each template."""
    chosen = {"name": RELEASE, "namespace": NAMESPACE, "is_install": True, **options}
    rendered: dict[str, str] = chart().render(dict(values), **chosen)
    return rendered


def render(values: Mapping[str, Any], **options: Any) -> list[Object]:
    """Return the rendered objects."""
    texts = files(values, **options)
    return [
        each
        for name, text in sorted(texts.items())
        if not name.endswith(("NOTES.txt", ".tpl"))
        for each in yaml.load_all(text, Loader=_LOADER)
        if each
    ]


def refusal(values: Mapping[str, Any]) -> str:
    """Return the message with which an installation with these values is refused; empty if it is accepted."""
    helm = package("helm_python")
    try:
        chart().validate_schema(chart().merge_values(dict(values)))
        files(values)
    except helm.HelmError as error:
        return str(error)
    return ""


def lint(values: Mapping[str, Any]) -> list[str]:
    """Return the warnings and errors of `helm lint`."""
    report = package("helm_python").lint(str(CHART), dict(values), strict=True)
    return [str(message) for message in report["messages"] if message["severity"] > 1] + report["errors"]


def values_of(name: str) -> dict[str, Any]:
    """Return a set of values in the chart's folder `ci`."""
    return dict(yaml.safe_load((CHART / "ci" / f"{name}.yaml").read_text()))


def read(texts: Iterable[Path]) -> Iterator[Object]:
    for path in texts:
        yield from filter(None, yaml.safe_load_all(path.read_text()))


def kubernetes_versions() -> list[str]:
    """Return the minor versions whose schemas are checked.

    Raises:
        UnusableError: the package has fewer.
    """
    utils = _utils()
    minors = list(dict.fromkeys(utils.major_minor(version) for version in utils.all_versions()))
    if len(minors) < MINOR_VERSIONS:
        raise UnusableError(_sentence("kubernetes_validate", f"has schemas of {minors} only"))
    return minors[-MINOR_VERSIONS:]


@cache
def _utils() -> Any:
    package("kubernetes_validate")
    utils = importlib.import_module("kubernetes_validate.utils")
    utils.schema_contents = cache(utils.schema_contents)  # it would read megabytes for each object
    return utils


def schema_errors(objects: Iterable[Object]) -> list[str]:
    """Return the errors of each object in the strict schemas of all checked versions."""
    errors = []
    for each in objects:
        if not each["apiVersion"].startswith(CUSTOM):
            errors += [f"{name_of(each)}: {error}" for error in _schema_errors(json.dumps(each, sort_keys=True))]
    return errors


@cache  # most objects are the same in many sets of values
def _schema_errors(text: str) -> tuple[str, ...]:
    utils, errors = _utils(), []
    for version in kubernetes_versions():
        try:
            utils.validate(json.loads(text), version, strict=True)
        except (utils.ValidationError, utils.SchemaNotFoundError, utils.InvalidSchemaError) as error:
            errors.append(f"{version}: {error.message}")
    return tuple(errors)


def name_of(each: Object) -> str:
    return f"{each['kind']}/{each['metadata']['name']}"


def of_kind(objects: Iterable[Object], *kinds: str) -> list[Object]:
    return [each for each in objects if each["kind"] in kinds]


def component(each: Object) -> str:
    return str(each["metadata"]["labels"]["app.kubernetes.io/component"])


def pods_of(objects: Iterable[Object]) -> dict[str, Object]:
    """Return the metadata and specification of the pods of each Deployment, Job and Pod by the object's name."""
    found = {}
    for each in of_kind(objects, "Deployment", "Job", "Pod"):
        pod = each if each["kind"] == "Pod" else each["spec"]["template"]
        found[name_of(each)] = {"metadata": pod.get("metadata", {}), "spec": pod["spec"], "owner": each}
    return found


def containers_of(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def process_of(objects: Iterable[Object], name: str) -> Object:
    """Return the container of a role's process."""
    for each in of_kind(objects, "Deployment"):
        if component(each) == name and each["metadata"]["labels"]["app.kubernetes.io/name"] == "foreask":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            return dict(container)
    raise AssertionError(f"no Deployment of {name}")


def environment_of(container: Object, secrets: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return a container's variables, with the values of these Secrets; optional keys may be missing."""
    variables: dict[str, str] = {}
    for each in container.get("envFrom", []):
        variables |= secrets[each["secretRef"]["name"]]
    for each in container.get("env", []):
        if "value" in each:
            variables[each["name"]] = each["value"]
            continue
        reference = each["valueFrom"]["secretKeyRef"]
        value = secrets.get(reference["name"], {}).get(reference["key"])
        if value is None:
            assert reference.get("optional"), f"{each['name']}: {reference} is missing"
        else:
            variables[each["name"]] = value
    return variables
