"""Files and chunks that kill their worker, and texts that cannot be embedded, are set aside; other work continues."""

from tests.support.fleet import Job, role_of
from tests.support.planted import guards

POISONED = ("parse-1", "generate-1", "generate-2")


@guards(
    "shared/domain/stages/poison.py",
    "return lost_leases >= SUSPECT_AFTER + DEATHS_ALONE",
    "return lost_leases >= 1_000",
    means="work that kills its worker is never set aside",
)
def test_poison_becomes_dead_letter_and_others_finish(fleet, provider, start_scenario, scale):
    scenario = start_scenario("11", "poison file, chunk and text")
    corpus = scenario.corpus(scale.documents // 2)
    file, chunk, text, *_ = corpus
    poison = {"parse": corpus[file][0].mark, "generate": corpus[chunk][1].mark}
    refused = corpus[text][2].mark
    provider.script(latency_seconds=0.1, refuse_containing=refused)
    jobs = {name: Job("tests.support.poisoned", (role_of(name), poison[role_of(name)])) for name in POISONED}
    fleet.replace(jobs, for_good=True)

    scenario.submit(corpus)
    scenario.settle()

    letters = fleet.client.get("/v1/dead-letters", params={"collection": scenario.collection}).json()["items"]
    reasons = sorted(letter["reason"].split(":")[0] for letter in letters)
    assert reasons == ["its text could not be embedded", "set aside", "set aside"]
    scenario.check(dead={poison["generate"], refused}, failed={file}, note=f"{scenario.deaths()} deaths")
