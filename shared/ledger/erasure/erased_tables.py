"""Tables outside of the core whose rows an erasure deletes."""

from __future__ import annotations

from dataclasses import dataclass

from shared.ledger.postgres.statements import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedTable:
    """A table from which an erasure deletes rows, `:limit` of them with each statement, which returns the deleted rows.

    Args:
        name: name of the table, or of its values, under which the erasure counts them.
        of_tenant: deletes some rows of `:tenant`. None: the same rows are deleted under another name.
        of_part: deletes some rows of an erased collection or document, by the ids of its builds (`:ids`), or by
            `:document_id` and the ids of its rows in all builds (`:document_ids`), or by `:collection` of `:tenant`.
            None: every row belongs to a tenant only.
        under_name: counts, as `rows`, the rows of `:tenant` with the name `:collection` if it has no such collection.
            None: no row has the name of a collection.
    """

    name: str
    of_tenant: Statement | None = None
    of_part: Statement | None = None
    under_name: Statement | None = None
