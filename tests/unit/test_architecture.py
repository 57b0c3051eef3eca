"""The pictures and test names in the documentation match the code."""

import re
import runpy
from collections import defaultdict
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "architecture.py"


def test_architecture_picture_matches_imports():
    drawing = runpy.run_path(str(SCRIPT))

    pairs = drawing["arrows"]()

    assert ("workers", "ingest") in pairs
    assert drawing["PICTURE"].read_text() == drawing["draw"](pairs), "run python docs/explanation/architecture.py"


def test_transitive_arrows_are_omitted():
    reduced = runpy.run_path(str(SCRIPT))["reduced"]

    assert reduced({("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")}) == {("a", "b"), ("b", "c"), ("d", "c")}


def test_chunk_life_picture_matches_transitions():
    drawing = runpy.run_path(str(SCRIPT.with_name("chunk_life.py")))

    pairs = drawing["arrows"]()

    assert ("parsed", "generating") in pairs
    assert drawing["PICTURE"].read_text() == drawing["draw"](pairs), "run python docs/explanation/chunk_life.py"
    with pytest.raises(ValueError, match="no position"):
        drawing["draw"](pairs | {("indexed", "discarded")})


def test_security_page_cites_existing_tests():
    tests = SCRIPT.parents[2] / "tests"
    page = SCRIPT.with_name("security.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    named = [(row, name) for row in rows for name in re.findall(r"`([^`]+)`", row.rstrip("| ").rpartition("|")[2])]

    assert len(named) > len(rows) / 2
    texts = defaultdict(list)
    for path in tests.rglob("test_*.py"):
        texts[path.name].append(path.read_text())
    last_file, row_before = "", ""
    for row, name in named:
        file, _, test = (
            name.rpartition("::") if "::" in name else (("", "", name), (name, "", ""))[name.endswith(".py")]
        )
        last_file = file or (last_file if row == row_before else "")
        row_before = row
        searched = texts[last_file] + texts["test_parse_isolation.py"]
        assert any(re.search(rf"def test_\w*{test}", text) for text in searched), f"{name} is not a test: {row}"
        assert not file or texts[file], f"{file} is not a file: {row}"
