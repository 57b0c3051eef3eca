"""The main bottleneck of the ingest, as a code with values and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from api.progress.readiness import NAMES
from api.schemas.status import PaceCause, PaceValues, PaceView
from shared.domain.durations import duration
from shared.domain.spending.budgets import Budget
from shared.domain.spending.limit_use import LimitUse
from shared.ledger.work.backlog import Backlog

_NEARLY = 0.9  # from this share on, the limit is the bottleneck
_ITEMS = {"parse": "documents", "read": "pages", "generate": "chunks", "index": "chunks"}
_LONG = timedelta(minutes=1)  # a shorter pause is a part of the pace
# Causes for which nothing finishes until they have ended, so that no time is known.
_STOPS: frozenset[PaceCause] = frozenset({"component_down", "breaker", "budget", "paused", "no_worker"})
_OF_SOME_JOBS: frozenset[PaceCause] = frozenset({"budget", "paused"})  # other jobs continue


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A bottleneck.

    Args:
        cause: its code.
        sentence: its sentence, which may start in lower case.
        values: fields of `PaceValues`.
        is_long: whether it is a pause of a minute or more.
    """

    cause: PaceCause
    sentence: str
    values: Mapping[str, Any]
    is_long: bool = False

    @property
    def stops_all(self) -> bool:
        """Whether no work finishes until it has ended."""
        return self.is_long or (self.cause in _STOPS and self.cause not in _OF_SOME_JOBS)

    @property
    def stops_some(self) -> bool:
        """Whether some work does not finish until it has ended."""
        return self.is_long or self.cause in _STOPS


def pace_view(found: Bottleneck, down: Sequence[str], workers: Mapping[str, int]) -> PaceView:
    """Return the view of a bottleneck."""
    values = PaceValues(**found.values)
    return PaceView(
        cause=found.cause, message=_sentence(found.sentence), values=values, down=list(down), workers=dict(workers)
    )


def bottleneck(
    backlog: Backlog,
    parts: Mapping[str, bool],
    uses: Sequence[LimitUse],
    workers: Mapping[str, int],
    budgets: Sequence[Budget],
    *,
    reasons: Mapping[str, str] | None = None,
    refused_writes: str | None = None,
) -> Bottleneck:
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
    if down:
        sentence = _of_parts(down, reasons or {})
        return Bottleneck("component_down", f"{sentence}.", {"reason": _reasons(down, reasons or {})})
    if not any(_open(backlog, stage) for stage in backlog.stages):
        return Bottleneck("idle", "no work is waiting.", {})
    if refused_writes and _open(backlog, "index"):
        return Bottleneck("component_down", f"{refused_writes}.", {"reason": refused_writes})
    return (
        _of_limits(uses)
        or _of_budgets(budgets, backlog)
        or _of_pauses(backlog)
        or _of_workers(backlog, workers)
        or _of_work(backlog)
    )


def _reasons(down: Sequence[str], reasons: Mapping[str, str]) -> str | None:
    """Return why components do not answer; None if this is unknown of one of them."""
    return "; ".join(reasons[name] for name in down) if all(name in reasons for name in down) else None


def _of_parts(down: Sequence[str], reasons: Mapping[str, str]) -> str:
    if (known := _reasons(down, reasons)) is not None:
        return known
    names = " and ".join(NAMES.get(name, name) for name in down)
    return f"{names} {'does' if len(down) == 1 else 'do'} not answer"


def _open(backlog: Backlog, stage: str) -> int:
    return sum(w.due + w.in_flight + w.delayed for queue, w in backlog.stages.items() if queue == stage)


def _of_limits(uses: Sequence[LimitUse]) -> Bottleneck | None:
    stopped = [use for use in uses if use.breaker != "closed"]
    paused = sorted((use for use in uses if use.cooldown), key=lambda use: -use.cooldown)
    failing = sorted((use for use in uses if use.trouble), key=lambda use: -use.failing)
    for use in (*stopped, *paused, *failing):
        is_pause = use.breaker == "closed" and bool(use.cooldown)
        pause = use.cooldown if is_pause else None
        values = {"component": use.component, "reason": use.reason or None, "pause_seconds": _seconds(pause)}
        return Bottleneck(
            "cooldown" if is_pause else "breaker",
            use.trouble or "",
            values,
            is_long=is_pause and use.cooldown >= _LONG,
        )
    used = [(share, use) for use in uses if (share := _share(use)) > _NEARLY]
    if not used:
        return _of_flex(uses)
    _, use = max(used, key=lambda one: one[0])
    if use.limit is not None:
        values = {"limit": use.name, "used": use.used, "most": use.limit, "unit": "per_minute"}
        return Bottleneck("limit", f"{use.name}: {use.used:,} of {use.limit:,} per minute are used.", values)
    values = {"limit": use.name, "used": use.in_flight, "most": use.in_flight_limit, "unit": "in_flight"}
    sentence = f"{use.name}: {use.in_flight:,} of at most {use.in_flight_limit:,} calls are running."
    return Bottleneck("limit", sentence, values)


def _of_flex(uses: Sequence[LimitUse]) -> Bottleneck | None:
    for use in uses:
        if use.flex_pause.total_seconds() > 0:
            sentence = f"the {use.component} provider has no capacity left in the service tier flex"
            return Bottleneck(
                "cooldown",
                f"{sentence}; the next call is made in {_said(use.flex_pause)}.",
                {"component": use.component, "pause_seconds": _seconds(use.flex_pause), "is_flex": True},
                is_long=use.flex_pause >= _LONG,
            )
    return None


def _share(use: LimitUse) -> float:
    shares = [use.used / use.limit if use.limit else 0.0]
    shares.append(use.in_flight / use.in_flight_limit if use.in_flight_limit else 0.0)
    return max(shares)


def _of_budgets(budgets: Sequence[Budget], backlog: Backlog) -> Bottleneck | None:
    """Return the first exhausted budget, while chunks wait for their questions."""
    if not _open(backlog, "generate"):
        return None
    used_up = next((budget for budget in budgets if budget.notice is not None), None)
    return None if used_up is None else Bottleneck("budget", used_up.notice or "", {"budget_id": used_up.id})


def _of_pauses(backlog: Backlog) -> Bottleneck | None:
    """Return the pause of jobs if all open work belongs to them: no due row can be claimed, and none is in progress."""
    stages = backlog.stages.values()
    if any(w.oldest is not None or w.in_flight or w.delayed for w in stages):
        return None
    return Bottleneck("paused", "all open work belongs to paused jobs.", {})


def _of_workers(backlog: Backlog, workers: Mapping[str, int]) -> Bottleneck | None:
    for stage in backlog.stages:
        if (waiting := _open(backlog, stage)) and not workers.get(stage):
            sentence = f"no {stage} worker is alive, and {waiting:,} {_ITEMS[stage]} wait for one."
            return Bottleneck("no_worker", sentence, {"stage": stage, "waiting": waiting})
    if backlog.unserved:
        model, chunks = next(iter(backlog.unserved.items()))
        sentence = f"no worker serves the embedding '{model}', and {chunks:,} chunks wait for one."
        return Bottleneck("no_worker", sentence, {"embedding": model, "waiting": chunks})
    return None


def _of_work(backlog: Backlog) -> Bottleneck:
    """Describe work without a bottleneck: its pace with the time left, or the open work if nothing finishes."""
    stages, left = backlog.stages.values(), backlog.left
    running, due, delayed = (sum(getattr(w, name) for w in stages) for name in ("in_flight", "due", "delayed"))
    values = {"in_progress": running, "due": due, "delayed": delayed}
    if left.is_in_batches:
        sentence = "the open chunks wait for batches of the provider, which take up to 24 hours."
        return Bottleneck("batches", sentence, values)
    if not backlog.recent:
        parts = [f"{running:,} in progress"] if running else []
        parts += [f"{due:,} due"] if due else []
        parts += [f"{delayed:,} waiting for another attempt, whose documents have the reasons"] if delayed else []
        sentence = f"no chunk has finished in the last minute; open work: {', '.join(parts)}."
        return Bottleneck("stalled", sentence, values)
    rate = f"{backlog.chunks_per_minute:,.0f} chunks finish per minute"
    rest = "the time left is not known yet" if left.whole is None else f"about {_said(left.whole)} left"
    return Bottleneck("working", f"{rate}, {rest}.", values)


def _seconds(time: timedelta | None) -> int | None:
    """Return a duration in seconds, at least one."""
    return None if time is None else max(1, round(time.total_seconds()))


def _said(time: timedelta) -> str:
    """Return a duration in words, at least a second."""
    return duration(_seconds(time) or 1)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
