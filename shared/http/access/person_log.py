"""Records about persons: that a manager views documents as one, and which groups they have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any

import structlog

from shared.domain.access.actors import Actor
from shared.domain.access.persons import Person
from shared.domain.errors import ForeaskError
from shared.ledger.postgres import actors
from shared.ledger.tenants.persons import Persons

_SECONDS = 3_600.0
_MOST = 50_000
_TIMEOUT_SECONDS = 2.0  # of recording the last groups at exit

log = structlog.get_logger()
_View = tuple[Actor, str, Person]


class PersonLog:
    """Records each fact at most once an hour in each process.

    Args:
        persons: persons in the ledger.
        now: clock in monotonic seconds.
    """

    def __init__(self, persons: Persons, now: Callable[[], float] = time.monotonic) -> None:
        self._persons = persons
        self._now = now
        self._viewed: dict[_View, float] = {}
        self._views: dict[_View, asyncio.Task[ForeaskError | None]] = {}
        self._seen: dict[tuple[str, str], float] = {}
        self._waiting: set[tuple[str, str]] = set()
        self._recording: asyncio.Task[None] | None = None

    async def view(self, actor: Actor, tenant: str, person: Person) -> None:
        """Record that a manager views documents as a person, before the first reply; requests share the record.

        Raises:
            Unavailable: the ledger is unavailable: without a record there is no reply.
        """
        view = actor, tenant, person
        if self._viewed.get(view, -_SECONDS) > self._now() - _SECONDS:
            return
        recording = self._views.get(view)
        if recording is None:
            recording = self._views[view] = asyncio.create_task(self._record_view(view), context=Context())
        await asyncio.wait({recording})  # cancelling one request must not cancel the shared record
        if error := recording.result():
            raise error

    def see(self, tenant: str, person: Person) -> None:
        """Record the groups of a person in the background."""
        now = self._now()
        self._waiting |= {(tenant, group) for group in person.groups if _is_new(self._seen, (tenant, group), now)}
        if self._waiting and self._recording is None:
            self._recording = asyncio.create_task(self._record(), context=Context())  # no request ids

    async def aclose(self) -> None:
        recording = self._recording  # which it removes itself when it has ended
        if recording is not None:
            await asyncio.wait({recording}, timeout=_TIMEOUT_SECONDS)
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)

    async def _record_view(self, view: _View) -> ForeaskError | None:
        actor, tenant, person = view
        try:
            with actors.recorded(actor):
                await self._persons.record_view(tenant, person)
        except ForeaskError as error:
            return error
        finally:
            del self._views[view]
        _is_new(self._viewed, view, self._now())
        return None

    async def _record(self) -> None:
        seen = set[tuple[str, str]]()
        try:
            while self._waiting:
                seen, self._waiting = self._waiting, set()
                await self._persons.see_groups(seen)
        except ForeaskError as error:  # the next request of a person with these groups records them
            for each in seen:
                self._seen.pop(each, None)
            log.warning("groups_seen.failed", kind=type(error).__name__)
        finally:
            self._recording = None


def _is_new(remembered: dict[Any, float], fact: object, now: float) -> bool:
    """Remember a fact; return whether it was not remembered in the last hour."""
    if remembered.get(fact, -_SECONDS) > now - _SECONDS:
        return False
    if len(remembered) >= _MOST:
        remembered.clear()
    remembered[fact] = now
    return True
