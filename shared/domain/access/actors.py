"""The authors of changes of settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class ActorKind(StrEnum):
    """The origin of a change."""

    KEY = "key"  # a key of the tenant
    PERSON = "person"  # a user of the identity provider, or a user for whom a key acts
    OPERATOR = "operator"  # an operator's key
    COMMAND_LINE = "command line"  # a command that changed the ledger without the API
    LOCAL = "local"  # a program on the machine of an API that requires no keys


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of changes.

    Args:
        kind: origin of the changes.
        name: name of the key or of the user; None without either.
        key_id: id of the key in the ledger; None for a key of the settings, or without a key.
    """

    kind: ActorKind
    name: str | None = None
    key_id: UUID | None = None


COMMAND_LINE = Actor(ActorKind.COMMAND_LINE)
