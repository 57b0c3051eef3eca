"""API keys: tenants and scopes."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from shared.domain.access.key_texts import OPERATOR
from shared.domain.errors import InvalidInput


class Scope(StrEnum):
    """A right of a key; no scope includes another."""

    READ = "read"  # documents, chunks, collections, and their progress
    ASK = "ask"  # questions
    FEEDBACK = "feedback"  # feedback on the results of the key's own queries, which adds questions to chunks
    WRITE = "write"  # upload, change, retry and delete documents, and estimate costs
    MANAGE = "manage"  # collections' options, builds, calibrations, verification, keys
    DELEGATE = "delegate"  # requests on behalf of a person, whom the holder of the key has authenticated
    OPERATOR = "operator"  # every tenant's state and erasure, without any contents


TENANT_SCOPES = frozenset(Scope) - {Scope.OPERATOR}
FILTERED_SCOPES = frozenset({Scope.ASK, Scope.FEEDBACK, Scope.DELEGATE})  # scopes of a key with a filter
PERSON_SCOPES = frozenset({Scope.READ, Scope.ASK, Scope.FEEDBACK})  # scopes that a person may have


@dataclass(frozen=True, slots=True)
class Owner:
    """A key as the owner of data and of open streams; no other key sees the data.

    Args:
        tenant: tenant of the key.
        name: name that the key has as long as it is valid, from which it cannot be computed.
        key_id: id of the key in the ledger; None for a key of the settings, or without keys.
    """

    tenant: str
    name: str
    key_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits of a key, in addition to the limits of its tenant; None means unlimited. A day starts at midnight UTC.

    Args:
        requests_per_second: requests to the API.
        tokens_per_day: tokens of all models for its queries.
        cost_per_day: cost of its queries, in the currency of the prices.
        max_tokens: tokens in the texts of a reply.
    """

    requests_per_second: float | None = None
    tokens_per_day: int | None = None
    cost_per_day: float | None = None
    max_tokens: int | None = None


UNLIMITED = KeyLimits()


@dataclass(frozen=True, slots=True)
class KeySpecification:
    """A key to create.

    Args:
        tenant: tenant of the key; `OPERATOR` for operators.
        name: name in lists and logs.
        scopes: rights of the key.
        filter: metadata filter added to each of its queries.
        lasts: validity; None: until it is revoked.
        limits: limits of the key.

    Raises:
        InvalidInput: it would have no scope, the operator's scope together with others, or a filter or limits that its
            scopes would bypass.
    """

    tenant: str
    name: str
    scopes: AbstractSet[Scope]
    filter: Mapping[str, Any] | None = None
    lasts: timedelta | None = None
    limits: KeyLimits = UNLIMITED

    def __post_init__(self) -> None:
        if self.tenant == OPERATOR and self.scopes != {Scope.OPERATOR}:
            raise InvalidInput("An operator's key has only the scope 'operator'.", field="scopes")
        if self.tenant != OPERATOR and not (self.scopes and self.scopes <= TENANT_SCOPES):
            raise InvalidInput(
                "A tenant's key has some of the scopes read, ask, feedback, write, manage and delegate.", field="scopes"
            )
        if self.filter is not None and not self.scopes <= FILTERED_SCOPES:
            raise InvalidInput(
                "A key with a filter has only the scopes 'ask', 'feedback' and 'delegate': others would bypass it.",
                field="scopes",
            )
        if self.limits != UNLIMITED and self.scopes & {Scope.MANAGE, Scope.OPERATOR}:
            raise InvalidInput(
                "A key with limits lacks the scopes 'manage' and 'operator': it could create keys without limits.",
                field="limits",
            )


@dataclass(frozen=True, slots=True)
class Key:
    """A key in the ledger, which stores only its hash.

    Args:
        read_at: the ledger's time when the key was read. Clocks of other machines decide nothing.
        prefix: first characters of the key; None for a key of an older release.
    """

    id: UUID
    tenant: str
    name: str
    scopes: frozenset[Scope]
    filter: Mapping[str, Any] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    read_at: datetime
    limits: KeyLimits = UNLIMITED
    prefix: str | None = None

    @property
    def ended(self) -> str | None:
        """Why the key was invalid when it was read; None if it was valid."""
        if self.revoked_at is not None:
            return "was revoked"
        return "has expired" if self.expires_at is not None and self.expires_at <= self.read_at else None
