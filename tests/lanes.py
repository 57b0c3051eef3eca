"""Which tests run side by side, and which have the machine to themselves."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest
from xdist.scheduler import LoadGroupScheduling

from tests.ground import GROUND

_OF_WORKERS = ("test_workers_die", "test_poison", "test_clock_jumps")  # take as long as the other faults together
_LONGEST_FIRST = ("faults", "acceptance", "integration", "contract", "properties", "unit")


class Lanes(LoadGroupScheduling):
    """Hands out whole files, so that tests keep their order and share what their file starts.

    The fault suite is two lanes, each over a deployment that its files share. Tests marked `alone` are the last lane.
    """

    def _split_scope(self, nodeid: str) -> str:
        group: str = super()._split_scope(nodeid)
        if group != nodeid:
            return group
        path = PurePosixPath(nodeid.partition("::")[0])
        if path.parent.name != "faults":
            return str(path)
        return "faults of workers" if path.stem in _OF_WORKERS else "faults"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Lanes:
    return Lanes(config, log)


@pytest.hookimpl(tryfirst=True)  # before the workers add a test's group to its name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)
    for item in items:
        if _alone(item) and _suite(item) != "faults":
            item.add_marker(pytest.mark.xdist_group("alone"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with _turn(alone=_alone(item)):
        return (yield)


def _place(item: pytest.Item) -> tuple[bool, int, bool]:
    """Lanes that take longest begin first, and what waits for the others comes last in its lane."""
    suite, alone = _suite(item), _alone(item)
    return alone and suite != "faults", _LONGEST_FIRST.index(suite), alone


def _suite(item: pytest.Item) -> str:
    return item.nodeid.split("/")[1]


def _alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@contextmanager
def _turn(*, alone: bool) -> Iterator[None]:
    """Wait until the machine may be shared with what runs, or until nothing runs."""
    with Path(os.environ[GROUND], "turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
