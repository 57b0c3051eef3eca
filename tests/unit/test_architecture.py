"""The picture of the architecture shows the imports as they are."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "architecture.py"


def test_the_picture_shows_the_imports_as_they_are():
    drawing = runpy.run_path(str(SCRIPT))

    pairs = drawing["arrows"]()

    assert ("workers", "ingest") in pairs
    assert drawing["PICTURE"].read_text() == drawing["draw"](pairs), "run python docs/explanation/architecture.py"


def test_arrows_that_follow_from_others_are_left_out():
    reduced = runpy.run_path(str(SCRIPT))["reduced"]

    assert reduced({("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")}) == {("a", "b"), ("b", "c"), ("d", "c")}
