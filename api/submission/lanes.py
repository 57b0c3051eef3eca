"""The lanes of uploads, and the check that the lane `batch` can be used."""

from __future__ import annotations

from typing import Literal

from shared.domain.errors import Conflict, InvalidInput
from shared.domain.lanes import Lane
from shared.domain.states import BatchState
from shared.ledger.work.batches import Batches
from shared.services.api import ApiServices
from shared.services.ingest import batch_provider_name, generation_strategy

LaneName = Literal["interactive", "bulk", "batch"]
_INSTEAD = "Use the lane `bulk`."


async def lane_of(name: LaneName, services: ApiServices) -> Lane:
    """Return the lane of a name.

    Raises:
        InvalidInput: the lane `batch` is not configured, or cannot be used with the model.
        Conflict: the provider's batches cannot be used.
        Unavailable: the ledger cannot be reached.
    """
    lane = Lane[name.upper()]
    if lane is Lane.BATCH:
        await _require_batches(services)
    return lane


async def _require_batches(services: ApiServices) -> None:
    settings = services.settings
    if not settings.llm_batches or settings.llm_model is None:
        raise InvalidInput(f"The lane `batch` is not configured: set FOREASK_LLM_BATCHES=on. {_INSTEAD}", field="lane")
    model, provider = settings.llm_model, batch_provider_name(settings)
    if generation_strategy(settings, model) != "list":
        raise InvalidInput(
            f"The lane `batch` takes one call for each chunk, but the model {model} answers one call for each question."
            f" {_INSTEAD}",
            field="lane",
        )
    probe = await services.ledger[Batches].probe(provider, model)
    if probe is not None and probe.state is BatchState.FAILED:
        raise Conflict(f"The provider {provider} cannot be used for batches: {probe.error}. {_INSTEAD}")
