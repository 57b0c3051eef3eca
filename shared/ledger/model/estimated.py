"""The mark of costs that are estimated, because the provider may have charged for a call without reporting its tokens.

The mark follows the name of the model in stored costs. Costs are summed by model, so estimated costs stay separate.
"""

from __future__ import annotations

_MARK = " (estimated)"


def marked(model: str, *, is_estimated: bool) -> str:
    """Return the stored name of a cost's model."""
    return model + _MARK if is_estimated else model


def unmarked(stored: str) -> tuple[str, bool]:
    """Return the model of a stored cost, and whether the cost is estimated."""
    return stored.removesuffix(_MARK), stored.endswith(_MARK)
