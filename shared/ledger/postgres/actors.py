"""The author of the changes in a transaction, which triggers write to the audit log.

The API knows the author of a request, and the ledger's statements do not. Each transaction of a recorded request
therefore names its author in a setting of PostgreSQL that ends with the transaction. Triggers record a change only if
the setting exists: changes by workers and by the scheduler have no author.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shared.domain.access.actors import Actor
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.statements import Statement

_author: ContextVar[Actor | None] = ContextVar("author", default=None)
_is_recorded: ContextVar[bool] = ContextVar("is_recorded", default=False)

# Name the author until the end of the transaction.
_NAME = Statement("SELECT set_config('foreask.actor', :actor, true)")


@contextmanager
def of_request() -> Iterator[None]:
    """Start without an author, and forget the author of the request afterwards."""
    author, is_recorded = _author.set(None), _is_recorded.set(False)
    try:
        yield
    finally:
        _is_recorded.reset(is_recorded)
        _author.reset(author)


def identify(actor: Actor) -> None:
    """Remember the author of the current request. Nothing is recorded yet, because that costs a round trip."""
    _author.set(actor)
    _is_recorded.set(False)


def record() -> None:
    """Record changes of the rest of the current request under its author."""
    _is_recorded.set(True)


@contextmanager
def recorded(actor: Actor | None = None) -> Iterator[None]:
    """Record changes within the block under this author, by default the author of the request."""
    author = _author.set(actor or _author.get())
    is_recorded = _is_recorded.set(True)
    try:
        yield
    finally:
        _is_recorded.reset(is_recorded)
        _author.reset(author)


def is_recorded() -> bool:
    """Return whether changes are recorded now."""
    return _is_recorded.get() and _author.get() is not None


async def name_author(connection: Connection) -> None:
    """Name the author to the triggers of a transaction, if its changes are recorded."""
    author = _author.get()
    if author is None or not _is_recorded.get():
        return
    key_id = None if author.key_id is None else str(author.key_id)
    actor = json.dumps({"kind": author.kind, "name": author.name, "key_id": key_id})
    await connection.execute(_NAME, {"actor": actor})
