"""Texts next to each other in PDF files are read one after the other, as in figures, forms and drawings."""

from __future__ import annotations

import time

import pytest

from shared.ingest.parse.readers.pdf import read
from tests.support.drawn_pdfs import line, lines, pdf
from tests.support.planted import guards


def words_of(*contents):
    return " ".join(" ".join(part.markdown.split()) for part in read(pdf("".join(contents))).parts)


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "for above, below in pairwise(rows)) > 1:\n        _add_labels(items, rows)",
    "for above, below in pairwise(rows)) > 99:\n        _add_labels(items, rows)",
    means="the legend of a chart is divided by the numbers of its axis",
)
def test_legend_next_to_axis_is_read_whole():
    axis = lines(50, 700, "0.0014", "0.0012", "0.0010", "0.0008", "0.0006", pitch=27)
    legend = lines(120, 693, "measured in March", "measured in April", "computed", "expected")

    assert "measured in March measured in April computed expected" in words_of(axis, legend)


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    " or _are_boxes(rows):",
    ":",
    means="the texts of boxes are read line by line",
)
@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        (
            line(60, 700, "Signature of the sender")
            + line(70, 688, "and of one witness")
            + line(300, 700, "Signature of the receiver")
            + line(327, 688, "of the goods"),
            "Signature of the sender and of one witness Signature of the receiver of the goods",
        ),
        (
            lines(50, 700, "north.png", "A pier")
            + lines(200, 700, "east.png", "A ferry")
            + lines(350, 700, "south.png", "A crane"),
            "north.png A pier east.png A ferry south.png A crane",
        ),
    ],
    ids=["centred", "captions"],
)
def test_texts_of_boxes_are_read_box_by_box(boxes, expected):
    assert words_of(boxes) == expected


def test_labels_in_front_of_values_stay_in_rows():
    form = lines(50, 700, "Name", "Town") + lines(200, 700, "Ada Lovelace", "London")

    assert words_of(form) == "Name Ada Lovelace Town London"


def test_code_with_comments_stays_in_lines():
    code = lines(50, 700, "int port;", "int ships;") + lines(200, 700, "/* its number */", "/* in the harbour */")

    assert words_of(code) == "int port; /* its number */ int ships; /* in the harbour */"


@guards(
    "shared/ingest/parse/readers/pdf/layout/columns.py",
    "sum(row[0].x0 <= end < row[-1].x0 for row in rows)",
    "sum(len(row) > 1 for row in rows)",
    means="a table in one of two blocks mixes their lines",
)
def test_table_in_block_mixes_no_lines():
    steps = [f"Step {at}: strip the cable of its screen" for at in range(6)]
    left = lines(50, 704, *steps, pitch=36)
    table = lines(330, 700, *["M20"] * 14) + lines(450, 700, *["8 Nm"] * 14)
    right = lines(330, 520, *["The torques of the nuts are the largest values"] * 4)

    assert words_of(left, table, right).startswith(" ".join(steps))


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "for label in open_labels if label[-1].y < highest",
    "for label in open_labels",
    means="a page of thousands of short texts keeps its reader busy for half a minute",
)
@pytest.mark.parametrize(
    "page",
    [
        "".join(line(40 * at, 700 - 12 * row, "ab") for row in range(2) for at in range(6_000)),
        "".join(line(50 + 300 * (at % 2), 70_000 - 6 * at, "some text here") for at in range(6_000)),
        "".join(line(30 * (at % 500), 70_000 - 6 * at, "text") for at in range(6_000)),
    ],
    ids=["two wide rows", "two columns", "stairs"],
)
def test_thousands_of_texts_take_little_time(page):
    started = time.process_time()

    words_of(page)

    assert time.process_time() - started < 8
