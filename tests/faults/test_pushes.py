"""The API is killed between the pages of a program that pushes: no entry is lost, and none is paid twice."""

from __future__ import annotations

from foreask_client import Client

from tests.support.scenario import section, text_of

_PAGE = 4


def test_killed_api_between_pages_loses_no_entry(fleet, provider, start_scenario):
    scenario = start_scenario("33", "kill -9 of the API between the pages of a program")
    name = scenario.mark
    source = {"name": name, "collection": scenario.collection, "uri": f"push://{name}"}
    fleet.client.post("/v1/sources", json=source).raise_for_status()
    texts = {}
    for number in range(12):
        part = section(f"{scenario.mark}_{number}_0_1")
        scenario.documents[f"{name}/{number}"] = [part]
        texts[str(number)] = text_of(str(number), [part])
    pages = [list(texts.items())[first : first + _PAGE] for first in range(0, len(texts), _PAGE)]
    key = fleet.client.headers["authorization"].removeprefix("Bearer ")

    with Client(str(fleet.client.base_url), key, attempts=20) as client:
        listing = client.start_listing(name, key="nightly").id
        for number, page in enumerate(pages):
            entries = [{"key": each, "version": "1", "text": text} for each, text in page]
            results = client.push_entries(name, entries, listing=listing, checkpoint=str(number))
            assert {result.result for result in results} == {"created"}
            fleet.kill("api")
            assert client.push_entries(name, entries[:1], listing=listing)[0].result == "unchanged"
        fleet.kill("parse-1")
        again = client.start_listing(name, key="nightly")
        assert (again.id, again.seen, again.checkpoint) == (listing, 12, "2")
        fleet.kill("api")
        client.end_listing(name, listing)
        fleet.kill("api")
        assert client.end_listing(name, listing).id == listing

        fleet.wait_until(lambda: bool(next(client.syncs(name)).ended_at), "the listing did not end")
        done = next(client.syncs(name))
        assert (done.state, done.seen, done.created, done.missing, done.refused) == ("done", 12, 12, 0, 0)
    scenario.settle()
    assert scenario.check().calls == len(texts)
