"""The application for Celery's tools: `celery -A workers.app inspect ping`, `celery -A workers.app flower`.

The workers answer with `FOREASK_CELERY_REMOTE_CONTROL=true`. They are started by `foreask worker`.
"""

from __future__ import annotations

import sys
from typing import Any

from celery import signals

from shared.broker.wakeups import celery_app
from shared.settings import load, require

app = celery_app(require(load().redis_url, "FOREASK_REDIS_URL").get_secret_value(), remote_control=True)


@signals.celeryd_init.connect(weak=False)
def refuse(**_: Any) -> None:
    """Refuse to start a worker without our tasks: it would discard wake-ups."""
    sys.exit("Start workers with `foreask worker ROLE`: this application is for `inspect`, `control` and Flower.")
