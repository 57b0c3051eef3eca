"""The time for which a connection keeps plans."""

import pytest

from shared.ledger.postgres.plans import Plans
from tests.support.planted import guards


def expiries(seconds):
    """Return the seconds at which plans expire if a statement is executed in each of these seconds."""
    plans = Plans()
    return [second for second in seconds if plans.expire(1_000.0 + second)]


@guards(
    "shared/ledger/postgres/plans.py",
    "if now < self.fresh_until:",
    "if self.fresh_until > self.since:",
    means="a connection keeps plans of an empty ledger",
)
@pytest.mark.parametrize(
    ("seconds", "expired"),
    [
        (range(120), [0, 3, 9, 27, 57, 87, 117]),  # the table at most triples between two plans
        ([0, 2, 20, 49], [0, 20]),
        ([0, 40, 42, 43], [0, 40, 43]),  # a load may start after a pause
    ],
)
def test_plans_expire_before_a_table_triples(seconds, expired):
    assert expiries(seconds) == expired
