"""Random histories: state machines whose steps run against services that all histories share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from features.all import FEATURES
from shared.ledger.postgres.statements import Statement
from shared.services import build
from shared.services.all import AllServices
from shared.settings import Settings
from tests.support.emptying import empty, prepare

_NOT_SHRUNK = 100  # histories: shrinking a failure takes longer than so many


@dataclass
class SharedServices:
    """Services, and a function that runs a coroutine on their loop."""

    services: AllServices
    run: Callable[..., Any]

    async def sql(self, statement: str, **parameters: object) -> Sequence[Any]:
        async with self.services.database.begin() as connection:
            result = await connection.execute(Statement(statement), parameters)
            return result.all()


@contextmanager
def sharing(configured: Settings) -> Iterator[SharedServices]:
    """Yield services whose ledger refuses unknown transitions, and delete their data at the end."""
    with asyncio.Runner() as runner:
        building = build("all", configured, FEATURES)
        services = runner.run(building.__aenter__())
        runner.run(prepare(services.database))
        try:
            yield SharedServices(services, runner.run)
        finally:
            runner.run(empty(services))
            runner.run(building.__aexit__(None, None, None))


def run_histories(
    machine: Callable[[], RuleBasedStateMachine], config: pytest.Config, counts: Mapping[str, int], *, steps: int
) -> None:
    """Run the same histories in every run.

    Args:
        machine: starts a history.
        config: has the option `--histories`, a number of histories.
        counts: number of histories by the value of the option `--faults`.
        steps: maximum number of steps of a history.
    """
    count = config.getoption("--histories") or counts[config.getoption("--faults")]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=count,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate] if count <= _NOT_SHRUNK else [Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
