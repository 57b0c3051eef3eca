"""The chart renders valid objects from all combinations of its switches, and refuses values that cannot work."""

import base64
import json
import os
import re
import sys
from itertools import combinations
from types import SimpleNamespace

import pytest
import yaml

from shared.domain.access.database_roles import PARSE_ROLE
from shared.settings import Settings
from shared.settings.secrets_of_roles import SECRETS
from shared.settings.sources import every_setting, require_known, secrets
from tests.acceptance.test_compose import CONFINED, DOCKERFILE, ENGINES, SERVICES
from tests.support import chart as charts
from tests.support.chart import (
    CHART,
    CUSTOM,
    NAMESPACE,
    UnusableError,
    component,
    containers_of,
    environment_of,
    files,
    kubernetes_versions,
    lint,
    of_kind,
    package,
    pods_of,
    process_of,
    refusal,
    render,
    schema_errors,
    values_of,
)
from tests.support.chart_rules import PROCESSES, is_process, matches, violations
from tests.support.deployment import ROOT
from tests.support.pairwise import pairs, pairwise
from tests.support.planted import guards
from tests.support.pods import arguments, rendered_pods

MODELS = {"FOREASK_LLM_MODEL": "scripted", "FOREASK_EMBEDDING_MODEL": "scripted-embedding"}
QDRANT = {"FOREASK_QDRANT_URL": "http://qdrant:6333"}
PEERS = {"enginePeers": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
URLS = {
    "FOREASK_OWNER_DATABASE_URL": "postgresql://foreask:owner@postgres:5432/foreask",
    "FOREASK_APP_DATABASE_URL": "postgresql://foreask_app:app@postgres:5432/foreask",
    "FOREASK_PARSE_DATABASE_URL": f"postgresql://{PARSE_ROLE}:parse@postgres:5432/foreask",
    "FOREASK_SCALE_DATABASE_URL": "postgresql://foreask_scale:scale@postgres:5432/foreask",
    "FOREASK_REDIS_URL": "redis://:broker@valkey:6379/0",
}
KEYS = {
    **URLS,
    "FOREASK_APP_DATABASE_PASSWORD": "app",
    "FOREASK_PARSE_DATABASE_PASSWORD": "parse",
    "FOREASK_QDRANT_API_KEY": "points",
    "FOREASK_LLM_API_KEY": "model",
    "FOREASK_API_KEYS": "default:0123456789abcdef0123456789",
}
SEVERAL = {"api": {"replicas": 1, "maxReplicas": 1}, "parse": {"replicas": 1, "maxReplicas": 1}}
APIS = ["keda.sh/v1alpha1", "monitoring.coreos.com/v1", "gateway.networking.k8s.io/v1"]
OUTSIDE = {
    "secret": {"foreask-secrets", "cluster-app", "store-keys", "source-secrets", "registry"},
    "claim": {"shared-uploads"},
    "account": {"own-account"},
}
# Values of each switch; `pairwise` combines them.
SWITCHES = {
    "secrets": {
        "existing": {"settings": QDRANT, "secrets": {"existingSecret": "foreask-secrets"}},
        "create": {"settings": QDRANT, "secrets": {"create": True, "values": KEYS}},
        "from": {
            "settings": QDRANT,
            "secrets": {
                "existingSecret": "foreask-secrets",
                "from": {"FOREASK_OWNER_DATABASE_URL": {"name": "cluster-app", "key": "uri"}},
                "sources": "source-secrets",
            },
        },
        "try": {"try": {"enabled": True}},
    },
    "store": {
        "bucket": {
            "store": {"url": "s3://bucket/foreask"},
            "networkPolicy": {"storeCIDRs": ["203.0.113.0/24"]},
            "secrets": {"store": "store-keys"},
        },
        "created claim": {"store": {"claim": {"create": True, "size": "10Gi", "storageClassName": "files"}}},
        "own claim": {"store": {"claim": {"existing": "shared-uploads"}}},
        "one node": {"store": {"claim": {"create": True, "accessMode": "ReadWriteOnce"}}, **SEVERAL},
    },
    "autoscaling": {
        "none": {},
        "hpa": {"autoscaling": {"mode": "hpa"}},
        "ledger": {"autoscaling": {"mode": "keda"}, "apiVersions": APIS},
        "prometheus": {
            "autoscaling": {
                "mode": "keda",
                "keda": {"trigger": "prometheus", "prometheusAddress": "http://prometheus"},
            },
            "apiVersions": APIS,
        },
    },
    "network": {
        "default": {"networkPolicy": PEERS},
        "off": {"networkPolicy": {"enabled": False}},
        "named": {
            "networkPolicy": {
                "apiFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
                "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
                "enginePeers": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
                "enginePorts": [6432, 6380],
                "extraEgress": [{"to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}], "ports": [{"port": 443}]}],
            }
        },
    },
    "exposure": {
        "none": {},
        "ingress": {"ingress": {"enabled": True, "className": "nginx", "hosts": ["a.example"], "tlsSecret": "tls"}},
        "route": {
            "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["a.example"]},
            "apiVersions": APIS,
        },
        "balancer": {"service": {"type": "LoadBalancer", "port": 80, "annotations": {"internal": "true"}}},
    },
    "metrics": {
        "none": {},
        "all": {
            "metrics": {
                "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
                "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
                "dashboard": {"enabled": True},
            },
            "apiVersions": APIS,
        },
    },
    "roles": {
        "default": {},
        "no scans": {"read": {"replicas": 0}},
        "single": {"api": {"replicas": 1}, "scheduler": {"replicas": 1}, "podDisruptionBudgets": False},
    },
    "image": {
        "tag": {"image": {"repository": "registry.example.com/foreask", "tag": "0.2.0-rc.1_build"}},
        "digest": {"image": {"digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"}},
        "registry": {"imagePullSecrets": [{"name": "registry"}], "nameOverride": "knowledge"},
    },
    "pods": {
        "default": {},
        "placed": {
            "pods": {
                "nodeSelector": {"pool": "work"},
                "tolerations": [{"key": "work", "operator": "Exists"}],
                "priorityClassName": "high",
                "annotations": {"a": "b"},
                "labels": {"team": "search"},
                "topologySpread": False,
            },
            "generate": {"nodeSelector": {"pool": "calls"}, "labels": {"team": "models"}},
        },
        "extended": {
            "pods": {
                "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/certificates/ca.pem"}],
                "extraVolumes": [{"name": "certificates", "configMap": {"name": "authority"}}],
                "extraVolumeMounts": [{"name": "certificates", "mountPath": "/certificates", "readOnly": True}],
            },
            "index": {"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]},
            "extraObjects": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "authority", "namespace": "{{ .Release.Namespace }}"},
                    "data": {"ca.pem": "certificate"},
                }
            ],
        },
    },
    "settings": {
        "few": {},
        "many": {
            "settings": {
                "FOREASK_MAX_UPLOAD_BYTES": 104857600,
                "FOREASK_SHUTDOWN_TIMEOUT": 60,
                "FOREASK_API_DRAIN": 5,
                "FOREASK_QUERY_SHARE": 0.2,
                "FOREASK_CALIBRATE": False,
                "FOREASK_SOURCE_ROOTS": "acme=s3://acme-docs/",
                "FOREASK_TUNING__LEASE": 45,
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
            }
        },
        "pooler": {"settings": {"FOREASK_DATABASE_POOLER": "transaction"}, "postgres": {"maxConnections": 20}},
    },
    "account": {
        "created": {"serviceAccount": {"annotations": {"role": "reader"}}},
        "own": {"serviceAccount": {"create": False, "name": "own-account"}},
    },
}
SETS = pairwise({name: list(values) for name, values in SWITCHES.items()}, least=40)
VALID = {
    "settings": {**MODELS, **QDRANT},
    "secrets": {"existingSecret": "foreask-secrets"},
    "store": {"claim": {"existing": "shared-uploads"}},
    "networkPolicy": PEERS,
}
# Wrong values, and the name that the message must contain.
WRONG = {
    "unknown value": ({"replicas": 3}, "replicas"),
    "unknown nested value": ({"api": {"replica": 3}}, "replica"),
    "misspelt setting": ({"settings": {"FOREASK_LLM_MODLE": "gpt"}}, "FOREASK_LLM_MODLE"),
    "secret among the settings": ({"settings": {"FOREASK_LLM_API_KEY": "k"}}, "FOREASK_LLM_API_KEY"),
    "unusable duration": ({"settings": {"FOREASK_SHUTDOWN_TIMEOUT": "PT30S"}}, "FOREASK_SHUTDOWN_TIMEOUT"),
    "no language model": ({"settings": {"FOREASK_LLM_MODEL": ""}}, "settings.FOREASK_LLM_MODEL"),
    "no embedding model": ({"settings": {"FOREASK_EMBEDDING_MODEL": ""}}, "settings.FOREASK_EMBEDDING_MODEL"),
    "no index": ({"settings": {"FOREASK_QDRANT_URL": ""}}, "settings.FOREASK_QDRANT_URL"),
    "no secret": ({"secrets": {"existingSecret": ""}}, "secrets.existingSecret"),
    "two secrets": ({"secrets": {"create": True, "values": KEYS}}, "secrets.create"),
    "unused secret values": ({"secrets": {"values": {"FOREASK_LLM_API_KEY": "k"}}}, "secrets.values"),
    "two origins of a key": (
        {
            "secrets": {
                "existingSecret": "",
                "create": True,
                "values": KEYS,
                "from": {"FOREASK_REDIS_URL": {"name": "a", "key": "b"}},
            }
        },
        "secrets.from.FOREASK_REDIS_URL",
    ),
    "created secret without a URL": (
        {"secrets": {"existingSecret": "", "create": True, "values": {**KEYS, "FOREASK_REDIS_URL": ""}}},
        "secrets.values.FOREASK_REDIS_URL",
    ),
    "engine next to tried ones": (
        {"secrets": {"existingSecret": "foreask-secrets"}, "try": {"enabled": True}},
        "try.enabled",
    ),
    "no location of uploads": ({"store": {"claim": {"existing": ""}}}, "store.url"),
    "two locations of uploads": ({"store": {"claim": {"create": True}}}, "store.claim.create"),
    "several nodes with one volume": ({"store": {"claim": {"accessMode": "ReadWriteOnce"}}}, "store.claim.accessMode"),
    "unreachable bucket": ({"store": {"url": "s3://b", "claim": {"existing": ""}}}, "networkPolicy.storeCIDRs"),
    "engines of any pod": ({"networkPolicy": {"enginePeers": []}}, "networkPolicy.enginePeers"),
    "too many connections": ({"generate": {"replicas": 40}}, "postgres.maxConnections"),
    "autoscaler without its API": (
        {"autoscaling": {"mode": "keda"}, "postgres": {"maxConnections": 500}},
        "autoscaling.mode",
    ),
    "monitor without its API": ({"metrics": {"serviceMonitor": {"enabled": True}}}, "metrics.serviceMonitor.enabled"),
    "route without its API": ({"httpRoute": {"enabled": True}}, "httpRoute.enabled"),
    "smaller maximum than minimum": (
        {"api": {"replicas": 3, "maxReplicas": 2}, "autoscaling": {"mode": "hpa"}, "postgres": {"maxConnections": 500}},
        "api.maxReplicas",
    ),
    "container without a limit": ({"parse": {"resources": {"limits": None}}}, "limits"),
    "invalid digest": ({"image": {"digest": "sha256:1"}}, "digest"),
    "repository with a tag": ({"image": {"repository": "registry.example.com/foreask:0.1.0"}}, "repository"),
    "unreachable API": ({"settings": {"FOREASK_API_HOST": "127.0.0.1"}}, "settings.FOREASK_API_HOST"),
    "unreachable metrics": ({"settings": {"FOREASK_METRICS_HOST": "127.0.0.1"}}, "settings.FOREASK_METRICS_HOST"),
    "name that Services refuse": ({"nameOverride": "1st"}, "nameOverride"),
    "ingress without a host": ({"ingress": {"enabled": True}}, "ingress.hosts"),
    "setting as an extra variable": (
        {"pods": {"extraEnv": [{"name": "FOREASK_LLM_API_KEY", "value": "k"}]}},
        "FOREASK_LLM_API_KEY",
    ),
}


def merged(*values):
    """Return nested values, in which later ones replace earlier ones; lists are replaced."""
    result = {}
    for each in values:
        for name, value in each.items():
            both = isinstance(value, dict) and isinstance(result.get(name), dict)
            result[name] = merged(result[name], value) if both else value
    return result


def values_for(chosen):
    """Return the values of a set of switches."""
    several = {"postgres": {"maxConnections": 1_000}}
    values = merged(
        {"settings": MODELS}, several, *(SWITCHES[name][value] for name, value in chosen.items() if name != "store")
    )
    return merged(values, SWITCHES["store"][chosen["store"]])  # its limits of pods are the last ones


def secrets_of(objects):
    """Return the values of all keys, whichever Secret contains them."""
    created = {
        each["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in each["data"].items()}
        for each in of_kind(objects, "Secret")
    }
    given = {"foreask-secrets": KEYS}
    given["store-keys"] = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    given["source-secrets"] = {"FOREASK_SOURCE_SECRET_WIKI": '{"uri": "https://wiki.example/"}'}
    return {**given, "cluster-app": {"uri": URLS["FOREASK_OWNER_DATABASE_URL"]}, **created}


def setting_problems(objects, monkeypatch):
    """Return the errors of the settings of each process, read from its rendered variables alone."""
    problems = []
    for name, pod in pods_of(objects).items():
        if pod["metadata"]["labels"]["app.kubernetes.io/name"] != "foreask":
            continue
        for container in containers_of(pod):
            with monkeypatch.context() as patched:
                for variable in list(environ_names()):
                    patched.delenv(variable)
                for variable, value in environment_of(container, secrets_of(objects)).items():
                    patched.setenv(variable, value)
                try:
                    require_known(Settings)
                    Settings(_env_file=None)
                except ValueError as error:
                    problems.append(f"{name}: {error}")
    return problems


def environ_names():
    return [name for name in os.environ if name.startswith(("FOREASK_", "OPENAI_", "AWS_"))]


@pytest.fixture(scope="module")
def default():
    return render(VALID)


@pytest.mark.parametrize("chosen", SETS, ids=[f"set {number}" for number in range(len(SETS))])
def test_value_set_renders_valid_objects(chosen, monkeypatch):
    objects = render(values_for(chosen))

    assert schema_errors(objects) == []
    assert violations(objects, OUTSIDE) == []
    assert setting_problems(objects, monkeypatch) == []


def test_forty_value_sets_contain_all_pairs():
    found = set().union(*(pairs(chosen) for chosen in SETS))
    expected = {
        ((one, a), (two, b)) for one, two in combinations(SWITCHES, 2) for a in SWITCHES[one] for b in SWITCHES[two]
    }
    assert len(SETS) >= 40
    assert expected <= found


@pytest.mark.parametrize("name", ["try", "production"])
def test_example_values_render_and_pass_lint(name, monkeypatch):
    objects = render(values_of(name))

    assert schema_errors(objects) == []
    assert violations(objects, merged(OUTSIDE)) == []
    assert setting_problems(objects, monkeypatch) == []
    assert lint(values_of(name)) == []
    assert "foreask-schema" in files(values_of(name))["foreask/templates/NOTES.txt"]


@guards(
    "deploy/helm/foreask/templates/_checks.tpl",
    '(list "api" "parse")',
    '(list "none")',
    means="a volume of one node is used by pods on several nodes",
    case="several nodes with one volume",
)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_value_is_refused_with_its_name(name):
    values, expected = WRONG[name]

    message = refusal(merged(VALID, values))

    assert expected in message


def test_changed_values_are_valid_without_change():
    assert refusal(VALID) == ""


def test_generated_files_are_current():
    namespace = {"__name__": "generate", "__file__": str(ROOT / "deploy/helm/generate.py")}
    exec(compile((ROOT / "deploy/helm/generate.py").read_text(), "generate.py", "exec"), namespace)  # noqa: S102
    for path, text in namespace["outputs"]().items():
        assert path.read_text() == text, f"{path.name} is outdated: run python deploy/helm/generate.py"


def test_settings_of_schema_are_all_settings_without_secrets():
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = set(schema["definitions"]["settingName"]["anyOf"][1]["enum"])
    known = {variables[0] for variables in every_setting(Settings)}
    hidden = {f"FOREASK_{name}".upper() for name, _ in secrets(Settings)}

    assert not names & hidden
    assert names - known == {
        *("AWS_REGION", "AWS_ENDPOINT_URL", "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
        *("REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    }
    assert known - names - hidden == {
        *("FOREASK_API_PORT", "FOREASK_METRICS_PORT", "FOREASK_DATA_DIR", "FOREASK_STORE_URL"),
        "FOREASK_SOURCE_SECRET_*",
    }


def test_every_value_is_described_by_schema():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def undescribed(given, properties, path=""):
        for name, value in given.items():
            entry = properties.get(name)
            if entry is None:
                yield path + name
            elif "description" not in entry and isinstance(value, dict):
                yield from undescribed(value, entry["properties"], f"{path}{name}.")
            elif "description" not in entry and name != "interval":
                yield path + name

    assert list(undescribed(values, schema["properties"])) == []


@guards(
    "deploy/helm/foreask/templates/_environment.tpl",
    "{{- $given = $few -}}",
    "{{- $given = merge $few $given -}}",
    means="the chart passes every setting to processes that read untrusted files",
)
def test_parse_and_read_receive_variables_of_compose(default):
    everything = merged(VALID, {"settings": {name: given_value(name) for name in known_settings()}})
    objects = render(everything)
    of_parse = set(SERVICES["worker-parse"]["environment"])

    for name in CONFINED:
        composed = set(SERVICES[name]["environment"]) - {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
        process = process_of(objects, name.removeprefix("worker-"))
        variables = {each["name"] for each in process["env"] if not each["name"].startswith("FOREASK_TUNING__")}
        assert composed - {"FOREASK_STORE_URL"} <= variables  # this one is set by store.url
        assert variables <= composed | of_parse
    for name in ("parse", "read"):
        keys = {each["name"]: each for each in process_of(default, name)["env"]}
        assert not any(re.search("LLM_API|LLM_BASE|QDRANT|EMBEDDING|RERANK|API_KEYS", key) for key in keys)
        assert keys["FOREASK_PARSE_ISOLATION"]["value"] == "require"
        reference = keys["FOREASK_DATABASE_URL"]["valueFrom"]["secretKeyRef"]
        assert reference["key"] == "FOREASK_PARSE_DATABASE_URL"


def test_pods_get_secrets_of_their_roles(default):
    for role in SECRETS.keys() - {"check", "schema", "ingest"}:
        given = {each["name"] for each in process_of(default, role)["env"] if "valueFrom" in each}
        needed = {f"FOREASK_{name.upper()}" for name in SECRETS[role] - {"source_secrets"}}
        assert given == needed, role


def known_settings():
    schema = json.loads((CHART / "values.schema.json").read_text())
    return schema["definitions"]["settingName"]["anyOf"][1]["enum"]


def given_value(name):
    """Return a value that the chart accepts."""
    if name.endswith("_HOST"):
        return "0.0.0.0"
    schema = json.loads((CHART / "values.schema.json").read_text())
    entry = schema["properties"]["settings"]["properties"].get(name, {})
    return entry["enum"][0] if "enum" in entry else entry.get("minimum", "1")


@guards(
    "deploy/helm/foreask/templates/_environment.tpl",
    '"FOREASK_PARSE_DATABASE_URL" "FOREASK_APP_DATABASE_URL")',
    '"FOREASK_PARSE_DATABASE_URL" "FOREASK_OWNER_DATABASE_URL")',
    means="a pod receives the credentials of the database's owner",
)
def test_only_schema_job_has_owner_credentials(default):
    for name, pod in pods_of(default).items():
        for container in containers_of(pod):
            keys = {
                each["valueFrom"]["secretKeyRef"]["key"] for each in container.get("env", []) if "valueFrom" in each
            }
            owner = {key for key in keys if key.endswith("_DATABASE_PASSWORD") or "OWNER" in key}
            assert bool(owner) is name.startswith("Job/")


def test_wait_container_precedes_every_process(default):
    processes = [pod for pod in pods_of(default).values() if is_process(pod)]

    assert len(processes) == len(PROCESSES)
    for pod in processes:
        (wait,) = pod["spec"]["initContainers"]
        (process,) = pod["spec"]["containers"]
        assert wait["args"] == ["schema", "--wait", "600"]
        assert wait["image"] == process["image"]
        urls = [
            next(each for each in container["env"] if each["name"] == "FOREASK_DATABASE_URL")
            for container in (wait, process)
        ]
        assert urls[0] == urls[1]


def test_commands_are_commands_of_compose(default):
    for name in PROCESSES:
        service = SERVICES.get(name) or SERVICES[f"worker-{name}"]
        assert process_of(default, name)["args"] == service["command"]


def test_pods_have_user_and_group_of_image(default):
    user, group = (int(re.search(rf"--{kind} (\d+)", DOCKERFILE)[1]) for kind in ("uid", "gid"))
    for pod in pods_of(default).values():
        security = pod["spec"]["securityContext"]
        assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == (user, group, group)


def test_memory_limits_are_limits_of_compose(default):
    for name in PROCESSES:
        service = SERVICES.get(name) or SERVICES[f"worker-{name}"]
        limit = re.search(r"(\d+)g", service["mem_limit"])[1]
        assert process_of(default, name)["resources"]["limits"] == {"memory": f"{limit}Gi"}


@pytest.mark.parametrize("name", ["parse", "read"])
def test_temporary_folders_have_sizes_of_compose(default, name):
    (mount,) = SERVICES[f"worker-{name}"]["tmpfs"]
    (pod,) = [pod for pod in pods_of(default).values() if component(pod) == name]
    (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "tmp"]
    gigabytes = re.search(r"(\d+)g", mount)[1]

    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": f"{gigabytes}Gi"}


def policies_of(objects, pod):
    return [
        each["spec"]
        for each in of_kind(objects, "NetworkPolicy")
        if matches(each["spec"]["podSelector"], pod["metadata"]["labels"])
    ]


@guards(
    "deploy/helm/foreask/templates/network.yaml",
    "  policyTypes: [Ingress, Egress]",
    "  policyTypes: [Ingress]",
    means="processes that read untrusted files may reach every address",
)
def test_network_policies_are_networks_of_compose():
    objects = render(values_of("try"))
    compose = {name: service.get("networks", ["engines"]) for name, service in SERVICES.items() if name != "uploads"}
    names = {name.removeprefix("worker-"): networks for name, networks in compose.items()}
    rendered = {}
    for pod in pods_of(objects).values():
        if component(pod) == "test":
            continue
        policies = policies_of(objects, pod)
        assert len(policies) == 1, component(pod)
        egress = "Egress" not in policies[0]["policyTypes"]
        rendered[component(pod)] = ["engines", "outside"] if egress else ["engines"]
        for rule in policies[0].get("egress", []):
            assert rule["to"], "a rule without peers reaches every address"
    assert rendered == names
    published = {name.removeprefix("worker-") for name, service in SERVICES.items() if "ports" in service}
    open_ports = {
        component(pod): {
            port["port"]
            for rule in policies_of(objects, pod)[0]["ingress"]
            if "from" not in rule
            for port in rule["ports"]
        }
        for pod in pods_of(objects).values()
        if component(pod) != "test"
    }
    assert {name for name, ports in open_ports.items() if ports} == published == {"api"}
    assert open_ports["api"] == {8350}
    for name in ENGINES:
        (engine,) = [pod for pod in pods_of(objects).values() if component(pod) == name]
        (policy,) = policies_of(objects, engine)
        ((peer,),) = [rule["from"] for rule in policy["ingress"]]
        assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "foreask"


def test_tried_engines_have_separate_folders():
    for pod in pods_of(render(values_of("try"))).values():
        mounts = pod["spec"]["containers"][0].get("volumeMounts", [])
        folders = [(mount["name"], mount.get("subPath")) for mount in mounts]
        assert len(folders) == len(set(folders))


def test_tried_engines_have_images_of_compose():
    values = yaml.safe_load((CHART / "values.yaml").read_text())["try"]
    assert {name: values[f"{name}Image"] for name in ENGINES} == {name: SERVICES[name]["image"] for name in ENGINES}


def test_tried_pods_become_confined_containers():
    for pod in rendered_pods(render(values_of("try"))).values():
        for container in (*pod.spec.get("initContainers", []), pod.container):
            options = arguments(pod, container)  # fails if a field is not applied by `make chart-test`
            assert {"--user", "--read-only", "no-new-privileges", "--cap-drop", "--memory"} <= set(options), pod.name


def test_alerts_and_dashboard_equal_files_of_deploy():
    objects = render(values_of("production"))
    (rule,) = of_kind(objects, "PrometheusRule")
    (dashboard,) = of_kind(objects, "ConfigMap")

    assert rule["spec"] == yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())
    assert json.loads(dashboard["data"]["foreask.json"]) == json.loads((ROOT / "deploy/dashboard.json").read_text())


def job_name(values):
    (job,) = of_kind(render(values), "Job")
    return job["metadata"]["name"]


@guards(
    "deploy/helm/foreask/templates/schema.yaml",
    "{{ sha256sum $spec | trunc 8 }}",
    "job",
    means="the schema Job keeps its name when its specification changes",
)
def test_schema_job_changes_name_with_its_specification():
    first = job_name(VALID)

    assert first == job_name(VALID)
    assert first == job_name(merged(VALID, {"api": {"replicas": 1}}))
    assert first != job_name(merged(VALID, {"image": {"tag": "0.2.0"}}))
    assert first != job_name(merged(VALID, {"secrets": {"existingSecret": "others"}}))


@guards(
    "deploy/helm/foreask/templates/_workloads.tpl",
    '"extra" .extra)',
    '"extra" list)',
    means="containers that wait for the schema lack the certificate of PostgreSQL",
)
def test_every_container_has_extra_variables_and_volumes():
    extra = {
        "extraEnv": [{"name": "PGSSLROOTCERT", "value": "/certificates/ca.pem"}],
        "extraVolumes": [{"name": "certificates", "configMap": {"name": "authority"}}],
        "extraVolumeMounts": [{"name": "certificates", "mountPath": "/certificates"}],
    }
    pods = [pod for pod in pods_of(render(merged(VALID, {"pods": extra}))).values() if pod["owner"]["kind"] != "Pod"]

    assert len(pods) == len(PROCESSES) + 1  # the schema Job
    for container in (each for pod in pods for each in containers_of(pod)):  # each must reach PostgreSQL
        assert extra["extraEnv"][0] in container["env"]
        assert extra["extraVolumeMounts"][0] in container["volumeMounts"]
    assert all(extra["extraVolumes"][0] in pod["spec"]["volumes"] for pod in pods)


def test_tests_of_helm_run_on_nodes_of_processes():
    parse = {"nodeSelector": {"pool": "files"}, "tolerations": [{"key": "files", "operator": "Exists"}]}
    objects = render(merged(VALID, {"pods": {"nodeSelector": {"pool": "work"}}, "parse": parse}))

    found = {name: pod["spec"] for name, pod in pods_of(objects).items() if pod["owner"]["kind"] == "Pod"}
    ready, isolation = (next(found[each] for each in found if each.endswith(end)) for end in ("ready", "isolation"))
    assert ready["nodeSelector"] == {"pool": "work"}
    assert {name: isolation[name] for name in parse} == parse


def test_long_names_with_equal_starts_differ():
    first, second = (
        {
            (each["kind"], each["metadata"]["name"])
            for each in render(merged(VALID, {"nameOverride": f"{'a' * 40}-{end}"}))
        }
        for end in ("one", "two")
    )
    assert len(first) == len(second)
    assert first.isdisjoint(second)


def test_only_helm_test_has_hooks(default):
    hooks = {
        (each["kind"], each["metadata"]["annotations"]["helm.sh/hook"])
        for each in default
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }
    assert hooks == {("Pod", "test")}


def test_changed_setting_replaces_pods_that_use_it(default):
    changed = render(merged(VALID, {"settings": {"FOREASK_LLM_MAX_IN_FLIGHT": 8}}))
    templates = [
        {each["metadata"]["name"]: each["spec"]["template"] for each in of_kind(objects, "Deployment")}
        for objects in (default, changed)
    ]
    different = {name for name in templates[0] if templates[0][name] != templates[1][name]}
    assert different == {f"foreask-{name}" for name in ("api", "generate", "index", "scheduler")}


@guards(
    "deploy/helm/foreask/templates/_names.tpl",
    '(printf "%.0f" .)',
    "(toString .)",
    means="large numbers are rendered as floating point numbers",
)
def test_large_number_of_values_is_not_rounded():
    objects = render(merged(VALID, {"settings": {"FOREASK_MAX_UPLOAD_BYTES": 1234567890123}}))
    variables = {each["name"]: each.get("value") for each in process_of(objects, "api")["env"]}
    assert variables["FOREASK_MAX_UPLOAD_BYTES"] == "1234567890123"


@guards(
    "deploy/helm/foreask/templates/_workloads.tpl",
    "(div (add $pods 3) 4)",
    "0",
    means="the connections of an update are not counted",
)
def test_connections_include_pods_of_an_update():
    # (2 + 1) APIs x 10 + (2 + 1) schedulers x 10 + 4 roles x (1 + 1) x 4 + the Job + 3 of superusers
    assert refusal(merged(VALID, {"postgres": {"maxConnections": 96}})) == ""
    assert "96 connections" in refusal(merged(VALID, {"postgres": {"maxConnections": 95}}))


def test_archive_contains_chart_without_examples(tmp_path):
    helm = package("helm_python")
    path = helm.package(str(CHART), destination=str(tmp_path))
    helm.expand(str(tmp_path / "out"), path)

    packed = {
        str(each.relative_to(tmp_path / "out/foreask")) for each in (tmp_path / "out").rglob("*") if each.is_file()
    }
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md", "files/alerts.yml"} <= packed
    assert not any(name.startswith("ci/") for name in packed)
    with helm.Chart.load(path) as chart:
        assert chart.render(VALID, name="foreask", namespace=NAMESPACE)


@pytest.mark.parametrize("module", ["helm_python", "kubernetes_validate"])
def test_missing_package_fails_with_sentence(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnusableError, match="This says nothing about the chart") as caught:
        package(module)
    assert {"helm_python": "helm-python-sdk"}.get(module, "kubernetes-validate") in str(caught.value)


def test_other_helm_or_old_schemas_fail_with_sentence(monkeypatch):
    old = SimpleNamespace(helm_sdk_version=lambda: "v3.19.0")
    charts.chart.cache_clear()
    monkeypatch.setitem(sys.modules, "helm_python", old)
    with pytest.raises(UnusableError, match=r"contains Helm v3\.19\.0 instead of Helm 4"):
        charts.chart()
    monkeypatch.setattr(charts._utils(), "all_versions", lambda: ["1.37.0"])
    with pytest.raises(UnusableError, match="has schemas of"):
        kubernetes_versions()


def test_custom_objects_are_of_known_operators():
    objects = render(values_for({**SETS[0], "autoscaling": "ledger", "metrics": "all", "exposure": "route"}))
    unknown = {each["apiVersion"] for each in objects if each["apiVersion"].count(".") > 1}
    assert all(version.startswith((*CUSTOM, "networking.k8s.io")) for version in unknown)


def scaled_down(behaviour, pods, wanted):
    """Return the seconds after which an autoscaler with this behaviour has reduced `pods` to `wanted`.

    As the controller of HorizontalPodAutoscaler does: each policy allows a change within its period, `Max` chooses the
    largest change, and a number is reduced only if it was too large during the whole window.
    """
    down, seconds = behaviour["scaleDown"], behaviour["scaleDown"]["stabilizationWindowSeconds"]
    assert down["selectPolicy"] == "Max"
    (period,) = {policy["periodSeconds"] for policy in down["policies"]}
    while True:
        least = min(
            int(pods * (1 - policy["value"] / 100)) if policy["type"] == "Percent" else pods - policy["value"]
            for policy in down["policies"]
        )
        pods = max(least, wanted)
        if pods == wanted:
            return seconds
        seconds += period


@guards(
    "deploy/helm/foreask/templates/autoscaling.yaml",
    "- {type: Pods, value: 4, periodSeconds: 60}",
    "- {type: Pods, value: 1, periodSeconds: 60}",
    means="workers are removed one by one",
)
def test_sixteen_workers_become_one_within_five_minutes():
    objects = render(values_of("production"))
    (scaled,) = [each for each in of_kind(objects, "ScaledObject") if component(each) == "generate"]
    spec = scaled["spec"]
    polls = spec["pollingInterval"] + 15 + 15  # of KEDA, the survey of the scheduler, and the autoscaler's own

    behaviour = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert spec["maxReplicaCount"] == 16
    assert polls + scaled_down(behaviour, 16, 1) <= 300
    (trigger,) = spec["triggers"]
    assert (trigger["metricType"], trigger["metadata"]["targetQueryValue"]) == ("AverageValue", "1")


def test_scheduler_wants_no_more_workers_than_autoscaler_allows():
    objects = render(values_of("production"))
    variables = {each["name"]: each.get("value") for each in process_of(objects, "scheduler")["env"]}
    highest = max(each["spec"]["maxReplicaCount"] for each in of_kind(objects, "ScaledObject"))
    assert variables["FOREASK_WORKERS_MAX"] == str(highest)


def objects_named(objects, kind, name):
    (each,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return each


# Defects that Kubernetes' schemas accept, and a part of the rule's message.
DEFECTS = {
    "no limit": (lambda pod, _: pod["containers"][0]["resources"]["limits"].clear(), "no limits"),
    "privileges": (lambda pod, _: pod["containers"][0]["securityContext"].pop("allowPrivilegeEscalation"), "has {"),
    "root": (lambda pod, _: pod["securityContext"].update(runAsUser=0), "runs as root"),
    "token": (lambda pod, _: pod.update(automountServiceAccountToken=True), "mounts a token"),
    "no probe": (lambda pod, _: pod["containers"][0].pop("livenessProbe"), "probes"),
    "short grace": (lambda pod, _: pod.update(terminationGracePeriodSeconds=20), "is killed before"),
    "missing claim": (
        lambda pod, _: pod["volumes"][1]["persistentVolumeClaim"].update(claimName="another"),
        "claim another",
    ),
    "unmounted volume": (lambda pod, _: pod["volumes"].append({"name": "unused", "emptyDir": {}}), "volumes"),
    "variable set twice": (lambda pod, _: pod["containers"][0]["env"].append({"name": "FOREASK_REDIS_URL"}), "2 times"),
    "port of the Service": (lambda pod, _: pod["containers"][0]["ports"].pop(0), "ports"),
    "selector": (
        lambda _, objects: of_kind(objects, "PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"].clear(),
        "selects",
    ),
    "both bounds": (
        lambda _, objects: of_kind(objects, "PodDisruptionBudget")[0]["spec"].update(
            minAvailable=1, maxUnavailable="25%"
        ),
        "both bounds",
    ),
    "minimum above the maximum": (
        lambda _, objects: of_kind(objects, "HorizontalPodAutoscaler")[0]["spec"].update(minReplicas=9),
        "scales from 9 to 6",
    ),
    "two owners of a number": (
        lambda _, objects: objects_named(objects, "Deployment", "foreask-api")["spec"].update(replicas=2),
        "two owners",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_rules_report_defect(name):
    break_it, message = DEFECTS[name]
    scaled = {"autoscaling": {"mode": "hpa"}, "postgres": {"maxConnections": 500}}
    objects = render(merged(VALID, scaled))
    assert violations(objects, OUTSIDE) == []

    break_it(objects_named(objects, "Deployment", "foreask-api")["spec"]["template"]["spec"], objects)

    assert any(message in each for each in violations(objects, OUTSIDE))


def test_page_has_numbers_of_chart():
    page = (ROOT / "docs/how-to/run-on-kubernetes.md").read_text()
    production = values_of("production")
    sum_of_page = re.search(r"^    = .* = (\d+)$", page, re.MULTILINE)[1]

    assert refusal(merged(production, {"postgres": {"maxConnections": int(sum_of_page)}})) == ""
    assert sum_of_page in refusal(merged(production, {"postgres": {"maxConnections": int(sum_of_page) - 1}}))
    assert f"| {len(WRONG)} wrong values" in page


def test_readme_lists_keys_of_secret():
    schema = json.loads((CHART / "values.schema.json").read_text())
    section = (CHART / "README.md").read_text().partition("## Which keys")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(FOREASK_\w+)`", section)) == set(schema["definitions"]["secretKey"]["enum"])
