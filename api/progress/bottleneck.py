"""The main bottleneck of the ingest, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from api.progress.readiness import NAMES
from api.schemas.status import PaceView
from shared.domain.durations import duration
from shared.domain.spending.budgets import Budget
from shared.domain.spending.limit_use import LimitUse
from shared.ledger.work.backlog import Backlog

_NEARLY = 0.9  # from this share on, the limit is the bottleneck
_ITEMS = {"parse": "documents", "read": "pages", "generate": "chunks", "index": "chunks"}


def pace(
    backlog: Backlog,
    parts: Mapping[str, bool],
    uses: Sequence[LimitUse],
    workers: Mapping[str, int],
    budgets: Sequence[Budget],
    *,
    reasons: Mapping[str, str] | None = None,
    refused_writes: str | None = None,
) -> PaceView:
    """Return the first bottleneck: an unavailable part, a provider that fails or pauses, a limit, a budget, or workers.

    Args:
        backlog: open work of the tenant.
        parts: whether each component answers.
        uses: use of all limits; none while the broker is unavailable.
        workers: number of live workers per stage.
        budgets: budgets of the tenant.
        reasons: sentences about the components that do not answer, by component.
        refused_writes: sentence about the reason why Qdrant takes no points; None if it does.
    """
    down = [name for name, answers in parts.items() if not answers]
    facts = {"down": down, "workers": dict(workers)}
    if down:
        return PaceView(cause="component_down", message=_sentence(f"{_of_parts(down, reasons or {})}."), **facts)
    if not any(_open(backlog, stage) for stage in backlog.stages):
        return PaceView(cause="idle", message="No work is waiting.", **facts)
    if refused_writes and _open(backlog, "index"):
        return PaceView(cause="component_down", message=_sentence(f"{refused_writes}."), **facts)
    cause, message = (
        _of_limits(uses)
        or _of_budgets(budgets, backlog)
        or _of_pauses(backlog)
        or _of_workers(backlog, workers)
        or _of_work(backlog)
    )
    return PaceView(cause=cause, message=_sentence(message), **facts)


def _of_parts(down: Sequence[str], reasons: Mapping[str, str]) -> str:
    if all(name in reasons for name in down):
        return "; ".join(reasons[name] for name in down)
    names = " and ".join(NAMES.get(name, name) for name in down)
    return f"{names} {'does' if len(down) == 1 else 'do'} not answer"


def _open(backlog: Backlog, stage: str) -> int:
    return sum(w.due + w.in_flight + w.delayed for queue, w in backlog.stages.items() if queue == stage)


def _of_limits(uses: Sequence[LimitUse]) -> tuple[str, str] | None:
    stopped = [use for use in uses if use.breaker != "closed"]
    paused = sorted((use for use in uses if use.cooldown), key=lambda use: -use.cooldown)
    failing = sorted((use for use in uses if use.trouble), key=lambda use: -use.failing)
    for use in (*stopped, *paused, *failing):
        return "cooldown" if use.breaker == "closed" and use.cooldown else "breaker", use.trouble or ""
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
    if any(w.oldest is not None or w.in_flight or w.delayed for w in stages):
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
    if backlog.eta is not None:
        return "working", f"{rate}, and the open chunks need about {_said(backlog.eta)}."
    if backlog.rate:
        return "working", f"{rate}, and there is no bottleneck."
    stages = backlog.stages.values()
    running, due, delayed = (sum(getattr(w, name) for w in stages) for name in ("in_flight", "due", "delayed"))
    parts = [f"{running:,} in progress"] if running else []
    parts += [f"{due:,} due"] if due else []
    parts += [f"{delayed:,} waiting for another attempt, whose documents have the reasons"] if delayed else []
    return "working", f"no chunk has finished in the last minute; open work: {', '.join(parts)}."


def _said(time: timedelta) -> str:
    """Return a duration in words, at least a second."""
    return duration(max(1, round(time.total_seconds())))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
