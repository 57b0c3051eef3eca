"""Options of sources: frozen models, whose errors are sentences for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from posixpath import basename
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shared.domain.errors import InvalidInput

O = TypeVar("O", bound="Options")  # noqa: E741 - the usual name of a type variable has one letter


def _split(value: object) -> object:
    """Return the items of a text that is separated by commas, as the command line sends a list."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_split)]


class Options(BaseModel):
    """Options of a kind of source. Unknown options are refused, because a misspelt filter would have no effect."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class FileOptions(Options):
    """Selection of files. A pattern of a shell is compared with the key and with its last segment; `*` matches `/`."""

    include: Texts = Field((), description="patterns; if there are any, a key must match at least one")
    exclude: Texts = Field((), description="patterns; a key must not match any")
    hidden: bool = Field(default=False, description="whether names that start with a dot are read")
    copy_files: bool = Field(
        default=False,
        description="whether the bytes are copied, so that old versions can be read again; otherwise they are read from"
        " the source whenever they are needed",
    )

    def selects(self, key: str) -> bool:
        """Return whether the file with this key belongs to the source."""
        if not self.hidden and _is_hidden(key):
            return False
        return (not self.include or _matches(key, self.include)) and not _matches(key, self.exclude)

    def skips(self, folder: str) -> bool:
        """Return whether no key in a folder, such as `drafts/`, can be selected: its listing is unnecessary."""
        if not self.hidden and _is_hidden(folder):
            return True
        return any(fnmatchcase(folder, pattern) for pattern in self.exclude if pattern.endswith("*"))


class BucketOptions(Options):
    """Location of a bucket."""

    region: str | None = Field(
        None, pattern=r"^[a-z0-9-]{1,40}$", description="region of a public bucket in S3; default: us-east-1"
    )


class ObjectOptions(FileOptions, BucketOptions):
    """Selection of objects, and the location of their bucket."""


def read_options(kind: type[O], given: Mapping[str, Any]) -> O:
    """Return the options of a source.

    Raises:
        InvalidInput: an option is unknown or has an invalid value; the message has a sentence for each.
    """
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        field = ".".join(("options", *map(str, problems[0]["loc"][:1])))
        raise InvalidInput(" ".join(_sentences(kind, problems)), field=field) from None


def _sentences(kind: type[Options], problems: Iterable[Any]) -> Iterable[str]:
    for problem in problems:
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if problem["type"] == "extra_forbidden":
            yield f"There is no option {name}; the options are {', '.join(kind.model_fields)}."
        elif problem["type"] == "missing":
            yield f"The option {name} is required: {kind.model_fields[name].description}."
        elif not name:  # a sentence about several options
            yield _reason(problem)
        else:
            reason = _reason(problem)
            yield f"The option {name} cannot be used: {reason[:1].lower()}{reason[1:]}."


def _reason(problem: Any) -> str:
    return str(problem["msg"]).removeprefix("Value error, ")


def _is_hidden(key: str) -> bool:
    return key.startswith(".") or "/." in key


def _matches(key: str, patterns: Iterable[str]) -> bool:
    name = basename(key)
    return any(fnmatchcase(key, pattern) or fnmatchcase(name, pattern) for pattern in patterns)
