"""The view of a sync, which the routes of sources and of programs that push return."""

from __future__ import annotations

import dataclasses

from features.sources.domain import SyncState
from features.sources.schemas import SyncView
from shared.http.schemas.jobs import RunPhase


def sync_view(state: SyncState) -> SyncView:
    copied = SyncView.model_fields.keys() & set(state.__dataclass_fields__) - {"refused", "state"}
    return SyncView(
        **{name: getattr(state, name) for name in copied},
        **dataclasses.asdict(state.counts),
        state=RunPhase(state.state),
        refused_entries=[{"key": entry.key, "reason": entry.reason} for entry in state.refused],
    )
