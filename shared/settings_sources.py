"""Where settings come from: variables, lines of `.env`, and files that hold one secret each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import AliasChoices, BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource, PydanticBaseSettingsSource

from shared.domain.errors import InvalidInput

PREFIX = "FOREASK_"
# Names that others read: the command line its server and key, docker-compose.yml what it runs, publishes and reads.
_ELSEWHERE = {"FOREASK_URL", "FOREASK_API_KEY"} | {
    f"FOREASK_{name}" for name in ("PUBLISH", "PORT", "ENV_FILE", "IMAGE")
}
# Kubernetes gives every container such variables for each service, so also for one that is called foreask.
_OF_KUBERNETES = re.compile(r"FOREASK_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")


class SecretFiles(PydanticBaseSettingsSource):
    """Reads `FOREASK_NAME_FILE`, the path of a file that holds the secret `FOREASK_NAME`.

    Args:
        variables: the environment, or `.env`, that names the files.
    """

    def __init__(self, variables: EnvSettingsSource) -> None:
        super().__init__(variables.settings_cls)
        self._variables = variables.env_vars

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the file's content, None where no file is named.

        Raises:
            InvalidInput: the file cannot be read, or the secret is given a second time, as a variable.
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
    """Yield the fields whose values no output shows; each may come from a file."""
    for name, field in kind.model_fields.items():
        if name in {"api_keys", "operator_keys", "embeddings"} or SecretStr in get_args(field.annotation):
            yield name, field


def variables_of(name: str, field: FieldInfo) -> list[str]:
    """The variables that give a field, ours first."""
    alias = field.validation_alias
    return [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [PREFIX + name.upper()]


def every_setting(kind: type[BaseSettings]) -> Iterator[list[str]]:
    """Yield the variables of each setting, ours first."""
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from ([f"{PREFIX}{name}__{nested}".upper()] for nested in field.annotation.model_fields)
        else:
            yield variables_of(name, field)


def sources(kind: type[BaseSettings]) -> dict[str, Mapping[str, str | None]]:
    """The variables of the environment and of `.env`, in small letters; the first counts more."""
    return {"environment": EnvSettingsSource(kind).env_vars, ".env": DotEnvSettingsSource(kind).env_vars}


def require_known(kind: type[BaseSettings]) -> None:
    """Refuse variables that look like settings and are none: a misspelt limit would be no limit.

    Raises:
        InvalidInput: one is set, in the environment or in `.env`; the message names the nearest setting.
    """
    known = {variable for variables in every_setting(kind) for variable in variables}
    known |= {PREFIX + name.upper() for name in kind.model_fields} | _ELSEWHERE
    known |= {f"{PREFIX}{name}_FILE".upper() for name, _ in secrets(kind)}
    given = {name.upper() for variables in sources(kind).values() for name in variables}
    unknown = sorted(name for name in given - known if name.startswith(PREFIX) and not _OF_KUBERNETES.fullmatch(name))
    if unknown:
        raise InvalidInput(" ".join(_correction(name, known) for name in unknown), field=unknown[0])


def origin(variables: list[str], given: Mapping[str, Mapping[str, str | None]]) -> str:
    """Say where the value of a setting comes from.

    Args:
        variables: those that give it, ours first.
        given: the variables of each place.
    """
    for source, values in given.items():
        for variable in variables:
            if values.get(variable.lower()) is not None:
                return source if variable.startswith(PREFIX) else f"{variable} in {source}"
            if (path := values.get(f"{variable}_FILE".lower())) is not None:
                return f"file {path}"
    return "default"


def _correction(name: str, known: set[str]) -> str:
    # Without the prefix, which all have in common: with it everything is near.
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
    if nearest:
        return f"{name} is no setting: did you mean {PREFIX}{nearest[0]}?"
    return f"{name} is no setting: take it away, or find its name in docs/reference/settings.md."


def _key(name: str, field: FieldInfo) -> str:
    """The name under which pydantic takes the value: the alias where there is one."""
    return variables_of(name, field)[0] if field.validation_alias is not None else name


def _read(variable: str, path: Path) -> str:
    try:
        content = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InvalidInput(f"{variable}_FILE: {path} cannot be read: {reason}.", field=f"{variable}_FILE") from None
    if not content:
        raise InvalidInput(f"{variable}_FILE: {path} is empty.", field=f"{variable}_FILE")
    return content
