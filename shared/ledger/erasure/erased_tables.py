"""Tables outside of the core whose rows an erasure deletes."""

from __future__ import annotations

from dataclasses import dataclass

from shared.ledger.postgres.statements import Statement


@dataclass(frozen=True, slots=True)
class TextStatements:
    """Statements about rows in which texts that name a person occur.

    Each examines the next `:limit` rows of `:tenant` after a position, `:after`, which is null for the first rows. Any
    text is a position. It returns one row: `rows`, the number of rows that match the regular expression `:pattern`, and
    `last`, the position of the last examined row, null if there was none.
    """

    count: Statement
    delete: Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedTable:
    """A table from which an erasure deletes rows, `:limit` of them with each statement, which returns the deleted rows.

    Args:
        name: name of the table, or of its values, under which the erasure counts them.
        of_tenant: deletes some rows of `:tenant`. None: the same rows are deleted under another name.
        of_part: deletes some rows of an erased collection, by the ids of its builds (`:ids`), or by `:collection` of
            `:tenant`, or of erased documents, by their `:public_ids`, or by the ids of their rows in all builds
            (`:document_ids`). Only one of these has values. None: every row belongs to a tenant only.
        under_name: counts, as `rows`, the rows of `:tenant` with the name `:collection` if it has no such collection.
            None: no row has the name of a collection.
        by_document: counts the rows that `of_part` changes for each of some documents, as `public_id` and `rows`, by
            `:public_ids` and `:tenant`. None: no number of them is shown before an erasure.
        texts: counts and deletes rows in which texts that name a person occur. None: they contain no users' texts.
    """

    name: str
    of_tenant: Statement | None = None
    of_part: Statement | None = None
    under_name: Statement | None = None
    by_document: Statement | None = None
    texts: TextStatements | None = None
