"""The statements that claim work: fair between tenants, uploads ahead of bulk, and suspects apart from everything else.

Every claim shares the free slots out between the tenants that have work due: the next slot goes to the tenant that
holds the fewest for its weight. So one tenant's million chunks do not delay another's ten. Within a tenant the lane
decides, then the age. No tenant holds more chunks to generate than its limits let begin within a minute: the chunks
would stand in slots that others could use.

When a worker dies its rows are due again, the one that killed it too. A row that lost two leases is a suspect: a drain
that holds nothing else claims it alone. It succeeds and is cleared, or kills only that worker.
"""

from __future__ import annotations

from sqlalchemy import TextClause, text

from shared.domain.poison import SUSPECT_AFTER
from shared.domain.records import AcceptedState, ChunkState
from shared.ledger import states

# How many leases of a row have ended: the leases that earlier claims counted, and the lease that this claim takes over.
_LOST_LEASES = "w.lost_leases + (w.leased_by IS NOT NULL)::int"


def _places(table: str, is_open: str) -> str:
    """Return the tables of tenants that have open work, each found by one look into the index, and of their lanes."""
    return f"""
        tenants(tenant) AS (
            SELECT min(w.tenant) FROM {table} w WHERE {is_open}
            UNION ALL
            SELECT (SELECT min(w.tenant) FROM {table} w WHERE {is_open} AND w.tenant > t.tenant)
            FROM tenants t WHERE t.tenant IS NOT NULL
        ),
        places AS (
            SELECT t.tenant, l.lane FROM tenants t, (VALUES (0), (1)) AS l(lane) WHERE t.tenant IS NOT NULL
        )"""


def _fair(table: str, is_open: str, columns: str, only: str = "TRUE", parts: str = "") -> str:
    """Return the common table expressions that end in `due`: rows that may be claimed now, locked, the fairest first.

    With many tenants no tenant yields more rows than four times its share, so that few rows are locked in vain.
    `parts` joins what else divides the index of open rows, so that each part is read in the order of its due times.
    """
    return f"""
    WITH RECURSIVE {_places(table, is_open)},
    held AS (
        SELECT w.tenant, count(*) AS rows FROM {table} w
        WHERE {is_open} AND w.leased_by IS NOT NULL AND w.due_at > now() GROUP BY w.tenant
    ), candidates AS (
        SELECT p.tenant, w.*
        FROM places p {parts} CROSS JOIN LATERAL (
            SELECT {columns}, w.lane, w.due_at FROM {table} w
            WHERE {is_open} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
              AND {_LOST_LEASES} < {SUSPECT_AFTER} AND {only}
            ORDER BY w.due_at
            LIMIT least(CAST(:limit AS int), 8 * CAST(:limit AS int) / (SELECT count(*)::int FROM places) + 1)
            FOR UPDATE SKIP LOCKED
        ) w
    ), placed AS (
        SELECT c.*,
               coalesce(h.rows, 0) + row_number() OVER (PARTITION BY c.tenant ORDER BY c.lane, c.due_at) AS place
        FROM candidates c LEFT JOIN held h ON h.tenant = c.tenant
    ), due AS (
        SELECT c.*, c.place / coalesce(v.weight, 1) AS turn
        FROM placed c
        LEFT JOIN unnest(CAST(:tenants AS text[]), CAST(:weights AS float[]), CAST(:most AS bigint[]))
             AS v(tenant, weight, most) ON v.tenant = c.tenant
        WHERE c.place <= coalesce(v.most, CAST(:most_of_others AS bigint), c.place)
        ORDER BY turn, c.lane, c.due_at LIMIT CAST(:limit AS int)
    )"""


def _suspect(table: str, is_open: str, columns: str, only: str = "TRUE") -> str:
    """Return the same for suspects alone, the one that has waited longest first."""
    return f"""
    WITH due AS (
        SELECT {columns} FROM {table} w
        WHERE {is_open} AND w.lost_leases > 0 AND {_LOST_LEASES} >= {SUSPECT_AFTER} AND w.due_at <= now() AND {only}
        ORDER BY w.due_at LIMIT CAST(:limit AS int)
        FOR UPDATE SKIP LOCKED
    )"""


# The columns that a claim sets.
_LEASED = (
    f"""due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker, lost_leases = {_LOST_LEASES}"""
)

_TO_PARSE = states.is_in(states.TO_PARSE, "w")
_TO_GENERATE = states.is_in(states.TO_GENERATE, "w")
_TO_INDEX_TEXT = states.is_in(states.TO_INDEX_TEXT, "w")
_TO_INDEX_QUESTIONS = states.is_in(states.TO_INDEX_QUESTIONS, "w")

# Claim documents to be parsed.
_DOCUMENTS = ("documents", _TO_PARSE, "w.id")
_CLAIM_DOCUMENTS = f"""
    UPDATE documents w
    SET {states.CLAIM_DOCUMENT.sets()}, {_LEASED}, updated_at = now()
    FROM due, collections c, document_versions v
    WHERE w.id = due.id AND c.id = w.collection_id AND v.document_id = w.id AND v.version = w.version
    RETURNING w.id, w.version, w.lease_token, w.tenant, w.collection_id, c.options, v.upload, v.filename, v.title,
              v.media_type, v.metadata, v.ready_questions, w.attempts, w.lost_leases, w.live_version
"""

# What a claimed chunk says: one look into an index for each row, whatever the statistics say.
_OF_CHUNK = "FROM chunk_contents t WHERE t.chunk_id = w.id AND t.version = w.version"
_CONTENT = f"(SELECT t.content {_OF_CHUNK})"

# Claim chunks whose questions are to be generated. Content that another worker is paying for is left alone, also where
# its version was given up meanwhile, and one claim takes each content once. OFFSET keeps the looks for such workers
# from becoming joins: a few rows need one look into the index each.
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
              (SELECT p.replies FROM paid_replies p WHERE p.content_key = w.content_key) AS replies
"""

_ACCEPTED = f"""
    FROM accepted_questions a
    WHERE a.chunk_id = w.id AND a.state IN ('{AcceptedState.WAITING}', '{AcceptedState.INDEXED}') ORDER BY a.id"""

# The index of chunks to be indexed is divided by the embedding. A worker claims those that it serves.
_SERVED = "CROSS JOIN unnest(CAST(:embeddings AS text[])) AS m(name)"
_OF_EMBEDDING = "w.embedding_model = m.name"
_OF_SERVED = "w.embedding_model = ANY(CAST(:embeddings AS text[]))"

# A chunk's questions are still to be written: its text goes first.
_TEXT_ONLY = """
    NOT w.ready_made
    AND NOT EXISTS (SELECT 1 FROM completions p WHERE p.content_key = w.content_key OFFSET 0)"""

# Claim chunks to be indexed, with their questions, where these are there, and those that users asked. A worker takes
# none whose collection has an embedding that it does not serve. While an older version is live, every point of the
# newest one stays hidden.
_TEXTS_TO_INDEX = (
    _TO_INDEX_TEXT,
    f"w.id, w.version, w.may_have_points, {_TEXT_ONLY} AS text_only",
)
_QUESTIONS_TO_INDEX = (
    _TO_INDEX_QUESTIONS,
    "w.id, w.version, w.may_have_points, false AS text_only",
)
_CLAIM_TO_INDEX = f"""
    UPDATE chunks w
    SET {_LEASED}, may_have_points = due.may_have_points OR NOT due.text_only
    FROM due, documents d JOIN collections l ON l.id = d.collection_id, document_versions v
    WHERE w.id = due.id AND w.version = due.version AND d.id = w.document_id
      AND v.document_id = w.document_id AND v.version = w.version
    RETURNING w.id, w.version, w.lease_token, w.document_id, w.tenant, d.collection_id,
              w.embedding_model, l.index_name, l.options, d.external_id, v.filename, v.metadata, w.ordinal,
              {_CONTENT} AS content,
              coalesce(d.live_version <> w.version, false) AS hidden,
              w.ready_made,
              coalesce((SELECT t.ready_questions {_OF_CHUNK} AND w.ready_made),
                       (SELECT p.questions FROM completions p WHERE p.content_key = w.content_key AND w.error IS NULL),
                       '{{}}') AS questions,
              ARRAY(SELECT a.id {_ACCEPTED}) AS accepted_ids,
              ARRAY(SELECT a.question {_ACCEPTED}) AS accepted_questions,
              w.error, w.attempts, w.lost_leases, d.created_at, due.may_have_points, due.text_only,
              w.points_token IS NOT NULL AS text_stands
"""


def _both(of: tuple[str, ...], update: str) -> dict[bool, TextClause]:
    """Return the claim of ordinary work under False, and the claim of suspects under True."""
    return {False: text(_fair(*of) + update), True: text(_suspect(*of) + update)}


def _both_of_served(is_open: str, columns: str) -> dict[bool, TextClause]:
    """Return the same for chunks whose embedding the worker serves."""
    return {
        False: text(_fair("chunks", is_open, columns, _OF_EMBEDDING, _SERVED) + _CLAIM_TO_INDEX),
        True: text(_suspect("chunks", is_open, columns, _OF_SERVED) + _CLAIM_TO_INDEX),
    }


CLAIM_DOCUMENTS = _both(_DOCUMENTS, _CLAIM_DOCUMENTS)
CLAIM_TO_GENERATE = _both(_CHUNKS_TO_GENERATE, _CLAIM_TO_GENERATE)
CLAIM_TEXTS_TO_INDEX = _both_of_served(*_TEXTS_TO_INDEX)
CLAIM_QUESTIONS_TO_INDEX = _both_of_served(*_QUESTIONS_TO_INDEX)


def _is_due(table: str, is_open: str, models: str = "", only: str = "TRUE") -> str:
    """Return the expression whether any row may be claimed; rows that wait for their time are not read one by one.

    The order keeps the planner on the index, whatever its statistics say.
    """
    return f"""(
        WITH RECURSIVE {_places(table, is_open)}
        SELECT EXISTS (
            SELECT 1 FROM places p {models} CROSS JOIN LATERAL (
                SELECT 1 FROM {table} w
                WHERE {is_open} AND w.tenant = p.tenant AND w.lane = p.lane AND {only} AND w.due_at <= now()
                ORDER BY w.due_at LIMIT 1) w))"""


# Chunks of an embedding that no worker serves wake one in vain: it claims nothing.
_MODELS = "CROSS JOIN (SELECT DISTINCT embedding_model AS name FROM collections) m"


# See which stages have rows that may be claimed.
DUE = text(f"""
    SELECT {_is_due("documents", _TO_PARSE)} AS parse, {_is_due("chunks", _TO_GENERATE)} AS generate,
           {_is_due("chunks", _TO_INDEX_TEXT, _MODELS, _OF_EMBEDDING)}
           OR {_is_due("chunks", _TO_INDEX_QUESTIONS, _MODELS, _OF_EMBEDDING)} AS index
""")
