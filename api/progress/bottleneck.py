"""The main bottleneck of the ingest, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from api.schemas.status import PaceView
from shared.domain.budgets import Budget
from shared.domain.durations import duration
from shared.domain.limit_use import LimitUse
from shared.ledger.work.backlog import Backlog

_NEARLY = 0.9  # from this share on, the limit is the bottleneck
_ITEMS = {"parse": "documents", "read": "pages", "generate": "chunks", "index": "chunks"}
_PARTS = {"ledger": "PostgreSQL", "broker": "the broker", "qdrant": "Qdrant", "uploads": "the store of uploads"}


def pace(
    backlog: Backlog,
    parts: Mapping[str, bool],
    uses: Sequence[LimitUse],
    workers: Mapping[str, int],
    budgets: Sequence[Budget],
) -> PaceView:
    """Return the first bottleneck: an unavailable part, a breaker, a cooldown, a limit, a budget, a pause, or workers.

    Args:
        backlog: open work of the tenant.
        parts: whether each component answers.
        uses: use of all limits; none while the broker is unavailable.
        workers: number of live workers per stage.
        budgets: budgets of the tenant.
    """
    down = [name for name, answers in parts.items() if not answers]
    facts = {"down": down, "workers": dict(workers)}
    if down:
        names = " and ".join(_PARTS.get(name, name) for name in down)
        verb = "does" if len(down) == 1 else "do"
        return PaceView(cause="part_down", sentence=_sentence(f"{names} {verb} not answer."), **facts)
    if not any(_open(backlog, stage) for stage in backlog.stages):
        return PaceView(cause="idle", sentence="No work is waiting.", **facts)
    cause, sentence = (
        _of_limits(uses)
        or _of_budgets(budgets, backlog)
        or _of_pauses(backlog)
        or _of_workers(backlog, workers)
        or _of_work(backlog)
    )
    return PaceView(cause=cause, sentence=_sentence(sentence), **facts)


def _open(backlog: Backlog, stage: str) -> int:
    return sum(w.due + w.in_flight + w.later for queue, w in backlog.stages.items() if queue == stage)


def _of_limits(uses: Sequence[LimitUse]) -> tuple[str, str] | None:
    for use in uses:
        if use.breaker == "open":
            return "breaker", f"the {use.component} provider fails, and calls wait until it answers again."
    if waiting := [use for use in uses if use.cooldown.total_seconds() > 0]:
        use = max(waiting, key=lambda use: use.cooldown)
        return "cooldown", f"the {use.component} provider requested a wait of {_said(use.cooldown)}."
    used = [(share, use) for use in uses if (share := _share(use)) > _NEARLY]
    if not used:
        return _of_flex(uses)
    _, use = max(used, key=lambda one: one[0])
    if use.limit is not None:
        return "limit", f"{use.name}: {use.used:,} of {use.limit:,} per minute are used."
    return "limit", f"{use.name}: {use.in_flight:,} of at most {use.in_flight_limit:,} calls are running."


def _of_flex(uses: Sequence[LimitUse]) -> tuple[str, str] | None:
    for use in uses:
        if use.flex_pause.total_seconds() > 0:
            sentence = f"the {use.component} provider has no capacity left in the service tier flex"
            return "cooldown", f"{sentence}; the next call is made in {_said(use.flex_pause)}."
    return None


def _share(use: LimitUse) -> float:
    shares = [use.used / use.limit if use.limit else 0.0]
    shares.append(use.in_flight / use.in_flight_limit if use.in_flight_limit else 0.0)
    return max(shares)


def _of_budgets(budgets: Sequence[Budget], backlog: Backlog) -> tuple[str, str] | None:
    """Return the first exhausted budget, while chunks wait for their questions."""
    if not _open(backlog, "generate"):
        return None
    return next((("budget", budget.notice) for budget in budgets if budget.notice is not None), None)


def _of_pauses(backlog: Backlog) -> tuple[str, str] | None:
    """Return the pause of jobs if all open work belongs to them: no due row can be claimed, and none is in progress."""
    stages = backlog.stages.values()
    if any(w.oldest is not None or w.in_flight or w.later for w in stages):
        return None
    return "paused", "all open work belongs to paused jobs."


def _of_workers(backlog: Backlog, workers: Mapping[str, int]) -> tuple[str, str] | None:
    for stage in backlog.stages:
        if (waiting := _open(backlog, stage)) and not workers.get(stage):
            return "no_worker", f"no {stage} worker is alive, and {waiting:,} {_ITEMS[stage]} wait for one."
    if backlog.unserved:
        model, chunks = next(iter(backlog.unserved.items()))
        return "no_worker", f"no worker serves the embedding '{model}', and {chunks:,} chunks wait for one."
    return None


def _of_work(backlog: Backlog) -> tuple[str, str]:
    rate = f"{backlog.rate:,.0f} chunks finish per minute"
    if backlog.eta is None:
        return "working", f"{rate}, and there is no bottleneck."
    return "working", f"{rate}, and the open chunks need about {_said(backlog.eta)}."


def _said(time: timedelta) -> str:
    """Return a duration in words, at least a second."""
    return duration(max(1, round(time.total_seconds())))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
