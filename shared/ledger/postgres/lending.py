"""Checks of pooled connections before they are lent.

Load balancers, poolers and NAT close connections without traffic. The pool does not see that, and the next user of such
a connection would fail although PostgreSQL is available.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from sqlalchemy import Engine, event, exc

_FRESH_SECONDS = 1.0  # no network closes a connection so soon; a busy process checks none
_PING_SECONDS = 5.0  # PostgreSQL may be that busy
_IDLE_SINCE = "idle_since"


def lend_open_connections(engine: Engine) -> None:
    """Replace a closed connection before it is lent, and test a connection that was idle for a second.

    The test is an empty statement before the borrower's first one, so that no statement of the ledger is ever in doubt
    because of an idle connection.
    """
    event.listen(engine, "checkin", _note_idle)
    event.listen(engine, "checkout", _require_open)


def _note_idle(_connection: Any, record: Any) -> None:
    record.info[_IDLE_SINCE] = time.monotonic()


def _require_open(connection: Any, record: Any, _lent: Any) -> None:
    if connection.driver_connection.is_closed():
        raise exc.DisconnectionError
    if time.monotonic() - record.info.get(_IDLE_SINCE, time.monotonic()) < _FRESH_SECONDS:
        return
    try:
        connection.run_async(_ping)
    except Exception as error:  # whatever it is: another connection is opened
        raise exc.DisconnectionError from error


async def _ping(driver: Any) -> None:
    await asyncio.wait_for(driver.execute(";"), _PING_SECONDS)
