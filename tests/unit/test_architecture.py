"""The pictures of the docs show what the code says."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "architecture.py"


def test_the_picture_shows_the_imports_as_they_are():
    drawing = runpy.run_path(str(SCRIPT))

    pairs = drawing["arrows"]()

    assert ("workers", "ingest") in pairs
    assert drawing["PICTURE"].read_text() == drawing["draw"](pairs), "run python docs/explanation/architecture.py"


def test_arrows_that_follow_from_others_are_left_out():
    reduced = runpy.run_path(str(SCRIPT))["reduced"]

    assert reduced({("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")}) == {("a", "b"), ("b", "c"), ("d", "c")}


def test_the_picture_of_a_chunk_shows_the_transitions_as_they_are():
    drawing = runpy.run_path(str(SCRIPT.with_name("chunk_life.py")))

    pairs = drawing["arrows"]()

    assert ("parsed", "generating") in pairs
    assert drawing["PICTURE"].read_text() == drawing["draw"](pairs), "run python docs/explanation/chunk_life.py"
    with pytest.raises(ValueError, match="no place"):
        drawing["draw"](pairs | {("indexed", "discarded")})
