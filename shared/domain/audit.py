"""The audit log: recorded changes of settings, with their authors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class ActorKind(StrEnum):
    """The origin of a change."""

    KEY = "key"  # a key of the tenant
    OPERATOR = "operator"  # an operator's key
    COMMAND_LINE = "command line"  # a command that changed the ledger without the API
    LOCAL = "local"  # a program on the machine of an API that requires no keys


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of changes.

    Args:
        kind: origin of the changes.
        name: name of the key; None without a key.
        key_id: id of the key in the ledger; None for a key of the settings, or without a key.
    """

    kind: ActorKind
    name: str | None = None
    key_id: UUID | None = None


COMMAND_LINE = Actor(ActorKind.COMMAND_LINE)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A recorded change.

    Args:
        tenant: tenant of the changed object; empty for operators' keys and erasures of tenants.
        object: kind of the changed object, such as `key`.
        object_name: its name; an erasure's id for an erased document or tenant.
        changes: the changed fields, each with its values before and after. Secrets and prompts are not contained.
    """

    id: UUID
    tenant: str
    created_at: datetime
    actor: Actor
    action: str
    object: str
    object_name: str
    changes: Mapping[str, tuple[Any, Any]]
