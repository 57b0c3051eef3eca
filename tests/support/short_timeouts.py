"""Runs a module of the product with a sixth of its patience: `python -m tests.support.short_timeouts MODULE ARGUMENTS`.

Some promises show only after a wait that the product sets itself: a connection counts as dead, a transaction has been
open for too long, a minute of a provider's limit has passed. Here these waits are shorter; the mechanisms are the real
ones. Settings keep their values.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

from celery import Celery
from redis.asyncio import Redis

import shared.broker.wakeups
from shared.domain.rates import MINUTE
from shared.ledger.database import Database

HASTE = 6


def hasten() -> None:
    _shorten_the_minute()
    _give_up_the_broker_sooner()
    _end_transactions_sooner()


def _shorten_the_minute() -> None:
    """The jitter stays a second, which is what a busy machine takes."""
    for name, value in {"seconds": MINUTE.seconds / HASTE, "burst_seconds": 0.4, "jitter_seconds": 1.2}.items():
        object.__setattr__(MINUTE, name, value)


def _give_up_the_broker_sooner() -> None:
    celery_app, from_url = shared.broker.wakeups.celery_app, Redis.from_url

    def hasty_app(redis_url: str) -> Celery:
        app = celery_app(redis_url)
        options = app.conf.broker_transport_options
        for name in ("socket_timeout", "socket_connect_timeout", "health_check_interval"):
            options[name] /= HASTE
        return app

    def hasty_client(url: str, **options: Any) -> Redis:
        for name in ("socket_timeout", "socket_connect_timeout"):
            options[name] = max(1.0, options[name] / HASTE)
        return from_url(url, **options)

    shared.broker.wakeups._PAUSE /= HASTE
    shared.broker.wakeups.celery_app = hasty_app
    Redis.from_url = hasty_client  # type: ignore[method-assign]


def _end_transactions_sooner() -> None:
    Database.__init__.__kwdefaults__["patience"] /= HASTE


if __name__ == "__main__":
    hasten()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
