"""One tenant hands in a flood; another's few chunks must hardly notice."""

import statistics
import time

import pytest

from tests.faults.conftest import SETTINGS
from tests.faults.fleet import Fleet
from tests.faults.scenario import Scenario

LATENCY_SECONDS = 0.5
KEYS = {"flood": "flood-0123456789abcdef0123456789", "few": "few-0123456789abcdef0123456789"}
ROUNDS = 3


@pytest.fixture
def fleet(provider_process, tmp_path_factory):
    keys = ",".join(f"{tenant}:{key}" for tenant, key in KEYS.items())
    settings = provider_process.settings(**SETTINGS | {"llm_max_in_flight": 64, "api_keys": keys})
    with Fleet(settings, tmp_path_factory.mktemp("tenants")) as fleet:
        yield fleet


def as_tenant(fleet, tenant):
    fleet.client.headers["authorization"] = f"Bearer {KEYS[tenant]}"


def test_a_tenants_few_chunks_overtake_anothers_many(fleet, provider, seed, table, scale):
    provider.script(latency_seconds=LATENCY_SECONDS)
    few = Scenario(fleet, provider, "12 fairness: the few", "12b", seed, table)
    flood = Scenario(fleet, provider, "12 fairness: the flood", "12a", seed, table)

    def seconds_of_ten_chunks(number):
        document = few.corpus(2 * ROUNDS, sections=10)
        name = sorted(document)[number]
        began = time.monotonic()
        few.hand_in({name: document[name]})
        few.settle()
        return time.monotonic() - began

    as_tenant(fleet, "few")
    idle = statistics.median(seconds_of_ten_chunks(number) for number in range(ROUNDS))
    as_tenant(fleet, "flood")
    flood.hand_in(flood.corpus(scale.flood_documents, sections=10))
    flood.wait_for_answers(flood.chunks // 20)
    as_tenant(fleet, "few")
    busy = statistics.median(seconds_of_ten_chunks(ROUNDS + number) for number in range(ROUNDS))
    overtaken = flood.answered() < flood.chunks
    row = few.judge(note=f"{idle:.1f} s alone, {busy:.1f} s beside {flood.chunks:,} chunks of another")
    as_tenant(fleet, "flood")
    flood.settle(timeout=scale.patience_seconds)
    flood.judge()

    assert overtaken, row.note
    assert busy <= 2 * idle + LATENCY_SECONDS, row.note
