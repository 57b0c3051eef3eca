"""Planted bugs apply to the current tree, and a test that fails for another reason does not count as catching one."""

import ast
import re

import pytest

from tests.support.deployment import ROOT
from tests.support.mutations import BUGS, Result, Run, failure_without_bug, judged, read_report

REPORT = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite>
<testcase classname="tests.unit.a" name="test_passes[one]" time="1.5" />
<testcase classname="tests.unit.a" name="test_passes[two]" time="0.5" />
<testcase classname="tests.unit.a" name="test_fails" time="2"><failure message="AssertionError: 1&#10;2">text</failure></testcase>
<testcase classname="tests.unit.a" name="test_starts" time="0"><error message="failed on setup">text</error></testcase>
<testcase classname="tests.unit.a" name="test_skipped" time="0"><skipped message="no">text</skipped></testcase>
</testsuite></testsuites>"""  # noqa: E501


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.means)
def test_planted_bug_fits_the_tree(bug):
    text = (ROOT / bug.file).read_text()
    file, _, test = bug.caught_by.partition("::")

    assert [text.count(old) for old, _ in bug.edits] == [1] * len(bug.edits)
    assert re.search(rf"def {test.partition('[')[0]}\b", (ROOT / file).read_text()), bug.caught_by
    for edit in bug.edits:
        text = text.replace(*edit)
    if bug.file.endswith(".py"):
        ast.parse(text)


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
