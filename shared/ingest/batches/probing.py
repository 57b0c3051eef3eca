"""The probe of a provider: a batch of two neutral requests before the first batch of chunks.

Some servers accept batches and report their success without any work, and some forget the metadata by which a batch is
found again. Such a provider is refused by name.
"""

from __future__ import annotations

from datetime import timedelta

from shared.domain.errors import Transient
from shared.domain.stages.batches import Batch
from shared.providers.batches import BatchMissing, BatchProvider, found, request_line
from shared.providers.chat import ChatRequest, Completion, Message

LINES = 2
_MAX_TOKENS = 16
_IDS = [str(number) for number in range(1, LINES + 1)]


def content(model: str) -> bytes:
    """Return the input file of a probe."""
    request = ChatRequest((Message("user", "Reply with the word yes."),), max_tokens=_MAX_TOKENS)
    return b"".join(request_line(custom_id, request.body(model)) for custom_id in _IDS)


async def fault_of(api: BatchProvider, batch: Batch, list_lag: timedelta) -> str | None:
    """Return the reason why a provider's batches cannot be used, or None.

    Args:
        api: the provider's batch API.
        batch: the probe, which has ended.
        list_lag: time after which the provider's list certainly contains a batch.

    Raises:
        Transient: the provider did not answer, or its list may not be complete yet.
    """
    if batch.output_file_id is None:
        return "its batch of two requests has no results"
    try:
        lines = [line.content async for line in api.lines(batch.output_file_id, 0)]
    except BatchMissing:
        return "the results of its batch cannot be downloaded"
    replies = [reply for line in lines if (reply := api.reply(line))]
    answered = sorted(reply.custom_id for reply in replies if isinstance(reply.result, Completion))
    if answered != _IDS:
        return "it reports a completed batch, but the results do not answer the two requests"
    if found(await api.list_since(batch.created_at), str(batch.id), batch.file_id or "") is None:
        if batch.since_submitted is None or batch.since_submitted < list_lag:
            raise Transient("the provider's list of batches does not show the probe yet")
        return "its list of batches shows neither metadata nor input files, so a lost reply would be paid twice"
    return None
