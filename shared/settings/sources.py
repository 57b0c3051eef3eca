"""Sources of settings: variables, lines of `.env`, and files that contain one secret each."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import AliasChoices, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource, PydanticBaseSettingsSource

from shared.domain.errors import InvalidInput

PREFIX = "FOREASK_"
ALONE = "FOREASK_ENVIRONMENT_ALONE"  # if it is set, `.env` is not read
NAMED = "FOREASK_SOURCE_SECRET_"  # first part of the variables of the field `source_secrets`
_NAMED_FIELD = "source_secrets"
_FILE = "_FILE"
# Variables of other programs: the command line (server, key and token) and docker-compose.yml (image, port and files).
_OF_OTHER_PROGRAMS = {"FOREASK_URL", "FOREASK_API_KEY", "FOREASK_TOKEN", "FOREASK_COLLECTION", ALONE} | {
    f"FOREASK_{name}" for name in ("PUBLISH", "PORT", "ENV_FILE", "IMAGE")
}
# Kubernetes sets such variables in every container, for a service with the name foreask, too.
_OF_KUBERNETES = re.compile(r"FOREASK_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")


class NamedSecrets(PydanticBaseSettingsSource):
    """Reads `FOREASK_SOURCE_SECRET_NAME`, or the file that `FOREASK_SOURCE_SECRET_NAME_FILE` names, for every NAME.

    Args:
        variables: the environment or `.env`.
    """

    def __init__(self, variables: EnvSettingsSource) -> None:
        super().__init__(variables.settings_cls)
        self._variables = variables.env_vars

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the values of the field by name.

        Raises:
            InvalidInput: a file cannot be read, or a secret is also set as a variable.
        """
        del field
        values: dict[str, str] = {}
        for variable, value in self._variables.items():
            name = variable.upper().removeprefix(NAMED)
            if not value or name == variable.upper():
                continue
            if not name.endswith(_FILE):
                values[name] = value
            elif self._variables.get(variable.removesuffix(_FILE.lower())):
                single = variable.upper().removesuffix(_FILE)
                raise InvalidInput(f"{single} and {single}_FILE are both set: keep one of them.", field=single)
            else:
                values[name.removesuffix(_FILE)] = _read(variable.upper().removesuffix(_FILE), Path(value))
        return values, field_name, False

    def __call__(self) -> dict[str, Any]:
        field = self.settings_cls.model_fields[_NAMED_FIELD]
        values, *_ = self.get_field_value(field, _NAMED_FIELD)
        return {_key(_NAMED_FIELD, field): values} if values else {}


class SecretFiles(PydanticBaseSettingsSource):
    """Reads `FOREASK_NAME_FILE`, the path of a file that contains the secret `FOREASK_NAME`.

    Args:
        variables: the environment or `.env`, with the names of the files.
    """

    def __init__(self, variables: EnvSettingsSource) -> None:
        super().__init__(variables.settings_cls)
        self._variables = variables.env_vars

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the file's content; None without a file.

        Raises:
            InvalidInput: the file cannot be read, or the secret is also set as a variable.
        """
        variable, *_ = variables_of(field_name, field)
        path = self._variables.get(f"{variable}_FILE".lower())
        if path is None:
            return None, variable, False
        if self._variables.get(variable.lower()) is not None:
            raise InvalidInput(f"{variable} and {variable}_FILE are both set: keep one of them.", field=variable)
        return _read(variable, Path(path)), _key(field_name, field), False

    def __call__(self) -> dict[str, Any]:
        values = {}
        for name, field in secrets(self.settings_cls):
            value, key, _ = self.get_field_value(field, name)
            if value is not None:
                values[key] = value
        return values


def secrets(kind: type[BaseSettings]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields whose values are masked in all output; each may be read from a file.

    The secrets of sources are variables of their own, and their setting shows only names.
    """
    for name, field in kind.model_fields.items():
        if name == _NAMED_FIELD:
            continue
        if name in {"api_keys", "operator_keys", "embeddings"} or SecretStr in get_args(field.annotation):
            yield name, field


def variables_of(name: str, field: FieldInfo) -> list[str]:
    """Return the variables of a field, our own first."""
    alias = field.validation_alias
    return [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [PREFIX + name.upper()]


def every_setting(kind: type[BaseSettings]) -> Iterator[list[str]]:
    """Yield the variables of each setting, our own first."""
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from ([f"{PREFIX}{name}__{nested}".upper()] for nested in field.annotation.model_fields)
        else:
            yield variables_of(name, field)


def sources(kind: type[BaseSettings]) -> dict[str, Mapping[str, str | None]]:
    """Return the variables of the environment and of `.env`, in lower case; the environment has precedence."""
    lines = {} if is_alone() else DotEnvSettingsSource(kind).env_vars
    return {"environment": EnvSettingsSource(kind).env_vars, ".env": lines}


def is_alone() -> bool:
    """Return whether the environment is complete, so that `.env` must not add secrets that a process does not need."""
    return bool(os.environ.get(ALONE))


def require_known(kind: type[BaseSettings]) -> None:
    """Reject unknown variables with our prefix, because a misspelt limit would have no effect.

    Raises:
        InvalidInput: the environment or `.env` sets an unknown variable; the message names the nearest setting.
    """
    names = {variable for variables in every_setting(kind) for variable in variables}
    names |= {PREFIX + name.upper() for name in kind.model_fields} | _OF_OTHER_PROGRAMS
    names |= {f"{PREFIX}{name}_FILE".upper() for name, _ in secrets(kind)}
    given = {name.upper() for variables in sources(kind).values() for name in variables}
    known = re.compile(f"{_OF_KUBERNETES.pattern}|{NAMED}[A-Z0-9_]+")
    unknown = sorted(name for name in given - names if name.startswith(PREFIX) and not known.fullmatch(name))
    if unknown:
        raise InvalidInput(" ".join(_correction(name, names) for name in unknown), field=unknown[0])


def origin(variables: list[str], given: Mapping[str, Mapping[str, str | None]]) -> str:
    """Return the origin of a setting's value.

    Args:
        variables: the setting's variables, our own first.
        given: the set variables of each source.
    """
    for source, values in given.items():
        for variable in variables:
            if values.get(variable.lower()) is not None:
                return source if variable.startswith(PREFIX) else f"{variable} in {source}"
            if (path := values.get(f"{variable}_FILE".lower())) is not None:
                return f"file {path}"
    return "default"


def _correction(name: str, names: set[str]) -> str:
    # Names are compared without the common prefix, which would make all of them similar.
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in names], n=1)
    if nearest:
        return f"{name} is not a setting: did you mean {PREFIX}{nearest[0]}?"
    return f"{name} is not a setting: remove it, or find its name in docs/reference/settings.md."


def _key(name: str, field: FieldInfo) -> str:
    """Return the name by which pydantic accepts the value: the alias, if the field has one."""
    return variables_of(name, field)[0] if field.validation_alias is not None else name


def _read(variable: str, path: Path) -> str:
    try:
        content = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInput(f"{variable}_FILE: {path} cannot be read: {reason}.", field=f"{variable}_FILE") from None
    if not content:
        raise InvalidInput(f"{variable}_FILE: {path} is empty.", field=f"{variable}_FILE")
    return content
