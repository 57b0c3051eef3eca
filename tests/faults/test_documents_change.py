"""Documents are updated and deleted while they are being ingested."""

import random
import time


def test_only_newest_version_remains_after_concurrent_changes(provider, start_scenario, scale):
    scenario = start_scenario("13", "updated and deleted")
    provider.script(latency_seconds=0.3)
    chance = random.Random(scenario.seed)
    corpus = scenario.corpus(scale.documents)
    names = list(corpus)

    scenario.submit(corpus)
    for version in (2, 3):
        time.sleep(1)
        chosen = chance.sample(names, len(names) // 3)
        scenario.update({name: corpus[name] for name in chosen}, changed=2, version=version)
    deleted = chance.sample(names, len(names) // 4)
    scenario.delete(deleted)

    scenario.settle(swept=True)
    row = scenario.check(note=f"{len(deleted)} deleted")
    assert row.paid_twice == 0
