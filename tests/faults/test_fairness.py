"""One tenant hands in a flood; another's few chunks must hardly notice."""

import statistics
import time

import pytest

from tests.faults.fleet import worker

LATENCY_SECONDS = 0.5
ROUNDS = 3


@pytest.mark.alone
def test_a_tenants_few_chunks_overtake_anothers_many(fleet, provider, begin, scale):
    fleet.replace(
        {name: worker(name, llm_max_in_flight=scale.flood_in_flight) for name in ("generate-1", "generate-2")}
    )
    provider.script(latency_seconds=LATENCY_SECONDS)
    few = begin("12b", "fairness: the few")
    flood = begin("12a", "fairness: the flood")

    def seconds_of_ten_chunks(number):
        document = few.corpus(2 * ROUNDS, sections=10)
        name = sorted(document)[number]
        began = time.monotonic()
        few.hand_in({name: document[name]})
        few.settle()
        return time.monotonic() - began

    fleet.speak_as("few")
    idle = statistics.median(seconds_of_ten_chunks(number) for number in range(ROUNDS))
    fleet.speak_as("flood")
    flood.hand_in(flood.corpus(scale.flood_documents, sections=10))
    flood.wait_for_answers(flood.chunks // 20)
    fleet.speak_as("few")
    busy = statistics.median(seconds_of_ten_chunks(ROUNDS + number) for number in range(ROUNDS))
    overtaken = flood.answered() < flood.chunks
    row = few.judge(note=f"{idle:.1f} s alone, {busy:.1f} s beside {flood.chunks:,} chunks of another")
    fleet.speak_as("flood")
    flood.settle(timeout=scale.patience_seconds)
    flood.judge()

    assert overtaken, row.note
    assert busy <= 2 * idle + LATENCY_SECONDS, row.note
