"""One tenant hands in a flood; another's few chunks must hardly notice."""

from tests.support.fleet import worker

LATENCY_SECONDS = 0.5
ROUNDS = 2
WORKERS = ("generate-1", "generate-2")


def test_small_upload_overtakes_flood_of_other_tenant(fleet, provider, begin, scale):
    fleet.replace({name: worker(name, llm_max_in_flight=scale.flood_in_flight) for name in WORKERS})
    provider.script(latency_seconds=LATENCY_SECONDS)
    few = begin("12b", "fairness: the few")
    flood = begin("12a", "fairness: the flood")
    documents = few.corpus(ROUNDS, sections=10)

    def calls_ahead(due):
        """How many calls of the flood began after so many, and before the last call of the few."""
        order, theirs = list(provider.stats()["chats"]), few.stats()["chats"]
        last = max(number for number, key in enumerate(order) if key in theirs)
        return sum(key not in theirs for key in order[:last]) - due

    fleet.speak_as("flood")
    flood.submit(flood.corpus(scale.flood_documents, sections=10))
    flood.wait_for_answers(flood.chunks // 20)
    fleet.speak_as("few")
    ahead = []
    for name, sections in documents.items():
        few.submit({name: sections})
        few.wait_for_chunks("searchable")
        due = flood.calls()
        few.settle()
        ahead.append(calls_ahead(due))
    row = few.check(note=f"{ahead} calls of another's {flood.chunks:,} came before")
    overtaken = flood.answered() < flood.chunks
    fleet.speak_as("flood")
    flood.settle(timeout=scale.timeout_seconds)
    flood.check()

    slots = scale.flood_in_flight * len(WORKERS)
    assert overtaken, row.note
    assert max(ahead) <= 2 * slots, row.note  # those that were claimed already, and as many beside the few
