"""The audit log: recorded changes of settings, with their authors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.access.actors import Actor


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
