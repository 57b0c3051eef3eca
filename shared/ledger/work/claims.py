"""The statements that claim work: fair between tenants, uploads before bulk, suspects separately.

Every claim shares the free slots between the tenants with due work: the next slot is given to the tenant that holds the
fewest relative to its weight. One tenant's million chunks therefore do not delay another's ten. Within a tenant, the
lane decides, then the age. No tenant holds more chunks to generate than its limits allow to start within a minute,
because the others would occupy slots without being sent.

When a worker dies, its rows become due again, including the row that killed it. A row that lost two leases is a
suspect: a drain that holds nothing else claims it alone. It succeeds and is cleared, or kills only that worker.
"""

from __future__ import annotations

from sqlalchemy import TextClause, text

from shared.domain.poison import SUSPECT_AFTER
from shared.domain.states import AcceptedState, ChunkState
from shared.ledger.model import states

# How many leases of a row have ended: the leases that earlier claims counted, and the lease that this claim takes over.
_LOST_LEASES = "w.lost_leases + (w.leased_by IS NOT NULL)::int"

_LIMIT = "CAST(:limit AS int)"


def _lanes(table: str, is_open: str, of: str = "") -> str:
    """Return the tables of tenants that have open work, each found by one look into the index, and of their lanes."""
    return f"""
        tenants{of}(tenant) AS (
            SELECT min(w.tenant) FROM {table} w WHERE {is_open}
            UNION ALL
            SELECT (SELECT min(w.tenant) FROM {table} w WHERE {is_open} AND w.tenant > t.tenant)
            FROM tenants{of} t WHERE t.tenant IS NOT NULL
        ),
        lanes{of} AS (
            SELECT t.tenant, l.lane FROM tenants{of} t, (VALUES (0), (1)) AS l(lane) WHERE t.tenant IS NOT NULL
        )"""


def _fair(
    table: str, is_open: str, columns: str, only: str = "TRUE", *, parts: str = "", of: str = "", limit: str = _LIMIT
) -> str:
    """Return the common table expressions that end in `due`: claimable rows, locked, fairest first.

    There are four candidates per requested row, because concurrent claims skip each other's rows. Candidates are locked
    only when they are selected, because a lock is written to the row's page.

    Args:
        table: table of the rows.
        is_open: condition of the stage's open rows, as written in its partial index.
        columns: columns of `due`.
        only: condition on the rows of this claim.
        parts: joins the other parts of the index of open rows, so that each part is read in due order.
        of: suffix of the expressions' names, for statements with several such chains.
        limit: maximum number of rows.
    """
    may_be_claimed = f"{is_open} AND w.due_at <= now() AND {_LOST_LEASES} < {SUSPECT_AFTER}"
    return f"""{_lanes(table, is_open, of)},
    held{of} AS (
        SELECT w.tenant, count(*) AS rows FROM {table} w
        WHERE {is_open} AND w.leased_by IS NOT NULL AND w.due_at > now() GROUP BY w.tenant
    ), candidates{of} AS (
        SELECT p.tenant, p.lane, w.*
        FROM lanes{of} p {parts} CROSS JOIN LATERAL (
            SELECT w.ctid AS at, w.due_at FROM {table} w
            WHERE {may_be_claimed} AND w.tenant = p.tenant AND w.lane = p.lane AND {only}
            ORDER BY w.due_at
            LIMIT least(4 * {limit}, 8 * {limit} / (SELECT count(*)::int FROM lanes{of}) + 1)
        ) w
    ), ranked{of} AS (
        SELECT c.*,
               coalesce(h.rows, 0) + row_number() OVER (PARTITION BY c.tenant ORDER BY c.lane, c.due_at) AS position
        FROM candidates{of} c LEFT JOIN held{of} h ON h.tenant = c.tenant
    ), in_turn{of} AS (
        SELECT c.at, c.position / coalesce(v.weight, 1) AS turn, c.lane, c.due_at
        FROM ranked{of} c
        LEFT JOIN unnest(CAST(:tenants AS text[]), CAST(:weights AS float[]), CAST(:most AS bigint[]))
             AS v(tenant, weight, most) ON v.tenant = c.tenant
        WHERE c.position <= coalesce(v.most, CAST(:most_of_others AS bigint), c.position)
        ORDER BY turn, c.lane, c.due_at
    ), due{of} AS (
        SELECT w.*, c.turn, c.lane, c.due_at FROM in_turn{of} c CROSS JOIN LATERAL (
            SELECT {columns} FROM {table} w WHERE w.ctid = c.at AND {may_be_claimed} FOR UPDATE SKIP LOCKED) w
        LIMIT {limit}
    )"""


def _suspect(table: str, is_open: str, columns: str, only: str = "TRUE") -> str:
    """Return the same for suspects only, the longest waiting first."""
    return f"""
    WITH due AS (
        SELECT {columns} FROM {table} w
        WHERE {is_open} AND w.lost_leases > 0 AND {_LOST_LEASES} >= {SUSPECT_AFTER} AND w.due_at <= now() AND {only}
        ORDER BY w.due_at LIMIT {_LIMIT}
        FOR UPDATE SKIP LOCKED
    )"""


# The columns that a claim sets.
_LEASED = (
    f"""due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker, lost_leases = {_LOST_LEASES}"""
)

_TO_PARSE = states.is_in(states.TO_PARSE, "w")
_TO_GENERATE = states.is_in(states.TO_GENERATE, "w")
_TO_INDEX = states.is_in(states.TO_INDEX, "w")
_TO_INDEX_TEXT = states.is_in(states.TO_INDEX_TEXT, "w")
_TO_INDEX_QUESTIONS = states.is_in(states.TO_INDEX_QUESTIONS, "w")

# Claim documents to be parsed.
_DOCUMENTS = ("documents", _TO_PARSE, "w.id")
_CLAIM_DOCUMENTS = f"""
    UPDATE documents w
    SET {states.CLAIM_DOCUMENT.sets()}, {_LEASED}, updated_at = now()
    FROM due, collections c, document_versions v
    WHERE w.id = due.id AND c.id = w.collection_id AND v.document_id = w.id AND v.version = w.version
    RETURNING w.id, w.version, w.lease_token, w.tenant, w.collection_id, c.options, c.languages, v.upload, v.filename,
              v.title, v.media_type, v.metadata, v.ready_questions, w.attempts, w.lost_leases, w.live_version,
              v.traceparent
"""

# The content of a claimed chunk: one index lookup per row, whatever the statistics are.
_OF_CHUNK = "FROM chunk_contents t WHERE t.chunk_id = w.id AND t.version = w.version"
_CONTENT = f"(SELECT t.content {_OF_CHUNK})"

# The trace that a claimed chunk's version belongs to.
_TRACEPARENT = (
    "(SELECT v.traceparent FROM document_versions v WHERE v.document_id = w.document_id AND v.version = w.version)"
)

# Claim chunks to generate. Content that another worker is paying for is skipped, even if its version was discarded
# meanwhile, and a claim takes each content once. OFFSET keeps the lookups of such workers from becoming joins: a few
# rows need one index lookup each.
_CHUNKS_TO_GENERATE = (
    "chunks",
    _TO_GENERATE,
    "w.id, w.version, w.content_key",
    f"""NOT EXISTS (
              SELECT 1 FROM chunks o
              WHERE o.content_key = w.content_key AND o.state = '{ChunkState.GENERATING}' AND o.leased_by IS NOT NULL
                AND (o.id, o.version) <> (w.id, w.version)
              OFFSET 0)
          AND NOT EXISTS (
              SELECT 1 FROM abandoned_calls b WHERE b.content_key = w.content_key AND b.due_at > now() OFFSET 0)""",
)
_CLAIM_TO_GENERATE = f"""
    , once AS (
        SELECT DISTINCT ON (content_key) id, version FROM due ORDER BY content_key, id
    )
    UPDATE chunks w
    SET {_LEASED}
    FROM once, documents d JOIN collections l ON l.id = d.collection_id
    WHERE w.id = once.id AND w.version = once.version AND d.id = w.document_id
    RETURNING w.id, w.version, w.lease_token, w.document_id, w.tenant, d.collection_id, l.options,
              {_CONTENT} AS content, w.content_key, w.attempts, w.lost_leases, w.prompt_tokens, w.completion_tokens,
              w.calls,
              (SELECT p.replies FROM paid_replies p WHERE p.content_key = w.content_key) AS replies,
              {_TRACEPARENT} AS traceparent
"""

_ACCEPTED = f"""
    FROM accepted_questions a
    WHERE a.chunk_id = w.id AND a.state IN ('{AcceptedState.WAITING}', '{AcceptedState.INDEXED}') ORDER BY a.id"""

# The index of chunks to index is divided by embedding. A worker claims the embeddings that it serves.
_SERVED = "CROSS JOIN unnest(CAST(:embeddings AS text[])) AS m(name)"
_OF_EMBEDDING = "w.embedding_model = m.name"
_OF_SERVED = "w.embedding_model = ANY(CAST(:embeddings AS text[]))"

# A chunk without questions yet: its text is indexed first.
_TEXT_ONLY = """
    NOT w.ready_made
    AND NOT EXISTS (SELECT 1 FROM completions p WHERE p.content_key = w.content_key OFFSET 0)"""

# Claim chunks to index with their questions, if these exist, and with users' questions. A worker claims only chunks of
# embeddings that it serves. While an older version is live, every point of the newest one stays hidden.
_OF_DUE = "w.id, w.version, w.may_have_points"
_TEXTS_TO_INDEX = ("chunks", _TO_INDEX_TEXT, f"{_OF_DUE}, {_TEXT_ONLY} AS text_only", _OF_EMBEDDING)
_QUESTIONS_TO_INDEX = ("chunks", _TO_INDEX_QUESTIONS, f"{_OF_DUE}, false AS text_only", _OF_EMBEDDING)
_SUSPECTS_TO_INDEX = (
    "chunks",
    _TO_INDEX,
    f"{_OF_DUE}, ({_TO_INDEX_TEXT} AND {_TEXT_ONLY}) AS text_only",
    _OF_SERVED,
)
# A quarter of a claim is reserved for chunks with questions; they also get the slots that texts leave.
_FOR_QUESTIONS = f"greatest({_LIMIT} / 4, {_LIMIT} - (SELECT count(*)::int FROM due_texts))"
_DUE_TO_INDEX = f"""
    WITH RECURSIVE {_fair(*_TEXTS_TO_INDEX, parts=_SERVED, of="_texts")},
    {_fair(*_QUESTIONS_TO_INDEX, parts=_SERVED, of="_questions", limit=_FOR_QUESTIONS)},
    due AS (
        (SELECT id, version, may_have_points, text_only FROM due_texts ORDER BY turn, lane, due_at
         LIMIT {_LIMIT} - (SELECT count(*)::int FROM due_questions))
        UNION ALL
        SELECT id, version, may_have_points, text_only FROM due_questions
    )"""
# The update is a separate statement. If it were joined, tables of a new ledger, without statistics, would be joined by
# version before chunk: every due chunk with every document.
_CLAIM_TO_INDEX = f"""
    , claimed AS (
        UPDATE chunks w
        SET {_LEASED}, may_have_points = due.may_have_points OR NOT due.text_only
        FROM due WHERE w.id = due.id AND w.version = due.version
        RETURNING w.*, due.may_have_points AS had_points, due.text_only
    )
    SELECT w.id, w.version, w.lease_token, w.document_id, w.tenant, w.lane, d.collection_id, w.embedding_model,
              l.index_name, l.options, d.public_id, d.external_id, v.filename, v.metadata, w.ordinal,
              {_CONTENT} AS content,
              coalesce(d.live_version <> w.version, false) AS hidden,
              l.followed OR NOT ({states.is_live("l")}) AS of_several_builds,
              w.ready_made,
              coalesce((SELECT t.ready_questions {_OF_CHUNK} AND w.ready_made),
                       (SELECT p.questions FROM completions p WHERE p.content_key = w.content_key AND w.error IS NULL),
                       '{{}}') AS questions,
              ARRAY(SELECT a.id {_ACCEPTED}) AS accepted_ids,
              ARRAY(SELECT a.question {_ACCEPTED}) AS accepted_questions,
              w.error, w.attempts, w.lost_leases, d.created_at, w.had_points AS may_have_points,
              w.text_only, w.points_token IS NOT NULL AS text_stands, v.traceparent
    FROM claimed w
    JOIN documents d ON d.id = w.document_id JOIN collections l ON l.id = d.collection_id
    JOIN document_versions v ON v.document_id = w.document_id AND v.version = w.version
"""


def _both(of: tuple[str, ...], update: str) -> dict[bool, TextClause]:
    """Return the claim of ordinary work under False, and the claim of suspects under True."""
    return {False: text(f"WITH RECURSIVE {_fair(*of)}{update}"), True: text(_suspect(*of) + update)}


CLAIM_DOCUMENTS = _both(_DOCUMENTS, _CLAIM_DOCUMENTS)
CLAIM_TO_GENERATE = _both(_CHUNKS_TO_GENERATE, _CLAIM_TO_GENERATE)
CLAIM_TO_INDEX = {
    False: text(_DUE_TO_INDEX + _CLAIM_TO_INDEX),
    True: text(_suspect(*_SUSPECTS_TO_INDEX) + _CLAIM_TO_INDEX),
}


def _is_due(table: str, is_open: str, models: str = "", only: str = "TRUE") -> str:
    """Return the expression whether any row is claimable; deferred rows are not read one by one.

    The order keeps the planner on the index, whatever its statistics are.
    """
    return f"""(
        WITH RECURSIVE {_lanes(table, is_open)}
        SELECT EXISTS (
            SELECT 1 FROM lanes p {models} CROSS JOIN LATERAL (
                SELECT 1 FROM {table} w
                WHERE {is_open} AND w.tenant = p.tenant AND w.lane = p.lane AND {only} AND w.due_at <= now()
                ORDER BY w.due_at LIMIT 1) w))"""


# Chunks of an embedding that no worker serves wake one in vain: it claims nothing.
_MODELS = "CROSS JOIN (SELECT DISTINCT embedding_model AS name FROM collections) m"


def _oldest(stage: str, table: str, is_open: str, models: str = "", only: str = "TRUE") -> str:
    """Return the query for how long the row of each lane that waits longest has been due."""
    return f"""
        SELECT '{stage}' AS stage, f.lane, f.due_at FROM (
            WITH RECURSIVE {_lanes(table, is_open)}
            SELECT p.lane, w.due_at FROM lanes p {models} CROSS JOIN LATERAL (
                SELECT w.due_at FROM {table} w
                WHERE {is_open} AND w.tenant = p.tenant AND w.lane = p.lane AND {only} AND w.due_at <= now()
                ORDER BY w.due_at LIMIT 1) w) f"""


_OLDEST = " UNION ALL ".join(
    [
        _oldest("parse", "documents", _TO_PARSE),
        _oldest("generate", "chunks", _TO_GENERATE),
        _oldest("index", "chunks", _TO_INDEX_TEXT, _MODELS, _OF_EMBEDDING),
        _oldest("index", "chunks", _TO_INDEX_QUESTIONS, _MODELS, _OF_EMBEDDING),
    ]
)

# Return the waiting times of the oldest due rows of all tenants, with one index lookup each.
OLDEST = text(f"SELECT stage, lane, now() - min(due_at) AS age FROM ({_OLDEST}) o GROUP BY stage, lane")

# Return the stages with claimable rows.
DUE = text(f"""
    SELECT {_is_due("documents", _TO_PARSE)} AS parse, {_is_due("chunks", _TO_GENERATE)} AS generate,
           {_is_due("chunks", _TO_INDEX_TEXT, _MODELS, _OF_EMBEDDING)}
           OR {_is_due("chunks", _TO_INDEX_QUESTIONS, _MODELS, _OF_EMBEDDING)} AS index
""")
