"""`make check` skips only contents that have passed the same check."""

import subprocess

import pytest

from tests.support import prose
from tests.support.passed import Passed


@pytest.fixture
def stored(tmp_path):
    """Store that one content has passed, and return a function that opens the store."""
    passed = Passed("prose", ["rule"], tmp_path)
    passed.add(["a.md", "A sentence."])
    passed.save()
    return lambda check="rule": Passed("prose", [check], tmp_path)


def test_passed_content_is_known(stored):
    assert stored().has(["a.md", "A sentence."])


@pytest.mark.parametrize("content", [["a.md", "Another."], ["b.md", "A sentence."], ["a.mdA ", "sentence."]])
def test_other_content_is_checked(stored, content):
    assert not stored().has(content)


def test_changed_check_forgets_everything(stored):
    assert not stored("another rule").has(["a.md", "A sentence."])


def test_content_that_disappeared_is_forgotten(stored):
    stored().save()

    assert not stored().has(["a.md", "A sentence."])


def test_faulty_prose_is_reported_every_time(tmp_path, capsys):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "good.md").write_text("A sentence.\n")
    (tmp_path / "bad.md").write_text("Nobody waits.\n")

    results = [prose.main(["--new", "--root", str(tmp_path)]) for _ in range(2)]

    assert results == [1, 1]
    assert capsys.readouterr().out.count("bad.md:1") == 2
    (tmp_path / "bad.md").write_text("No worker waits.\n")
    assert prose.main(["--new", "--root", str(tmp_path)]) == 0
    (tmp_path / "good.md").write_text("Nobody waits.\n")
    assert prose.main(["--new", "--root", str(tmp_path)]) == 1
