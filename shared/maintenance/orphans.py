"""Orphans: objects in the upload store that no document needs, for example after a crash."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson
import structlog

from shared.ledger.documents.documents import Documents, StoredVersion
from shared.ledger.tenants.deployment import DeploymentIdentity
from shared.storage.uploads import SENT, Uploads

# A running upload has no row yet, and a wrong ledger names nothing: a file must be an orphan twice, this far apart.
APART = timedelta(days=1)
_SHARE = 10  # percent of the files that may be deleted at once without confirmation: crashes cause few
_ALWAYS = 100  # files that may be deleted at once, however few there are
_SEEN = ".foreask-orphans"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class StoreInventory:
    """The objects of the store.

    Args:
        files: number of objects.
        orphans: objects that no document needs, each with the time of its first detection.
        due: orphans detected a day ago or earlier.
        deleted: number of deleted orphans.
    """

    files: int
    orphans: Mapping[str, datetime]
    due: tuple[str, ...]
    deleted: int = 0

    @property
    def unsubmitted(self) -> tuple[str, ...]:
        """Due bytes that were sent to addresses: no ledger ever names them, so any number of them is deleted."""
        return tuple(name for name in self.due if name.startswith(SENT))

    @property
    def too_many(self) -> bool:
        """Whether so many files are due that this is probably the wrong ledger."""
        return len(self.due) - len(self.unsubmitted) > max(_ALWAYS, self.files * _SHARE // 100)


@dataclass(frozen=True, slots=True)
class Orphans:
    uploads: Uploads
    documents: Documents
    deployment: DeploymentIdentity

    async def count(self) -> StoreInventory:
        """Compare the store with the ledger; nothing is changed.

        Raises:
            Unavailable: the store is unavailable or another deployment's, or the ledger is unavailable.
            OSError: the folder cannot be read.
        """
        await self.uploads.require_own()
        now = await self.deployment.now()
        seen = _decode(await self.uploads.read_note(_SEEN))
        files, orphans = 0, dict[str, datetime]()
        async for names in self.uploads.pages():
            files += len(names)
            in_use = await self.documents.stored_in_use(names)
            orphans |= {name: seen.get(name, now) for name in names if name not in in_use}
        due = tuple(name for name, first in orphans.items() if now - first >= APART)
        return StoreInventory(files, orphans, due)

    async def lost(self) -> AsyncIterator[StoredVersion]:
        """Yield the versions whose objects are missing in the store.

        Raises:
            Unavailable, OSError: as `count`.
        """
        async for page in self.documents.pages_of_uploads():
            lost = await self.uploads.lost([version.upload for version in page])
            for version in page:
                if version.upload in lost:
                    yield version

    async def tidy(self, *, confirmed: bool = False) -> StoreInventory:
        """Delete the due orphans, and remember the others for the next run.

        Args:
            confirmed: whether an operator confirmed the deletion of any number.

        Raises:
            Unavailable: the store belongs to another deployment or is unavailable, or the ledger cannot be reached.
            OSError: the folder cannot be read or written.
        """
        inventory = await self.count()
        going = set(inventory.unsubmitted if inventory.too_many and not confirmed else inventory.due)
        kept = await self.uploads.remove(sorted(going))
        left = {name: first for name, first in inventory.orphans.items() if name in kept or name not in going}
        await self.uploads.write_note(_SEEN, orjson.dumps(left))
        if going:
            log.info("uploads.tidied", deleted=len(going), files=inventory.files)
        if inventory.too_many and not confirmed:
            log.error("uploads.not_deleted", due=len(inventory.due), files=inventory.files, see="foreask uploads check")
        return StoreInventory(inventory.files, inventory.orphans, inventory.due, len(going))


def _decode(note: bytes | None) -> dict[str, datetime]:
    try:
        content = orjson.loads(note or b"{}")
    except orjson.JSONDecodeError:
        return {}  # all count as detected for the first time, which only delays
    return {name: datetime.fromisoformat(first) for name, first in content.items()}
