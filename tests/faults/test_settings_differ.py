"""Workers have different settings, or a collection's settings change while its chunks wait."""

import time

from tests.support.fleet import worker
from tests.support.planted import guards

OTHER_MODEL = {"embedding_model": "another-embedding"}
ALPHA, BETA = (f"{name} {{title}}\n\n{{text}}" for name in ("ALPHA", "BETA"))


def test_worker_with_other_embedding_model_claims_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("18a", "index workers with another model")
    fleet.replace({name: worker(name, **OTHER_MODEL) for name in ("index-1", "index-2")}, for_good=True)
    scenario.submit(scenario.corpus(scale.documents // 2))
    scenario.wait_for_chunks("total")
    time.sleep(scale.outage_seconds)

    letters = fleet.client.get("/v1/dead-letters", params={"collection": scenario.collection}).json()["items"]
    embedded = provider.stats()["embedded_inputs"]
    fleet.replace({"index-2": worker("index-2")})

    assert letters == []
    assert embedded == 0  # these workers claim no chunk
    scenario.settle()  # the worker with the right model finishes the work
    row = scenario.check()
    assert row.calls == row.chunks


@guards(
    "shared/ingest/generate/stage.py",
    "key_of=self._key_of",
    "key_of=None",
    means="questions are stored under the key of the prompt that applied when their document was parsed",
)
def test_prompt_change_applies_to_waiting_chunks(fleet, provider, start_scenario, scale):
    scenario = start_scenario("18b", "prompt changed while chunks wait")
    address = f"/v1/collections/{scenario.collection}"

    def prompt(template):
        fleet.client.put(address, json={"prompt": template}).raise_for_status()

    def sent(name):
        return sum(provider.stats(containing=f"{name} <document>{scenario.mark}-")["answered"].values())

    def reindex_with(template):
        prompt(template)
        fleet.client.post(f"{address}/reindex").raise_for_status()
        scenario.settle()

    prompt(ALPHA)
    with fleet.paused("generate-1", "generate-2"):
        scenario.submit(scenario.corpus(scale.documents // 3))
        scenario.wait_for_chunks("searchable")
        prompt(BETA)
    scenario.settle()
    assert sent("ALPHA") + sent("BETA") == scenario.chunks
    reindex_with(BETA)
    assert sent("BETA") == scenario.chunks  # no reply of another prompt was reused
    reindex_with(ALPHA)
    assert sent("ALPHA") == scenario.chunks

    row = scenario.check()
    assert row.paid_twice == 0
