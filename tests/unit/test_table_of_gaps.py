"""The table of gaps, which a spreadsheet opens, contains no formula: a user's question could be one."""

import pytest

from features.gaps.table import cell
from tests.support.planted import guards


@guards("features/gaps/table.py", "[;{_SKIPPED}]*(?=", "[;]*(?=", means="a space hides a formula in the table of gaps")
@pytest.mark.parametrize("skipped", ["", " ", "\u00a0", "\u2003\u200b", "\u200f", "\ufeff", "\x0b\x1c", " " * 1000])
@pytest.mark.parametrize("sign", ["=1+1", "+1", "-2", "@SUM(A1)", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20A1"])
def test_formula_gets_apostrophe_after_skipped_characters(skipped, sign):
    formula = f"{skipped}{sign}"

    assert cell(formula) == f"'{formula}"
    assert cell(f"Leave;{formula}") == f"Leave;'{formula}"
    assert cell(f"Leave\n{formula}\t{formula}") == f"Leave\n'{formula}\t'{formula}"


@pytest.mark.parametrize("text", ["a = b", "2 - 1", "ann@example.org", "What is C++; and what is C?", "Leave;a", ""])
def test_text_with_signs_inside_is_unchanged(text):
    assert cell(text) == text


def test_cell_that_starts_with_separator_gets_apostrophe():
    assert [cell(text) for text in ("\tcell", "\r\n=1", "\n")] == ["'\tcell", "'\r\n'=1", "'\n"]
