"""Stages some of whose steps a test replaces."""

from __future__ import annotations

from typing import Any

from shared.ingest.drain import Stage


class Changed:
    """A stage with other steps or attributes.

    Args:
        stage: the stage that does all other steps.
        steps: functions and values by the names of the stage.
    """

    def __init__(self, stage: Stage[Any, Any], **steps: Any) -> None:
        self._stage = stage
        vars(self).update(steps)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)
