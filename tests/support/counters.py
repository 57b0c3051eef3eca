"""A query for differences between the tallies and the counted rows; it must always return no rows."""

from __future__ import annotations

# List the numbers that appear only in the tallies or only in a count.
DIFFERENCES = """
    WITH tallied AS (
        SELECT tenant, counted, part, state, sum(rows)::bigint AS rows
        FROM (SELECT tenant, counted, part, state, rows FROM tallies
              UNION ALL SELECT tenant, counted, part, state, change FROM tally_changes) t
        GROUP BY tenant, counted, part, state HAVING sum(rows) <> 0
    ), counted AS (
        SELECT tenant, 'documents', collection_id::text, state, count(*) FROM documents GROUP BY 1, 2, 3, 4
        UNION ALL SELECT tenant, 'readers', collection_id::text, reader, count(*) FROM documents
        WHERE reader IS NOT NULL AND state IN ('ready', 'degraded', 'failed') GROUP BY 1, 2, 3, 4
        UNION ALL SELECT tenant, 'jobs', job_id::text, state, count(*) FROM documents WHERE job_id IS NOT NULL
        GROUP BY 1, 2, 3, 4
        UNION ALL SELECT tenant, 'chunks', embedding_model, state, count(*) FROM chunks GROUP BY 1, 2, 3, 4
        UNION ALL SELECT tenant, 'lanes', lane::text, state, count(*) FROM chunks GROUP BY 1, 2, 3, 4
    )
    (TABLE tallied EXCEPT TABLE counted) UNION ALL (TABLE counted EXCEPT TABLE tallied)
"""
