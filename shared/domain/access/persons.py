"""Persons, and the documents that they may read.

A document names its readers: `everyone`, `user:NAME` and `group:NAME`. A person matches by their own name and groups.
The names come from an identity provider, or from the application that asks for a person; foreask has no list of them.
They are compared exactly, in the composed form of Unicode: a name in another case is another name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.domain.errors import Forbidden, InvalidInput
from shared.domain.text.unicode_form import composed

EVERYONE = "everyone"
UNSET = "unset"  # stored for a document that names no readers: the settings decide who reads it
NONE_NAMED = (UNSET,)
MOST_READERS = 500  # of a document: they are part of each of its points
MOST_GROUPS = 1_000  # of a person: they are part of each search
MOST_CHARS = 256  # of a name
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_KINDS = ("user:", "group:")
_FORMS = "`everyone`, `user:NAME` or `group:NAME`"


@dataclass(frozen=True, slots=True)
class Person:
    """A person on whose behalf a request reads documents.

    Args:
        user: name of the user.
        groups: names of the user's groups.
    """

    user: str
    groups: frozenset[str] = frozenset()

    def principals(self, *, reads_unset: bool) -> tuple[str, ...]:
        """Return the readers that the person matches, sorted.

        Args:
            reads_unset: whether every person reads documents that name no readers.
        """
        names = {EVERYONE, f"user:{self.user}", *(f"group:{group}" for group in self.groups)}
        return tuple(sorted(names | {UNSET} if reads_unset else names))


def person_of(user: str, groups: Iterable[str]) -> Person:
    """Check the names of a person.

    Raises:
        InvalidInput: a name is empty, too long, or has control characters.
        Forbidden: the person has too many groups.
    """
    names = frozenset(_name(group) for group in groups)
    if len(names) > MOST_GROUPS:
        raise Forbidden(
            f"The person has {len(names):,} groups; at most {MOST_GROUPS:,} are possible: let the identity provider, or"
            " the application, send only groups that documents name."
        )
    return Person(_name(user), names)


def readers_of(names: Sequence[str]) -> tuple[str, ...]:
    """Check the readers of a document; return them sorted and once each. None of them: no person reads it.

    Raises:
        InvalidInput: one is malformed, or there are too many.
    """
    if len(names) > MOST_READERS:
        raise InvalidInput(
            f"A document names at most {MOST_READERS} readers, and this one {len(names):,}: name groups.",
            field="readable_by",
        )
    return tuple(sorted({_reader(name) for name in names}))


def stored_readers(readers: Sequence[str] | None) -> tuple[str, ...]:
    """Return the readers as the ledger and Qdrant store them; None: the document names none."""
    return NONE_NAMED if readers is None else tuple(readers)


def named_readers(stored: Sequence[str]) -> tuple[str, ...] | None:
    """Return the named readers among stored ones; None if the document names none."""
    return None if tuple(stored) == NONE_NAMED else tuple(stored)


def may_read(principals: Iterable[str] | None, stored: Iterable[str]) -> bool:
    """Return whether these principals read a document; None stands for a caller who reads every document."""
    return principals is None or not frozenset(principals).isdisjoint(stored)


def _reader(name: str) -> str:
    if name == EVERYONE:
        return name
    kind = next((kind for kind in _KINDS if name.startswith(kind)), None)
    if kind is None:
        raise InvalidInput(f"A reader is {_FORMS}, not {name[:50]!r}.", field="readable_by")
    try:
        return kind + _name(name.removeprefix(kind))
    except InvalidInput as error:
        raise InvalidInput(error.message, field="readable_by") from None


def _name(name: str) -> str:
    """Check the name of a user or a group.

    Raises:
        InvalidInput: it is empty, too long, or has control characters.
    """
    name = composed(name)
    if not name.strip() or len(name) > MOST_CHARS or _CONTROL.search(name):
        raise InvalidInput(
            f"The name of a user or a group has 1 to {MOST_CHARS} characters, without control characters."
        )
    return name
