"""Keys of the API: whose they are, and what they may do."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """What a key may do; no scope includes another."""

    READ = "read"  # documents, chunks, collections, and how far they are
    ASK = "ask"  # questions, and feedback on what they returned
    WRITE = "write"  # hand in, change, retry and delete documents and accepted questions
    MANAGE = "manage"  # collections' options, builds, calibrations, verification, keys
    OPERATOR = "operator"  # every tenant's state, and nothing of what the tenants wrote


TENANT_SCOPES = frozenset(Scope) - {Scope.OPERATOR}
