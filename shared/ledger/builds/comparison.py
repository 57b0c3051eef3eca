"""A comparison of two builds of a collection, document by document.

It runs in slices in the order of external ids, one transaction each, because a build may have a million documents and
transactions are limited to some seconds. Each document is read in both builds at one moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from shared.domain.states import DocumentState
from shared.ledger.model import states
from shared.ledger.postgres.database import Database

_SLICE = 1_000  # documents of one transaction: a hundredth of a second


def _names(build: str) -> str:
    return f"""
        (SELECT external_id FROM documents d
         WHERE d.collection_id = :{build} AND {states.exists("d")} AND d.external_id > :after
         ORDER BY external_id LIMIT :limit)"""


def _newest(build: str) -> str:
    return f"""
        SELECT d.external_id, d.public_id, d.state, d.live_version, v.upload, v.content_hash
        FROM names JOIN documents d ON d.collection_id = :{build} AND d.external_id = names.external_id
        LEFT JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
        WHERE {states.exists("d")}"""


# Compare the next documents of two builds. A document differs if its newest versions have different contents.
_COMPARE = text(f"""
    WITH names AS MATERIALIZED (
        SELECT external_id FROM ({_names("live")} UNION {_names("build")}) u ORDER BY external_id LIMIT :limit
    ), live AS ({_newest("live")}
    ), build AS ({_newest("build")}
    ), compared AS (
        SELECT external_id,
               b.external_id IS NULL AS missing,
               b.external_id = l.external_id AND (b.upload, b.content_hash, b.public_id)
                   IS DISTINCT FROM (l.upload, l.content_hash, l.public_id) AS stale,
               l.external_id IS NULL AS orphaned,
               b.live_version IS NULL AND l.live_version IS NOT NULL
                   AND b.state <> '{DocumentState.FAILED}' AS unindexed,
               b.state = '{DocumentState.FAILED}' AND l.state IS DISTINCT FROM '{DocumentState.FAILED}' AS failed,
               b.state = '{DocumentState.DEGRADED}' AND l.state = '{DocumentState.READY}' AS degraded
        FROM live l FULL JOIN build b USING (external_id)
    )
    SELECT (SELECT max(external_id) FROM names) AS until,
           (SELECT count(*) FROM names) AS documents,
           coalesce(array_agg(external_id ORDER BY external_id) FILTER (WHERE missing), '{{}}') AS missing,
           coalesce(array_agg(external_id ORDER BY external_id) FILTER (WHERE stale), '{{}}') AS stale,
           coalesce(array_agg(external_id ORDER BY external_id) FILTER (WHERE orphaned), '{{}}') AS orphaned,
           count(*) FILTER (WHERE unindexed) AS unindexed,
           count(*) FILTER (WHERE failed) AS failed,
           count(*) FILTER (WHERE degraded) AS degraded
    FROM compared
""")


@dataclass(frozen=True, slots=True)
class ComparedSlice:
    """Differences between a build and the live one in a slice of documents.

    Args:
        until: last external id of the slice.
        documents: number of documents of both builds.
        missing: external ids that the build lacks.
        stale: external ids whose newest content differs in the build.
        orphaned: external ids that the live build lacks.
        unindexed: number of documents that queries find in the live build only.
        failed: number of documents that failed in the build only.
        degraded: number of documents with dead chunks in the build only.
    """

    until: str
    documents: int
    missing: Sequence[str]
    stale: Sequence[str]
    orphaned: Sequence[str]
    unindexed: int
    failed: int
    degraded: int


async def slices(database: Database, live: UUID, build: UUID) -> AsyncIterator[ComparedSlice]:
    """Compare two builds; yield the differences of each slice of documents."""
    parameters = {"live": live, "build": build, "limit": _SLICE, "after": ""}
    while True:
        (row,) = await database.rows(_COMPARE, parameters)
        if not row["documents"]:
            return
        yield ComparedSlice(**row)
        parameters["after"] = row["until"]
