"""Documents whose texts are all stored, or whose chunks have all ended."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from shared.domain.stages.sweeps import HiddenVersion
from shared.ledger.documents import accepted_questions, build_sync, versions
from shared.ledger.model import states
from shared.ledger.model.rows.versions import version_rows
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.work import document_events

SQL = statements.load(__file__, states.FRAGMENTS, finish_state=states.FINISH.sets("{is_incomplete}"))


class Finishing:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_ended(self, limit: int = 200) -> list[UUID]:
        """Return documents that were not advanced although their texts are all stored, or their chunks have all ended.

        A call checks at most `limit` documents, longest due first, and long-open documents less often: if many
        documents wait for a model, the call must stay short.
        """
        async with self._database.begin() as connection:
            return list((await connection.execute(SQL.check_open, {"limit": limit})).scalars())

    @again_after_collision
    async def finish(self, document_ids: Sequence[UUID], shown: Sequence[HiddenVersion] = ()) -> list[HiddenVersion]:
        """Make versions live whose texts are all stored, and finish documents whose chunks have all ended, among these.

        A version that replaces another becomes live when Qdrant shows it: from then on queries see it, and only it. The
        points of the replaced version are deleted when no search that has started before can still need them.

        Args:
            document_ids: ids of documents.
            shown: versions among them whose points Qdrant has made visible.

        Returns:
            The complete versions that are still hidden.
        """
        async with self._database.begin() as connection:
            ended = (await connection.execute(SQL.lock_advancing, {"ids": list(document_ids)})).all()
            if not ended:
                return []
            hidden, moved = await _show(connection, [row.id for row in ended if row.opening], shown)
            searchable = [row.id for row in ended if not row.opening] + [row.id for row in moved]
            finished = (await connection.execute(SQL.finish, {"ids": searchable})).all() if searchable else []
            moved += finished
            leading = sorted({row.id for row in moved if row.leads})
            if leading:
                await accepted_questions.copy_from_other_builds(connection, leading)
            followers = sorted({row.id for row in moved if row.follows})
            if followers:
                await accepted_questions.copy_from_live(connection, followers)
            await accepted_questions.reindex_waiting(connection, sorted({row.id for row in moved}))
            if followers:
                await build_sync.catch_up(connection, followers)
        document_events.log_ended(finished)
        return hidden


async def _show(
    connection: Connection, ids: Sequence[UUID], shown: Sequence[HiddenVersion]
) -> tuple[list[HiddenVersion], list[Row]]:
    """Make complete versions of locked documents live; return the hidden ones, and the documents that moved."""
    if not ids:
        return [], []
    visible = version_rows([(each.document_id, each.version) for each in shown])
    moved = (await connection.execute(SQL.show, visible | {"ids": ids})).all()
    if replaced := [row.id for row in moved if row.replaces]:
        await versions.supersede(connection, replaced, were_live=True)
    others = sorted(set(ids) - {row.id for row in moved})
    if not others:
        return [], list(moved)
    hidden = (await connection.execute(SQL.hidden_versions, {"ids": others})).all()
    return [HiddenVersion(**row) for row in hidden], list(moved)
