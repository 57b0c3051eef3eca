"""The work on pages of entries in the API, made of the process's parts."""

from __future__ import annotations

from functools import partial

from features.sources.ledger.pushes import Pushes
from features.sources.push.pushing import Pushing
from features.sources.services import intake_of
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.maintenance.descriptions import update_now
from shared.services.api import ApiServices


def pushing(services: ApiServices) -> Pushing:
    """Return the work on pages of entries that programs push."""
    ledger, tuning = services.ledger, services.settings.tuning
    return Pushing(
        pushes=ledger[Pushes],
        collections=ledger[Collections],
        documents=ledger[Documents],
        uploads=services.uploads,
        intake=intake_of(services.parts, services.settings),
        max_bytes=services.settings.max_upload_bytes,
        expires=tuning.push_expires,
        retry_after=tuning.sync_pause,
        wake=lambda: services.wakeups.wake("parse", "index"),
        update_points=partial(update_now, ledger[Descriptions], services.index),
    )
