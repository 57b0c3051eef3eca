"""All processes are killed together during an ingest and started again over the same data directory."""


def test_killing_everything_recovers_and_pays_twice_only_inflight(fleet, provider, start_scenario, scale):
    scenario = start_scenario("1b", "kill -9 of everything at once")
    provider.script(latency_seconds=0.3)
    scenario.submit(scenario.corpus(scale.documents))
    scenario.wait_for_answers(scenario.chunks // 3)

    fleet.restart()

    scenario.settle()
    scenario.check(note=f"{scenario.deaths()} processes and 3 engines")
