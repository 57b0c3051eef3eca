"""Planted bugs apply to the current tree, and a test that fails for another reason does not count as catching one."""

import pytest

from tests.support.planted import guards
from tests.support.planted.__main__ import chosen, groups
from tests.support.planted.bugs import Bug, declared, declared_in
from tests.support.planted.runs import Group, Result, Run, failure_without_bug, judged, read_report
from tests.support.planted.trees import Tree

REPORT = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite>
<testcase classname="tests.unit.a" name="test_passes[one]" time="1.5" />
<testcase classname="tests.unit.a" name="test_passes[two]" time="0.5" />
<testcase classname="tests.unit.a" name="test_fails" time="2"><failure message="AssertionError: 1&#10;2">text</failure></testcase>
<testcase classname="tests.unit.a" name="test_starts" time="0"><error message="failed on setup">text</error></testcase>
<testcase classname="tests.unit.a" name="test_skipped" time="0"><skipped message="no">text</skipped></testcase>
</testsuite></testsuites>"""  # noqa: E501


SOURCE = """
@guards("a.py", "x < 1", "x <= 1", means="one is small")
@pytest.mark.parametrize("x", [1])
@guards("a.sql", "now()", "then()", "WHERE id", "WHERE true", means="late", case="1", histories=9)
async def test_small(x): ...

class TestLarge:
    @guards("b.js", "a\\n", "", means="large" " and small")
    def test_large(self): ...
"""


def test_planted_bugs_fit_the_tree():
    assert [f"{bug.test}: {reason}" for bug in declared() for reason in bug.misfits()] == []


def test_declarations_are_read_from_the_source():
    assert list(declared_in(SOURCE, "tests/test_a.py")) == [
        Bug("tests/test_a.py::test_small", "a.py", (("x < 1", "x <= 1"),), "one is small"),
        Bug("tests/test_a.py::test_small[1]", "a.sql", (("now()", "then()"), ("WHERE id", "WHERE true")), "late", 9),
        Bug("tests/test_a.py::TestLarge::test_large", "b.js", (("a\n", ""),), "large and small"),
    ]


@pytest.mark.parametrize(
    "declaration",
    ['guards("a.py", OLD, "new", means="m")', 'guards("a.py", "old", means="m")', 'guards("a.py", "old", "new")'],
    ids=["no literal", "no replacement", "no meaning"],
)
def test_unreadable_declaration_is_reported_with_its_line(declaration):
    with pytest.raises(ValueError, match=r"test_a\.py::test_one, line 2: "):
        list(declared_in(f"\n@{declaration}\ndef test_one(): ...", "test_a.py"))


@pytest.mark.parametrize(
    ("bug", "reason"),
    [
        (("Makefile", "nowhere else", "x"), "Makefile contains 'nowhere else' 0 times instead of once"),
        (("cli/__main__.py", "def run(", "def run(("), "cli/__main__.py is not valid with the bug"),
        (("missing.py", "old", "new"), "missing.py does not exist"),
    ],
)
def test_misfit_names_its_reason(bug, reason):
    file, *edit = bug
    (misfit,) = Bug("test", file, (tuple(edit),), "means").misfits()
    assert misfit.startswith(reason)


@pytest.mark.parametrize(
    ("names", "changed", "number"),
    [
        ([], None, 3),
        (["TestLarge"], None, 1),
        (["one is", "a.sql"], None, 2),
        ([], {"a.py"}, 1),
        ([], {"tests/test_a.py"}, 3),
        (["late"], {"a.py"}, 0),
    ],
)
def test_bugs_are_chosen_by_name_and_change(names, changed, number):
    assert len(chosen(declared_in(SOURCE, "tests/test_a.py"), names, changed)) == number


def test_groups_have_equal_options_and_few_tests():
    few = [Bug(f"tests/unit/test_a.py::test_{n // 2}", "a.py", (("old", "new"),), str(n)) for n in range(14)]
    many = Bug("tests/unit/test_a.py::test_0", "a.py", (("old", "new"),), "many", 100)

    assert list(groups([many, *few])) == [Group(tuple(few[:12])), Group(tuple(few[12:])), Group((many,), 100)]


def test_removed_bug_leaves_no_text_and_no_bytecode(tmp_path):
    """Two bugs of one file and one size would share their bytecode if they had the same time."""
    tree, path = Tree(tmp_path), tmp_path / "a.py"
    path.write_text("x < 1")
    before = path.stat().st_mtime_ns
    seconds = {before // 10**9}
    for new in ("x > 1", "x < 2"):
        with tree.planted(Bug("test", "a.py", (("x < 1", new),), "means")):
            assert path.read_text() == new
            seconds.add(path.stat().st_mtime_ns // 10**9)

    assert len(seconds) == 3
    assert (path.read_text(), path.stat().st_mtime_ns) == ("x < 1", before)


def test_guarded_test_stays_as_it_is():
    def test(): ...

    assert guards("file", "old", "new", means="bug")(test) is test


@pytest.mark.parametrize(
    ("run", "result"),
    [
        (Run(9, failures={"test": "AssertionError"}), Result.CAUGHT),
        (Run(9, times={"test": 8.0}), Result.MISSED),
        (Run(9, timed_out=True), Result.NOT_RUN),
        (Run(9, failures={"test": "NameError: name 'x' is not defined"}), Result.NOT_RUN),
        (Run(9, trouble="failed on setup"), Result.NOT_RUN),
    ],
    ids=["failure", "success", "timeout", "invalid code", "error of a fixture"],
)
def test_timeouts_and_invalid_code_catch_no_bug(run, result):
    assert judged(run)[0] is result


def test_report_separates_failures_and_errors():
    assert read_report(REPORT) == (
        {"test_fails": "AssertionError: 1"},
        {"test_passes[one]": 1.5, "test_passes[two]": 0.5},
        {"test_starts": "failed on setup"},
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_passes", ""),
        ("test_passes[one]", ""),
        ("test_fails", "the test fails without the bug: AssertionError: 1"),
        ("test_starts", "the test does not run without the bug: failed on setup"),
        ("test_passes[three]", "the test does not run without the bug: failed on setup"),
    ],
)
def test_test_failing_without_bug_proves_nothing(name, reason):
    failures, times, errors = read_report(REPORT)
    assert failure_without_bug(name, Run(9, failures, times, *errors.values())) == reason
