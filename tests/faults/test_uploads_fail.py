"""The folder of uploads goes away: what was handed in waits for it, and no attempt is counted."""

import time

ATTEMPTS = """
    SELECT coalesce(max(d.attempts), 0) AS attempts FROM documents d
    JOIN collections c ON c.id = d.collection_id WHERE c.name = $1
"""


def test_upload_store_outage_loses_nothing(fleet, begin, scale):
    scenario = begin("17", "uploads gone")
    folder = fleet.data_dir / "uploads"
    away = folder.with_name("uploads-away")
    with fleet.paused("parse-1"):
        scenario.hand_in(scenario.corpus(scale.documents // 2))
        folder.rename(away)
    try:
        time.sleep(scale.away_seconds)
        attempts = fleet.query(ATTEMPTS, scenario.collection)[0]["attempts"]
        states = fleet.states(scenario.collection)
    finally:
        away.rename(folder)

    assert attempts == 0
    assert states.get("failed", 0) == 0
    scenario.settle()
    row = scenario.judge()
    assert row.calls == row.chunks
