"""A flood of documents from one tenant hardly delays the few chunks of another tenant."""

from tests.support.fleet import worker
from tests.support.planted import guards

LATENCY_SECONDS = 0.5
ROUNDS = 2
WORKERS = ("generate-1", "generate-2")


@guards(
    "shared/ledger/work/claims_generate.sql",
    "ORDER BY turn, c.lane, c.due_at",
    "ORDER BY c.lane, c.due_at",
    means="free slots are assigned in the order of arrival",
)
def test_small_upload_overtakes_flood_of_other_tenant(fleet, provider, start_scenario, scale):
    fleet.replace({name: worker(name, llm_max_in_flight=scale.flood_in_flight) for name in WORKERS})
    provider.script(latency_seconds=LATENCY_SECONDS)
    few = start_scenario("12b", "fairness: the few")
    flood = start_scenario("12a", "fairness: the flood")
    documents = few.corpus(ROUNDS, sections=10)

    def calls_ahead(due):
        """Return the number of flood calls, after the first `due`, that started before the small upload's last call."""
        order, theirs = list(provider.stats()["chats"]), few.stats()["chats"]
        last = max(number for number, key in enumerate(order) if key in theirs)
        return sum(key not in theirs for key in order[:last]) - due

    fleet.use_key_of("flood")
    flood.submit(flood.corpus(scale.flood_documents, sections=10))
    flood.wait_for_answers(flood.chunks // 20)
    fleet.use_key_of("few")
    ahead = []
    for name, sections in documents.items():
        few.submit({name: sections})
        few.wait_for_chunks("searchable")
        due = flood.calls()
        few.settle()
        ahead.append(calls_ahead(due))
    row = few.check(note=f"{ahead} of the flood's {flood.chunks:,} calls came first")
    overtaken = flood.answered() < flood.chunks
    fleet.use_key_of("flood")
    flood.settle(timeout=scale.timeout_seconds)
    flood.check()

    slots = scale.flood_in_flight * len(WORKERS)
    assert overtaken, row.note
    assert max(ahead) <= 2 * slots, row.note  # the calls claimed before, and as many concurrent ones
