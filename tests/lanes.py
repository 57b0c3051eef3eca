"""Which tests run side by side, and which have the machine to themselves."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.isolated_home import GROUND

_OF_WORKERS = ("test_workers_die", "test_poison", "test_clock_jumps")  # take as long as the other faults together
_LONGEST_FIRST = ("faults", "acceptance", "page", "properties", "integration", "contract", "unit")


class Lanes(LoadFileScheduling):
    """Hands out whole files, so that tests keep their order and share what their file starts.

    The fault suite is two lanes, each over a deployment that its files share.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = PurePosixPath(nodeid.partition("::")[0])
        if path.parent.name != "faults":
            return str(path)
        return "faults of workers" if path.stem in _OF_WORKERS else "faults"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Lanes:
    return Lanes(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Suites that take longest begin first, and files with tests that wait for all others, at their end, last."""
    with_alone = {item.path for item in items if _alone(item) and _suite(item) != "faults"}
    items.sort(key=lambda item: (item.path in with_alone, _LONGEST_FIRST.index(_suite(item)), _alone(item)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with _turn(alone=_alone(item)):
        return (yield)


def _suite(item: pytest.Item) -> str:
    return item.nodeid.split("/")[1]


def _alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@contextmanager
def _turn(*, alone: bool) -> Iterator[None]:
    """Wait until the machine may be shared with what runs, or until nothing runs.

    Who wants it alone shuts the door first, for a lock that is shared without a pause is never free.
    """
    with _open("machine") as machine:
        with _open("door") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def _open(name: str) -> IO[str]:
    return Path(os.environ[GROUND], name).open("w")
