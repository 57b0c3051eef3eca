"""Lost uploads: a submission of unchanged content replaces bytes that are missing in the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress

import structlog

from shared.domain.corpus.documents import NewDocument
from shared.domain.errors import Conflict, NotFound, Unavailable
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.submission import Submission
from shared.services.api import ApiServices

log = structlog.get_logger()


async def complete(
    new: Sequence[NewDocument], submissions: Sequence[Submission], services: ApiServices
) -> list[Submission]:
    """Keep the submitted bytes of unchanged documents whose stored bytes are missing, for example after a restore.

    Such a document is accepted: it refers to the new bytes, and it is parsed again if it had failed. Nothing else
    changes.

    Returns:
        The submissions in order.
    """
    unchanged = [submission.document.id for submission in submissions if not submission.accepted]
    if not unchanged:
        return list(submissions)
    documents = services.ledger[Documents]
    stored = await documents.newest_uploads(unchanged)
    try:
        lost = await services.uploads.lost(list(stored.values()))
    except (Unavailable, OSError) as error:
        log.warning("uploads.unchecked", reason=str(error))  # the documents are unchanged in any case
        return list(submissions)
    return [
        await _completed(document, submission, stored[submission.document.id], services)
        if not submission.accepted and stored.get(submission.document.id) in lost
        else submission
        for document, submission in zip(new, submissions, strict=True)
    ]


async def _completed(new: NewDocument, submission: Submission, before: str, services: ApiServices) -> Submission:
    document, documents = submission.document, services.ledger[Documents]
    if not await documents.replace_uploads([document.id], {before: new.upload}):
        return submission
    log.info("upload.replaced", document_id=str(document.id), version=document.version)
    if document.state is DocumentState.FAILED:
        with suppress(Conflict, NotFound):  # another request was faster
            document = await documents.retry(new.collection.tenant, document.id)
    return dataclasses.replace(submission, document=document, accepted=True)
