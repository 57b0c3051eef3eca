"""The uploads folder is unavailable: uploaded documents wait until it is available again, and no attempt is counted."""

import time

from tests.support.planted import guards

ATTEMPTS = """
    SELECT coalesce(max(d.attempts), 0) AS attempts FROM documents d
    JOIN collections c ON c.id = d.collection_id WHERE c.name = $1
"""


@guards(
    "shared/storage/folder.py",
    "        except FileNotFoundError as error:",
    "        except FileNotFoundError as error:\n            raise Unreadable('gone') from error",
    means="a file is treated as deleted while the folder of uploads is unavailable",
)
def test_upload_store_outage_loses_nothing(fleet, start_scenario, scale):
    scenario = start_scenario("17", "uploads unavailable")
    folder = fleet.data_dir / "uploads"
    moved = folder.with_name("uploads-moved")
    with fleet.paused("parse-1"):
        scenario.submit(scenario.corpus(scale.documents // 2))
        folder.rename(moved)
    try:
        time.sleep(scale.outage_seconds)
        attempts = fleet.query(ATTEMPTS, scenario.collection)[0]["attempts"]
        states = fleet.states(scenario.collection)
    finally:
        moved.rename(folder)

    assert attempts == 0
    assert states.get("failed", 0) == 0
    scenario.settle()
    row = scenario.check()
    assert row.calls == row.chunks
