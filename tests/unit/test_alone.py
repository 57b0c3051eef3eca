"""One bad row of a group delays no other row."""

from uuid import UUID

import pytest

from shared.domain.errors import Unavailable
from shared.ledger.postgres.alone import work_on
from shared.ledger.postgres.database import TransactionConflict
from tests.support.planted import guards

ROWS = [UUID(int=number) for number in range(4)]


class Work:
    """Work that fails for some rows."""

    def __init__(self, error, *bad):
        self.error = error
        self.bad = bad
        self.calls = []

    async def __call__(self, rows):
        self.calls.append(len(rows))
        if {ROWS[number] for number in self.bad} & set(rows):
            raise self.error


@guards(
    "shared/ledger/postgres/alone.py",
    "return [row for row in rows if len(rows) > 1 and",
    "return [row for row in rows if len(rows) > 100 and",
    means="one bad row delays all rows of its group",
)
@pytest.mark.parametrize(
    ("bad", "calls", "done"),
    [((), [4], [0, 1, 2, 3]), ((1,), [4, 1, 1, 1, 1], [0, 2, 3]), ((0, 1, 2, 3), [4, 1, 1, 1, 1], [])],
    ids=["none", "one", "all"],
)
@pytest.mark.parametrize(
    "error", [ValueError("bad"), TransactionConflict("conflict", component="ledger")], ids=["bug", "conflict"]
)
async def test_bad_rows_delay_no_others(bad, calls, done, error):
    work = Work(error, *bad)

    assert await work_on(ROWS, work, lambda row: row) == [ROWS[number] for number in done]
    assert work.calls == calls


async def test_single_bad_row_is_tried_once():
    work = Work(ValueError("bad"), 0)

    assert await work_on(ROWS[:1], work, lambda row: row) == []
    assert work.calls == [1]


async def test_unavailable_engine_is_not_blamed_on_rows():
    work = Work(Unavailable("unavailable", component="ledger"), 0)

    with pytest.raises(Unavailable):
        await work_on(ROWS, work, lambda row: row)
    assert work.calls == [4]


async def test_no_rows_need_no_work():
    work = Work(ValueError("bad"))

    assert await work_on([], work, lambda row: row) == []
    assert work.calls == []
