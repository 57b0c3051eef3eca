"""The statements that claim work: fair between tenants, uploads before bulk, suspects separately.

Every claim shares the free slots between the tenants with due work: the next slot is given to the tenant that holds
the fewest relative to its weight. One tenant's million chunks therefore do not delay another's ten. Within a tenant,
rows are ordered by lane, then by age. A file may take a minute, so no tenant holds the last slots of a parse worker.
No tenant holds more chunks to generate than its limits allow to start within a minute, because further chunks would
occupy slots while they wait. Chunks in the batch lane are claimed by batches, whose leases occupy no slot.

When a worker dies, its rows become due again, including the row that killed it. A row that lost two leases is a
suspect: only a drain without other work claims it. It either succeeds and is cleared, or kills only that worker.
"""

from __future__ import annotations

from shared.domain.poison import SUSPECT_AFTER
from shared.ledger.budgets import fragments
from shared.ledger.model import lanes, states
from shared.ledger.postgres import statements

# The index of chunks to index is divided by embedding. A worker claims the embeddings that it serves; a chunk of an
# embedding that no worker serves wakes a worker, which claims nothing.
_OF_MODEL = "w.embedding_model = m.name"
_MODELS = "CROSS JOIN (SELECT DISTINCT embedding_model AS name FROM collections) m"
_TO_INDEX = {
    "table": "chunks",
    "only": _OF_MODEL,
    "served": "CROSS JOIN unnest(CAST(:embeddings AS text[])) AS m(name)",
    "models": _MODELS,
    "of_model": _OF_MODEL,
}
# Prefix of the holder of a line's lease; the id of its batch follows.
LINE_HOLDER = "batch:"


def is_called(arguments: str) -> str:
    """Return the SQL condition that a call for a content runs for a version that was discarded meanwhile.

    An upload does not wait for the batch of a discarded version.

    Args:
        arguments: alias of a chunk that needs the content, and the content's key.
    """
    chunk, key = arguments.split()
    return f"""EXISTS (
        SELECT 1 FROM abandoned_calls b WHERE b.content_key = {key} AND b.due_at > now()
          AND (NOT {lanes.is_interactive(chunk)}
               OR NOT EXISTS (SELECT 1 FROM batch_lines l WHERE l.token = b.lease_token))
        OFFSET 0)"""


# Values of the placeholders `{QUEUE_NAME}` of `claims.sql`.
_DEFAULTS = {
    "only": "TRUE",
    "limit": "{limit}",
    "served": "",
    "suffix": "",
    "models": "",
    "of_model": "TRUE",
    "claims": "TRUE",
    "fits": "TRUE",
    "lane_has_room": "TRUE",
}
_QUEUES = {
    "parse": _DEFAULTS
    | {
        "table": "documents",
        "is_open": "{TO_PARSE:w}",
        "columns": "w.id",
        "only_suspects": "TRUE",
        "held": "{held_by_worker}",
    },
    "read": _DEFAULTS
    | {
        "table": "pages",
        "is_open": "{TO_READ:w}",
        "columns": "w.id, w.key",
        "only": "{page_is_free} AND {languages_are_installed:w}",
        "only_suspects": "{day_has_room_for_suspect}",
        "fits": "{day_has_room}",
        "held": "{held:read}",
    },
    "generate": _DEFAULTS
    | {
        "table": "chunks",
        "is_open": "{TO_GENERATE:w}",
        "columns": "w.id, w.version, w.content_key",
        "only": "{content_is_free} AND {part_has_room:w}",
        "only_suspects": "{suspect_has_room}",
        "fits": "{tenant_has_room}",
        "lane_has_room": "{lane_has_room:p}",
        "claims": "{is_live_lane:p}",  # batches claim the others; their texts are parsed and indexed like all others
        "held": "{held_by_lane:generate}",
    },
    "batch": {
        "table": "chunks",
        "is_open": "{TO_GENERATE:w}",
        "suffix": "_of_batches",
        "claims": "{is_batch_lane:p}",
        "lane_has_room": "{lane_has_room:p}",
    },
    "texts": _DEFAULTS
    | _TO_INDEX
    | {
        "is_open": "{TO_INDEX_TEXT:w}",
        "columns": "w.id, w.version, w.may_have_points, {is_text_only} AS text_only",
        "suffix": "_texts",
        "held": "{held:texts}",
    },
    "questions": _DEFAULTS
    | _TO_INDEX
    | {
        "is_open": "{TO_INDEX_QUESTIONS:w}",
        "columns": "w.id, w.version, w.may_have_points, false AS text_only",
        "only": f"{_OF_MODEL} AND {{no_other_is_live:w}}",
        "suffix": "_questions",
        "held": "{held:questions}",
        "limit": "{limit_of_questions}",
    },
    "index": {
        "table": "chunks",
        "is_open": "{TO_INDEX:w}",
        "columns": "w.id, w.version, w.may_have_points, ({TO_INDEX_TEXT:w} AND {is_text_only}) AS text_only",
        "only": "w.embedding_model = ANY(CAST(:embeddings AS text[])) AND ({TO_INDEX_TEXT:w} OR {no_other_is_live:w})",
        "only_suspects": "TRUE",
    },
}
SQL = statements.load(
    __file__,
    {**states.FRAGMENTS, **fragments.FRAGMENTS},
    suspect_after=str(SUSPECT_AFTER),
    is_called=is_called,
    **{f"{queue}_{name}": value for queue, values in _QUEUES.items() for name, value in values.items()},
)

# The claim of ordinary work under False, and the claim of suspects under True.
CLAIM_DOCUMENTS = {False: SQL.claim_documents, True: SQL.claim_suspect_documents}
CLAIM_PAGES = {False: SQL.claim_pages, True: SQL.claim_suspect_pages}
CLAIM_TO_GENERATE = {False: SQL.claim_to_generate, True: SQL.claim_suspects_to_generate}
CLAIM_TO_INDEX = {False: SQL.claim_to_index, True: SQL.claim_suspects_to_index}
