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

from pathlib import Path

from shared.domain.poison import SUSPECT_AFTER
from shared.ledger.budgets import fragments
from shared.ledger.model import lanes, states
from shared.ledger.postgres import statements

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


_PLACEHOLDERS = {**states.FRAGMENTS, **fragments.FRAGMENTS, "suspect_after": str(SUSPECT_AFTER), "is_called": is_called}
_FOLDER = Path(__file__).parent
PARSE = statements.load(_FOLDER / "claims_parse.sql", _PLACEHOLDERS)
READ = statements.load(_FOLDER / "claims_read.sql", _PLACEHOLDERS)
GENERATE = statements.load(_FOLDER / "claims_generate.sql", _PLACEHOLDERS)
INDEX = statements.load(_FOLDER / "claims_index.sql", _PLACEHOLDERS)
DUE = statements.load(_FOLDER / "claims_due.sql", _PLACEHOLDERS)

# The claim of ordinary work under False, and the claim of suspects under True.
CLAIM_DOCUMENTS = {False: PARSE.claim_documents, True: PARSE.claim_suspect_documents}
CLAIM_PAGES = {False: READ.claim_pages, True: READ.claim_suspect_pages}
CLAIM_TO_GENERATE = {False: GENERATE.claim_to_generate, True: GENERATE.claim_suspects_to_generate}
CLAIM_TO_INDEX = {False: INDEX.claim_to_index, True: INDEX.claim_suspects_to_index}
