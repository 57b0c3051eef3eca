"""The secrets that the processes of each role need. No other secret is in their environment.

`foreask up` reads this table, and tests compare docker-compose.yml and the chart with it. Each name is a setting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from shared.settings.settings import Settings
from shared.settings.sources import NAMED, secrets, variables_of

_ENGINES = frozenset({"database_url", "redis_url"})
_UPLOADS = frozenset({"store_options"})
_INDEX = frozenset({"qdrant_api_key"})
# Queries and evaluations embed, rewrite and rerank; `embeddings` also contains the names of models, which others need.
_MODELS = frozenset({"llm_api_key", "embedding_api_key", "rerank_api_key", "embeddings"})
_SOURCES = frozenset({"source_secrets"})
SECRETS: Mapping[str, frozenset[str]] = {
    "api": _ENGINES | _UPLOADS | _INDEX | _MODELS | {"api_keys", "operator_keys", "oidc_client_secret"},
    "parse": _ENGINES | _UPLOADS | _SOURCES,
    "read": _ENGINES | _UPLOADS | _SOURCES,
    "generate": _ENGINES | {"llm_api_key", "embeddings"},
    "index": _ENGINES | _INDEX | _MODELS,
    "ingest": _ENGINES | _INDEX | _MODELS,
    "scheduler": _ENGINES | _UPLOADS | _INDEX | {"embeddings"},
    "schema": frozenset({"database_url", *(f"{role}_database_password" for role in ("app", "parse", "scale"))}),
    "check": _ENGINES | _UPLOADS | _INDEX | _MODELS,  # `foreask check`
}
# Variables of object stores, which their clients read without the settings.
STORE_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)


def environment_of(role: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a process of a role, with an empty value for each secret that it does not need.

    Args:
        role: role of the process.
        environment: settings of all processes, as `Settings.environment` returns them.
    """
    needed = SECRETS[role]
    given = {**environment, **dict.fromkeys(unneeded_variables(role), "")}
    if "source_secrets" not in needed:
        given |= {name: "" for name in environment if name.startswith(NAMED)}
    if "embedding_api_key" not in needed and given["FOREASK_EMBEDDINGS"]:
        given["FOREASK_EMBEDDINGS"] = _without_keys(given["FOREASK_EMBEDDINGS"])
    return given


def unneeded_variables(role: str) -> Iterator[str]:
    """Yield the variables of the secrets, and of the files with secrets, that a role does not need."""
    needed = SECRETS[role]
    for name, field in secrets(Settings):
        if name not in needed:
            for variable in variables_of(name, field):
                yield variable
                yield f"{variable}_FILE"
    if "store_options" not in needed:
        yield from STORE_VARIABLES


def _without_keys(embeddings: str) -> str:
    return json.dumps({name: entry | {"api_key": None} for name, entry in json.loads(embeddings).items()})
