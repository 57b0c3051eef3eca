"""A budget of money, replies of very different lengths, and workers that die with calls in flight."""

import random
import time

from tests.faults.conftest import SETTINGS
from tests.support.fleet import worker
from tests.support.planted import guards

WORKERS, KILLS = 8, 5
IN_FLIGHT = 2  # of a worker
LIMIT, RAISED, PLENTY = 1.0, 1.05, 1_000.0
REPLY_TOKENS = [200, 2_500]
DEAREST = 0.0026  # price of a call with the longest prompt and reply: a killed worker wastes its calls' reservations
CONTINUES_SECONDS = 30.0


def money_billed(provider):
    """Return the money that the provider has billed."""
    billed = provider.stats()
    prices = {"prompt_tokens": SETTINGS["llm_input_price"], "completion_tokens": SETTINGS["llm_output_price"]}
    return sum(billed.get(kind, 0) * price for kind, price in prices.items()) / 1e6


@guards(
    "shared/ledger/work/generation.py",
    "and reserve_of is not None and",
    "and reserve_of is None and",
    means="claims ignore exhausted budgets, and calls are not reserved",
)
def test_killed_workers_neither_exceed_nor_waste_a_budget(fleet, provider, start_scenario, seed):
    scenario = start_scenario("13a", f"a budget of $1.00, {WORKERS} workers, {KILLS} kills")
    names = [f"generate-{number + 1}" for number in range(WORKERS)]
    settings = {"llm_max_in_flight": IN_FLIGHT, "llm_model": "budgeted", "llm_requests_per_minute": 60_000}
    scope = {"collection": scenario.collection, "period": "total", "unit": "money"}

    def set_limit(limit):
        return fleet.client.put("/v1/budgets", json=scope | {"limit": limit}).raise_for_status().json()

    def budget():
        """Return the budget, which never exceeds its limit, whatever the bills will be."""
        (own,) = [b for b in fleet.client.get("/v1/budgets").json()["items"] if b["collection"] == scenario.collection]
        assert own["spent"] + own["reserved"] <= own["limit"] + 1e-9, own
        return own

    def is_exhausted():
        return budget()["exhausted"] and budget()["reserved"] == 0

    provider.script(latency_seconds=0.1, billed_replies=REPLY_TOKENS)
    set_limit(LIMIT)
    fleet.replace({name: worker(name, **settings) for name in names}, for_good=True)
    scenario.submit(scenario.corpus(80, sections=10))
    chosen = random.Random(seed)
    for kill in range(KILLS):
        least = LIMIT * (kill + 1) / (KILLS + 2)
        fleet.wait_until(lambda least=least: budget()["spent"] > least, "no money is spent", 120)
        fleet.kill(chosen.choice(names))
    fleet.wait_until(is_exhausted, "the budget was not exhausted", 180)
    fleet.wait_until(scenario.is_searchable, "not all texts were found", 180)
    billed, booked, deaths = money_billed(provider), budget()["spent"], scenario.deaths()
    calls = provider.stats()["calls"]
    status = fleet.client.get("/v1/status").json()["pace"]["message"]

    raised_at = time.monotonic()
    set_limit(RAISED)
    fleet.wait_until(lambda: provider.stats()["calls"] > calls, "no call follows the higher limit", 60)
    seconds = time.monotonic() - raised_at
    fleet.wait_until(is_exhausted, "the higher budget was not exhausted", 120)
    billed_again = money_billed(provider)
    set_limit(PLENTY)
    scenario.settle()

    note = f"${billed:.4f} billed, ${booked:.4f} booked; raised: on after {seconds:.2f} s, ${billed_again:.4f}"
    wasted = scenario.check(note=note).in_flight + 1  # the rest of the budget is less than a call
    assert deaths == KILLS
    assert LIMIT - wasted * DEAREST <= billed <= booked <= LIMIT, note
    assert billed_again <= RAISED, note
    assert seconds <= CONTINUES_SECONDS, note
    assert status.startswith("The total budget of 1 for the collection"), status
    assert budget()["reserved"] == 0
