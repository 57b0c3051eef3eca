"""Options of sources: frozen models, whose errors are sentences for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from posixpath import basename
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from features.sources.permissions import Rules, readers_by_rule
from shared.domain.errors import InvalidInput

O = TypeVar("O", bound="Options")  # noqa: E741 - the usual name of a type variable has one letter


def _split(value: object) -> object:
    """Return the items of a text that is separated by commas, as the command line sends a list."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_split)]


class Options(BaseModel):
    """Options of a kind of source. Unknown options are refused, because a misspelt filter would have no effect."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    readers: Rules = Field(
        None,
        description="rules that name who reads the documents: the first one whose `match` fits the key decides, and"
        " without one no person reads the document; default: the source does not change readers",
    )

    @property
    def entries_name_readers(self) -> bool:
        """Whether the entries themselves name who reads their documents."""
        return False

    @property
    def names_readers(self) -> bool:
        """Whether the source decides who reads its documents."""
        return self.readers is not None or self.entries_name_readers

    def readers_of(self, key: str, named: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return who reads the document of an entry; None if the source does not decide it.

        Args:
            key: key of the entry.
            named: readers that the entry itself names; None: it names none.
        """
        if self.readers is not None:
            return readers_by_rule(self.readers, self._names_of(key))
        return (named or ()) if self.entries_name_readers else None

    def _names_of(self, key: str) -> tuple[str, ...]:
        """Return the names of an entry with which the patterns of rules are compared."""
        return (key,)

    @model_validator(mode="after")
    def _require_one_decision(self) -> Self:
        if self.readers is not None and self.entries_name_readers:
            raise ValueError("Set either readers, or an option that reads them from the entries.")
        return self


class ColumnOptions(Options):
    """Options of rows, of which a column may name the readers."""

    readers_column: str | None = Field(
        None,
        min_length=1,
        description="the column that names who reads the document of a row: a list, a text with commas, or JSON; empty:"
        " no person",
    )

    @property
    def entries_name_readers(self) -> bool:
        return self.readers_column is not None


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


class FolderOptions(FileOptions):
    """Selection of files, whose permissions may name the readers."""

    permissions: bool = Field(
        default=False,
        description="whether the permissions of files and folders name who reads the documents: `everyone`,"
        " `group:NAME` and `user:NAME` of the owner",
    )

    @property
    def entries_name_readers(self) -> bool:
        return self.permissions


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
        is_whole = len(problem["loc"]) < 2  # noqa: PLR2004 - otherwise a part of an option has the problem
        if problem["type"] == "extra_forbidden" and is_whole:
            yield f"There is no option {name}; the options are {', '.join(kind.model_fields)}."
        elif problem["type"] == "missing" and is_whole:
            yield f"The option {name} is required: {kind.model_fields[name].description}."
        elif not name:  # a sentence about several options
            yield _reason(problem)
        else:
            reason = _reason(problem).removesuffix(".")
            yield f"The option {name} cannot be used: {_part(problem['loc'])}{reason[:1].lower()}{reason[1:]}."


def _part(location: Sequence[int | str]) -> str:
    """Return the part of an option that has a problem, such as `rule 2, match: `; empty if it is the whole option."""
    match location:
        case (_, int(index), str(name), *_):
            return f"rule {index + 1}, {name}: "
        case (_, int(index), *_):
            return f"item {index + 1}: "
        case _:
            return ""


def _reason(problem: Any) -> str:
    return str(problem["msg"]).removeprefix("Value error, ")


def _is_hidden(key: str) -> bool:
    return key.startswith(".") or "/." in key


def _matches(key: str, patterns: Iterable[str]) -> bool:
    name = basename(key)
    return any(fnmatchcase(key, pattern) or fnmatchcase(name, pattern) for pattern in patterns)
