"""The environment of the processes of `foreask up`."""

import os
import re
from datetime import timedelta
from io import StringIO
from itertools import filterfalse
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr
from rich.console import Console

from cli.launcher import drawn_key, embedded_llm_settings, key_of, warn_about_confinement
from cli.programs import WorkerCounts, children
from shared.confined import confinement
from shared.domain.access.key_texts import hash_of
from shared.process.network import hosts_of
from shared.settings import ApiKey, Settings, load
from shared.settings.secrets_of_roles import SECRETS, unneeded_variables
from tests.support.deployment import ROOT
from tests.support.planted import guards

OF_FILES = ("worker-parse", "worker-read")


EVERY_SECRET = {
    "redis_url": "redis://user:needed@host",
    "qdrant_api_key": "of-qdrant",
    "store_options": '{"of": "store"}',
    "api_keys": "acme:0123456789abcdef0123456789abcdef",
    "operator_keys": "0123456789abcdef0123456789abcdef",
    "llm_api_key": "of-llm",
    "embedding_api_key": "of-embedding",
    "embeddings": '{"large": {"model": "large", "api_key": "of-large"}}',
    "rerank_api_key": "of-rerank",
    "oidc_client_secret": "of-oidc",
}
SOURCE = "FOREASK_SOURCE_SECRET_WIKI"


def role_of(child):
    return child.name.removeprefix("worker-")


def programs_of(settings):
    return list(children(settings.environment(), Path(), WorkerCounts(), host="127.0.0.1", port=1, grace=timedelta()))


@guards(
    "cli/programs.py",
    "environment=environment_of(role, environment),",
    "environment=dict(environment),",
    means="every process has every secret",
)
def test_programs_get_only_secrets_of_their_roles(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in EVERY_SECRET.items():
        monkeypatch.setenv(f"FOREASK_{name.upper()}", value)
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-aws")
    monkeypatch.setenv(SOURCE, '{"uri": "https://wiki.example/", "token": "of-wiki"}')
    settings = load()

    for child in programs_of(settings):
        needed = SECRETS[role_of(child)]
        inherited = {**os.environ, **child.environment}  # as the process gets it
        for name in EVERY_SECRET:
            assert bool(inherited[f"FOREASK_{name.upper()}"]) is (name in needed), (child.name, name)
        seen = "\n".join(value for name, value in inherited.items())
        assert ("of-aws" in seen) is ("store_options" in needed)
        assert ("of-wiki" in seen) is ("source_secrets" in needed) is (child.name in OF_FILES)
        assert ("of-large" in seen) is ("embedding_api_key" in needed)
        assert "of-openai" not in seen or "llm_api_key" in needed
        with monkeypatch.context() as process:
            for name, value in inherited.items():
                process.setenv(name, value)
            assert list(load().embeddings) == (["large"] if "embeddings" in needed else [])


@guards(
    "shared/settings/settings.py",
    "[env_settings] if is_alone() else",
    "[env_settings] if False else",
    means="each process reads all secrets of the file .env",
)
def test_programs_read_no_secret_from_dotenv(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f'FOREASK_LLM_API_KEY=of-llm\n{SOURCE}={{"uri": "https://a.example/"}}\n')
    settings = load()
    assert settings.llm_api_key == SecretStr("of-llm")

    for child in programs_of(settings):
        needed = SECRETS[role_of(child)]
        with monkeypatch.context() as process:
            for name, value in child.environment.items():
                process.setenv(name, value)
            assert bool(load().llm_api_key) is ("llm_api_key" in needed), child.name
            assert bool(load().source_secrets) is ("source_secrets" in needed), child.name


def listed(value):
    return value if isinstance(value, list) else [value]


COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
SERVICES = {role: role if role in ("api", "scheduler", "schema") else f"worker-{role}" for role in SECRETS}


@pytest.mark.parametrize("role", sorted(SECRETS.keys() - {"check", "ingest"}))
def test_compose_gives_services_secrets_of_their_roles(role):
    service = COMPOSE[SERVICES[role]]
    given = service["environment"]
    files = [each if isinstance(each, str) else each["path"] for each in listed(service["env_file"])]
    has_everything = files == ["${FOREASK_ENV_FILE:-.env}"]
    of_database = re.compile(r"FOREASK_\w+_DATABASE_PASSWORD_FILE")  # compose needs their values in .env
    for variable in filterfalse(of_database.fullmatch, unneeded_variables(role)):
        assert given.get(variable, None if has_everything else "") == "", variable
    assert ("sources.env" in files) is ("source_secrets" in SECRETS[role])
    for name in SECRETS[role] - {"source_secrets"}:
        assert given.get(f"FOREASK_{name.upper()}", "" if not has_everything else None) != "", name


def test_programs_know_only_their_own_database_role():
    url, own = SecretStr("postgresql://foreask:owners@127.0.0.1:5432/foreask"), SecretStr("p@ss/word")
    settings = Settings(database_url=url, app_database_password=own, parse_database_password=SecretStr("parsers"))
    for child in programs_of(settings):
        role = "foreask_parse:parsers" if child.name in OF_FILES else "foreask_app:p%40ss%2Fword"
        assert child.environment["FOREASK_DATABASE_URL"] == f"postgresql://{role}@127.0.0.1:5432/foreask"
        assert not {"p@ss/word", "parsers"} & set(child.environment.values())
        assert not [value for value in child.environment.values() if "owners" in value]


def test_drawn_key_is_private_and_stays(tmp_path):
    path = drawn_key(tmp_path / "data")
    key = path.read_text()
    settings = Settings(_env_file=None).model_copy(update=key_of(path))

    assert drawn_key(tmp_path / "data") == path
    assert path.read_text() == key
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not settings.is_keyless
    assert settings.api_keys == (ApiKey("default", hash_of(key)),)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"llm_timeout": timedelta(minutes=30), "llm_max_in_flight": 4, "shutdown_timeout": timedelta(seconds=3)}),
        ({"llm_timeout": 60, "shutdown_timeout": 20}, {"llm_max_in_flight": 4}),
        ({"llm_model": "another"}, {}),
        ({"llm_base_url": "http://elsewhere/v1"}, {}),
    ],
)
def test_embedded_model_has_its_own_defaults(given, expected):
    assert embedded_llm_settings(Settings(_env_file=None, **given)) == expected


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        ([], ""),
        (
            ["Landlock"],
            "! This system lacks Landlock: a file that takes control of the process that parses it is",
        ),
        (["seccomp", "Landlock"], "! This system lacks seccomp and Landlock: a file that takes control"),
    ],
)
def test_up_reports_missing_kernel_features(monkeypatch, lacking, expected):
    monkeypatch.setattr(confinement, "lacking", lambda: lacking)
    out = StringIO()
    warn_about_confinement(Console(file=out))

    assert out.getvalue().startswith(expected)
    assert bool(out.getvalue()) == bool(expected)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("http://127.0.0.1:6333", "127.0.0.1:6333"),
        ("http://a:6333, https://b,http://[::1]:6333/path", "a:6333, b, [::1]:6333"),
        ("postgresql://user:p@ss@a:5432,b:5432/foreask", "a:5432,b:5432"),
        ("rediss://:secret@broker:6379/0", "broker:6379"),
        ("redis://:pa,ss@broker:6379/0", "broker:6379"),
        ("", ""),
    ],
)
def test_start_shows_hosts_without_passwords(url, hosts):
    assert hosts_of(url) == hosts
