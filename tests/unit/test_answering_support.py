"""The sentences that support a generated answer are found by its words."""

import time

import pytest

from shared.query.answer import Passage, Support
from shared.query.answer.support import supporting
from tests.support.planted import guards

LEAVE = (
    "# Leave\n\nAll staff have 30 days of leave a year. Salaries are paid on the last working day.\n\nThe rest expires."
)


def texts(answer, *passages):
    numbered = [Passage(n, text) for n, text in enumerate(passages, 1)]
    return [(s.number, numbered[s.number - 1].text[s.start : s.end]) for s in supporting(answer, numbered)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("You get 30 days of leave [1].", ["All staff have 30 days of leave a year."]),
        ("You get 30 days of leave. [1]", ["All staff have 30 days of leave a year."]),
        ("You get 30 days of leave.[1] More text follows.", ["All staff have 30 days of leave a year."]),
        ("According to [1], salaries are paid on the last day.", ["Salaries are paid on the last working day."]),
        ("[1] states that salaries are paid late.", ["Salaries are paid on the last working day."]),
        (
            "You get 30 days of leave, and the rest expires [1].",
            ["All staff have 30 days of leave a year.", "The rest expires."],
        ),
        ("Salaries are paid. You get 30 days of leave [1].", ["All staff have 30 days of leave a year."]),
        ("30 Tage Urlaub [1].", ["All staff have 30 days of leave a year."]),
        ("Tout autre chose [1].", []),
        ("You get 30 days of leave.", []),
    ],
)
def test_statement_is_supported_by_sentences_with_its_words(answer, expected):
    assert texts(answer, LEAVE) == [(1, sentence) for sentence in expected]


@guards(
    "shared/query/answer/support.py",
    "statement = before or statement",
    "statement = statement or before",
    means="a citation after the final mark belongs to the next sentence",
)
def test_each_citation_is_supported_by_its_own_statement():
    travel = "The per diem is 57 euros. Leave is no travel."
    answer = "Leave lasts 30 days [1], and the per diem is 57 euros [2]. Salaries are paid on the last day [1][2]."

    assert texts(answer, LEAVE, travel) == [
        (1, "All staff have 30 days of leave a year."),
        (1, "Salaries are paid on the last working day."),
        (2, "The per diem is 57 euros."),
    ]


def test_row_and_header_of_table_support_statement():
    text = "Kein Anspruch.\n\n| Art | Tage |\n|---|---|\n| Urlaub | 30 |\n| Sonderurlaub | 12 |"
    header, row = text.index("| Art"), text.index("| Sonderurlaub")

    found = supporting("Es gibt 12 Tage Sonderurlaub [4].", [Passage(4, text, language="de")])
    assert found == (Support(4, header, header + 14), Support(4, row, len(text)))


@guards(
    "shared/query/answer/support.py",
    "_COMPARED // len(cited)",
    "None",
    means="a sentence of a long passage is compared without a limit",
)
def test_long_passages_are_compared_in_bounded_time():
    passages = [Passage(n, "A sentence about nothing at all. " * 20_000) for n in range(1, 21)]
    answer = " ".join(f"A sentence about something [{n}]." for n in range(1, 21))
    started = time.process_time()

    assert supporting(answer, passages)
    assert time.process_time() - started < 5
