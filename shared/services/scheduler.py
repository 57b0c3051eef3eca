"""The scheduler: it wakes workers for due work and cleans up. It calls no provider."""

from __future__ import annotations

from dataclasses import dataclass

from shared.broker.wakeups import Wakeups
from shared.ledger import Ledger
from shared.ledger.documents.unreferenced_objects import OutdatedObjects
from shared.ledger.postgres.election import Election
from shared.maintenance.cleanup import Cleaner
from shared.maintenance.orphans import Orphans
from shared.maintenance.webhooks.delivery import Deliverer
from shared.services.parts import Parts
from shared.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerServices:
    settings: Settings
    ledger: Ledger
    election: Election
    orphans: Orphans
    wakeups: Wakeups
    cleaner: Cleaner
    deliverer: Deliverer


def assemble(parts: Parts) -> SchedulerServices:
    return SchedulerServices(
        settings=parts.settings,
        ledger=parts.ledger,
        election=Election(parts.database),
        orphans=parts.orphans,
        wakeups=parts.wakeups,
        cleaner=cleaner_of(parts),
        deliverer=parts.deliverer,
    )


def cleaner_of(parts: Parts) -> Cleaner:
    return Cleaner(
        work=parts.ledger.work,
        index=parts.index,
        uploads=parts.uploads,
        feedback=parts.ledger.feedback,
        collections=parts.ledger.collections,
        builds=parts.ledger.builds,
        erasures=parts.ledger.erasures,
        outdated=OutdatedObjects(parts.database),
        tenant_keys=parts.tenant_keys,
        finisher=parts.finisher,
        descriptions=parts.ledger.descriptions,
    )
