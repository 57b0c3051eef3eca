"""The identity of this deployment, which prevents the use of another deployment's upload store."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from shared.ledger.documents.versions import IS_REFERENCE
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

# Return the single row, which the migration inserted.
_ID = Statement("SELECT id FROM deployment")

# Return the time of the ledger's clock.
_NOW = Statement("SELECT now()")

# List the stored uploads of the newest documents.
_NEWEST_UPLOADS = Statement(f"""
    SELECT v.upload
    FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE NOT {IS_REFERENCE} ORDER BY d.created_at DESC LIMIT :limit
""")


class DeploymentIdentity:
    """The identity of the ledger, and its facts about the upload store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._id: UUID | None = None

    async def id(self) -> UUID:
        """Return the deployment's id; the ledger is read once.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        if self._id is None:
            async with self._database.begin() as connection:
                self._id = UUID(str((await connection.execute(_ID)).scalar_one()))
        return self._id

    async def newest_uploads(self, limit: int) -> list[str]:
        """Return the names of uploads that documents need, as many as requested.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        async with self._database.begin() as connection:
            return list((await connection.execute(_NEWEST_UPLOADS, {"limit": limit})).scalars())

    async def now(self) -> datetime:
        """Return the time of the ledger's clock.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        async with self._database.begin() as connection:
            now: datetime = (await connection.execute(_NOW)).scalar_one()
        return now
