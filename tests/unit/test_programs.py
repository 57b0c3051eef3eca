"""The environment of the processes of `foreask up`."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from pydantic import SecretStr
from rich.console import Console

from cli.launcher import embedded_llm_settings, warn_about_confinement
from cli.programs import Crew, children
from shared.confined import confinement
from shared.process.network import hosts_of
from shared.settings import Settings

OF_FILES = ("worker-parse", "worker-read")


def test_workers_of_files_get_no_unused_keys():
    key, url = SecretStr("a-secret"), SecretStr("redis://user:needed@host")
    settings = Settings(llm_api_key=key, embedding_api_key=key, qdrant_api_key=key, redis_url=url)
    crew = children(settings.environment(), Path(), Crew(), host="127.0.0.1", port=1, grace=timedelta())
    environments = {child.name: child.environment for child in crew}

    for name, environment in environments.items():
        assert ("a-secret" in environment.values()) is (name not in OF_FILES)
        assert environment["FOREASK_REDIS_URL"] == "redis://user:needed@host"
    for name in OF_FILES:
        assert environments[name]["OPENAI_API_KEY"] == ""  # otherwise it would inherit the parent's key


def test_programs_know_only_their_own_database_role():
    url, own = SecretStr("postgresql://foreask:owners@127.0.0.1:5432/foreask"), SecretStr("p@ss/word")
    settings = Settings(database_url=url, app_database_password=own, parse_database_password=SecretStr("parsers"))
    crew = children(settings.environment(), Path(), Crew(), host="127.0.0.1", port=1, grace=timedelta())

    for child in crew:
        role = "foreask_parse:parsers" if child.name in OF_FILES else "foreask_app:p%40ss%2Fword"
        assert child.environment["FOREASK_DATABASE_URL"] == f"postgresql://{role}@127.0.0.1:5432/foreask"
        assert not {"p@ss/word", "parsers"} & set(child.environment.values())
        assert not [value for value in child.environment.values() if "owners" in value]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"llm_timeout": timedelta(minutes=30), "llm_max_in_flight": 4, "grace": timedelta(seconds=3)}),
        ({"llm_timeout": 60, "grace": 20}, {"llm_max_in_flight": 4}),
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
