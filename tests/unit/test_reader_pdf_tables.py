"""Tables of PDF files without ruling lines between their cells, and the order of lines that are not a table."""

import pytest

from shared.ingest.parse.readers.pdf import read
from tests.support.drawn_pdfs import BODY, box, filled, line, lines, pdf
from tests.support.planted import guards


def cells(xs, y, *texts, pitch=12):
    """Return the content of a row; a text with a line break is a cell of several lines."""
    return "\n".join(lines(x, y, *text.split("\n"), pitch=pitch) for x, text in zip(xs, texts, strict=True) if text)


def rows(xs, y, *texts, pitch=14):
    return "\n".join(cells(xs, y - pitch * at, *row) for at, row in enumerate(texts))


def markdown(*contents):
    return [part.markdown for part in read(pdf(*contents)).parts]


def wrapped(first):
    fault = "The seal of the pump is worn\nand its pressure is low"
    codes = range(first, first + 10)
    return [(f"E{code}", fault, "Replace the seal\n" * (code % 3) + "Call us") for code in codes]


@guards(
    "shared/ingest/parse/readers/pdf/layout/order.py",
    "elif found := spaced_table(run):",
    "elif found := run and None:",
    means="rows of wrapped cells are read column by column",
)
def test_wrapped_cells_stay_in_rows_on_each_page():
    xs = (50, 120, 330)

    texts = markdown(rows(xs, 760, *wrapped(10), pitch=48), rows(xs, 760, *wrapped(20), pitch=48))

    fault = "The seal of the pump is worn and its pressure is low"
    assert [text.count(f" | {fault} | ") for text in texts] == [10, 10]
    assert f"| E13 | {fault} | Replace the seal Call us |" in texts[0]
    assert f"| E25 | {fault} | Replace the seal Call us |" in texts[1]


def test_centred_cells_stay_in_their_rows():
    page = "\n".join(
        line(50, 760 - 60 * at, f"E{at}")
        + lines(120, 766 - 60 * at, "The seal of the pump is worn", "and its pressure is low")
        + lines(330, 772 - 60 * at, "Close the valve", "Replace the seal", "Call the service")
        for at in range(6)
    )

    (text,) = markdown(page)

    assert text.count(" | The seal of the pump is worn and its pressure is low | Close the valve Replace the seal") == 6


@guards(
    "shared/ingest/parse/readers/pdf/layout/cells.py",
    "if not _are_rows(cells, columns):",
    "if not cells:",
    means="paragraphs that start on one level are a table",
)
def test_columns_of_paragraphs_are_not_a_table():
    paragraph = ["The harbour opens at six and closes", "when the last ferry has left the pier", "or for ice."]
    page = "\n".join(lines(x, 760 - 50 * at, *paragraph) for at in range(8) for x in (50, 320))

    (text,) = markdown(page)

    assert "|" not in text


@guards(
    "shared/ingest/parse/readers/pdf/layout/cells.py",
    "fine = [split_at_gaps(row) for row in rows]",
    "fine = [list(row) for row in rows]",
    means="a column whose gap is narrow is joined with the next one",
)
def test_narrow_gap_divides_columns():
    statement = [("Date", "Text", "", "Balance")]
    statement += [
        (f"{at:02}.03.2026", "Rent of flat 12" if at % 2 else "Salary", f"{at}.50", "12.00") for at in range(1, 8)
    ]

    (text,) = markdown(rows((50, 111, 250, 320), 700, *statement))

    assert "| 01.03.2026 | Rent of flat 12 | 1.50 | 12.00 |" in text
    assert "| 02.03.2026 | Salary | 2.50 | 12.00 |" in text


def test_amounts_below_hundred_stay_in_their_column():
    accounts = [(f"Account {at}", "24.00" if at % 2 else "124.00", f"{1000 + at}.00") for at in range(6)]

    (text,) = markdown(rows((50, 250, 300), 700, *accounts))

    assert "| Account 1 | 24.00 | 1001.00 |" in text


@guards(
    "shared/ingest/parse/readers/pdf/layout/cells.py",
    "opens = all(map(_SIGN.fullmatch, texts)) and bool(texts)",
    "opens = False",
    means="currency signs are a column",
)
def test_currency_sign_belongs_to_its_amount():
    balance = [(name, "$", "1,200", "$", "1,100") for name in ("Cash", "Receivables", "Inventory", "Total")]

    (text,) = markdown(rows((50, 200, 240, 340, 380), 700, *balance))

    assert "| Receivables | $ 1,200 | $ 1,100 |" in text


@guards(
    "shared/ingest/parse/readers/pdf/layout/cells.py",
    "spread[at:end] = [cell] * (end - at)",
    "pass",
    means="a column has no name of its group",
)
def test_group_names_are_joined_with_column_names():
    plan = rows((50, 150, 220, 300, 370), 700, ("Region", "Q1", "Q2", "Q1", "Q2"))
    plan += rows(
        (50, 150, 220, 300, 370), 686, *((name, "10", "20", "30", "40") for name in ("North", "South", "East"))
    )

    (text,) = markdown(line(175, 714, "Plan") + line(325, 714, "Actual") + plan)

    assert text.startswith("| Region | Plan Q1 | Plan Q2 | Actual Q1 | Actual Q2 |\n")


def test_paragraph_below_table_is_not_in_it():
    table = rows(
        (200, 260, 310), 700, ("Region", "Q1", "Q2"), ("North", "1", "2"), ("South", "", "4"), ("East", "5", "6")
    )

    (text,) = markdown(line(50, 730, BODY) + table + line(50, 640, "A last paragraph."))

    assert "\n\n| Region | Q1 | Q2 |\n| --- | --- | --- |\n| North | 1 | 2 |\n" in text
    assert text.endswith("| East | 5 | 6 |\n\nA last paragraph.")


@guards(
    "shared/ingest/parse/readers/pdf/__init__.py",
    "striped, rest = striped_tables(rest, rulings)",
    "striped, rest = [], rest",
    means="a small table with filled rows is running text",
)
def test_filled_rows_make_a_small_table():
    table = filled(45, 685, 200, 20) + filled(45, 645, 200, 20)
    table += rows((50, 150), 690, ("Name", "Note"), ("Ann", ""), ("Bob", "late"), pitch=20)

    (text,) = markdown(line(50, 750, BODY) + table)

    assert text.endswith("| Name | Note |\n| --- | --- |\n| Ann |  |\n| Bob | late |")


@guards(
    "shared/ingest/parse/readers/pdf/stripes.py",
    "return [*([first] if first else ()), *run, *([last] if last else ())]",
    "return run",
    means="the header above the first filled row is lost for the table",
)
def test_header_above_filled_rows_is_in_table():
    table = filled(45, 665, 200, 20) + filled(45, 625, 200, 20)
    table += rows((50, 150), 690, ("Name", "Note"), ("Ann", "ill"), ("Bob", ""), ("Kim", "late"), pitch=20)

    (text,) = markdown(line(50, 750, BODY) + table)

    assert text.endswith("| Name | Note |\n| --- | --- |\n| Ann | ill |\n| Bob |  |\n| Kim | late |")


def test_wrapped_cells_between_lines_are_one_row():
    heights = (712, 692, 662, 632)
    table = "\n".join(f"50 {y} m 400 {y} l S" for y in heights) + "\n"
    table += cells((55, 200, 330), 697, "Level", "Contact", "Time")
    table += cells((55, 200, 330), 680, "1", "Help desk with the\nfirst engineers", "15 minutes")
    table += cells((55, 200, 330), 650, "2", "Vendor and the\nproject manager", "2 hours")

    (text,) = markdown(line(50, 750, BODY) + table)

    assert text.endswith("| 1 | Help desk with the first engineers | 15 minutes |\n"
                         "| 2 | Vendor and the project manager | 2 hours |")  # fmt: skip


@pytest.mark.parametrize("gap", [14, 40])
def test_rules_around_paragraphs_make_no_table(gap):
    page = "".join(f"50 {760 - gap * at} m 500 {760 - gap * at} l S\n" for at in range(6))

    (text,) = markdown(page + "\n".join(line(50, 750 - gap * at, f"{BODY} {at}.") for at in range(5)))

    assert "|" not in text


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "lead = _above(rows)",
    "lead = 0",
    means="a heading on the left is read before the centred title above it",
)
def test_centred_title_precedes_heading_below_it():
    content = line(50, 770, "ACME 2026", 8) + line(220, 740, "Terms and Conditions", 18, "F2")
    content += line(50, 700, "1. Duties", 14, "F2") + line(330, 700, "Version 2")
    content += lines(50, 680, *[f"{BODY}."] * 4)

    (text,) = markdown(content)

    assert text.startswith("ACME 2026\n\n# Terms and Conditions\n\n")
    assert "1. Duties" in text


@guards(
    "shared/ingest/parse/readers/pdf/layout/order.py",
    "for part in with_notes_last(parts):",
    "for part in parts:",
    means="a footnote divides the text of two columns",
)
def test_footnote_of_column_follows_both_columns():
    left = [f"left {at} of a column that fills its width" for at in range(9)]
    right = [f"right {at} of a column that fills its width" for at in range(9)]
    page = lines(50, 700, *left) + lines(320, 700, *right) + line(50, 560, "1 A note below the left column", 7)

    (text,) = markdown(page)

    assert " ".join(text.split()) == " ".join([*left, *right, "1 A note below the left column"])


@guards(
    "shared/ingest/parse/readers/pdf/layout/cells.py",
    "if gap > limit or ends_header(bands[-1][-1], row):",
    "if gap > limit:",
    means="a heading, the names of columns and the first row are one row",
)
def test_heading_and_column_names_are_rows_apart():
    xs = (50, 120, 330)
    header = "\n".join(line(x, 738, name, font="F2") for x, name in zip(xs, ("Code", "Fault", "Remedy"), strict=True))

    (text,) = markdown(line(50, 760, "Error codes", 22, "F2") + header + rows(xs, 724, *wrapped(10), pitch=48))

    assert text.startswith("# Error codes\n\n| Code | Fault | Remedy |\n| --- | --- | --- |\n| E10 | The seal")


@guards(
    "shared/ingest/parse/readers/pdf/layout/columns.py",
    "if sum(texts) == 1 and len(columns) > 2 and _is_beside(",
    "if sum(texts) > 1 and len(columns) > 2 and _is_beside(",
    means="a table next to a text is labels between its lines",
)
@pytest.mark.parametrize(("text_x", "table_x"), [(50, 400), (250, 50)])
def test_table_next_to_text_is_apart(text_x, table_x):
    results = [("Metric", "2025", "2026"), *((name, "12", "14") for name in ("Sales", "Costs", "Profit", "Staff"))]
    prose = ["The harbour opens at six and closes if the last", "ferry of the day has left the pier in the harbour"] * 8

    (text,) = markdown(
        lines(text_x, 700, *prose) + rows((table_x, table_x + 60, table_x + 110), 706, *results, pitch=18)
    )

    assert "| Metric | 2025 | 2026 |\n| --- | --- | --- |\n| Sales | 12 | 14 |\n| Costs | 12 | 14 |" in text
    assert " ".join(prose) in " ".join(text.split())


@guards(
    "shared/ingest/parse/readers/pdf/layout/order.py",
    "_LEAST_LEVEL = 8",
    "_LEAST_LEVEL = 80",
    means="lines of two columns with a narrow distance are joined",
)
def test_columns_with_narrow_distance_are_read_apart():
    left = [f"line {at} of the left column fills its width" for at in range(10, 22)]
    right = [f"line {at} of the right column fills its width" for at in range(10, 22)]

    (text,) = markdown(lines(50, 700, *left) + lines(224, 700, *right))

    assert " ".join(text.split()) == " ".join([*left, *right])


@guards(
    "shared/ingest/parse/readers/pdf/layout/columns.py",
    "start = at if inside[0] != columns[0] else start",
    "start = len(above)",
    means="the first line of the right column is read before the left column",
)
def test_higher_first_line_of_right_column_follows_left():
    left = [f"left {index} of a column that fills its width" for index in range(9)]
    right = [f"right {index} of a column that fills its width" for index in range(10)]

    title = line(50, 740, "On harbours", 20) + line(190, 720, "by the two authors of the harbour")

    (text,) = markdown(title + lines(50, 688, *left) + lines(320, 700, *right))

    assert " ".join(text.split()).endswith(" ".join(["by the two authors of the harbour", *left, *right]))


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "if (several == 1 and any(map(_is_scale, rows)))",
    "if (several == 0 and any(map(_is_scale, rows)))",
    means="the numbers of an axis are one line with its name",
)
def test_numbers_of_axis_stay_apart():
    scale = lines(50, 700, "0.0010", "0.0008", "0.0006", pitch=38)
    axis = rows((70, 121, 172, 223, 275), 590, ("155", "160", "165", "170", "175")) + line(165, 576, "T [MeV]")

    (text,) = markdown(scale + axis)

    assert text.split("\n\n")[-5:] == ["155", "160", "165 T [MeV]", "170", "175"]


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    " and not _is_below_number(last, cells)",
    "",
    means="a note below a table is in its last numbers",
)
def test_text_below_numbers_is_a_row():
    numbers = [(name, "10", "20", "30", "40") for name in ("North", "South", "East")]

    (text,) = markdown(rows((50, 150, 220, 300, 370), 700, *numbers, ("", "Plan", "", "", "Actual")))

    assert text.endswith("| East | 10 | 20 | 30 | 40 |\n|  | Plan |  |  | Actual |")


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "if are_columns and longer > 1 and",
    "if are_columns and longer > 0 and",
    means="fields of one line are read as columns",
)
def test_fields_on_one_line_are_read_together():
    fields = rows((50, 300), 700, ("Date: 1 May", "or: 2 May"), ("Time: 10", ""), ("Comments: none", ""), pitch=30)

    (text,) = markdown(fields)

    assert " ".join(text.split()) == "Date: 1 May or: 2 May Time: 10 Comments: none"


@guards(
    "shared/ingest/parse/readers/pdf/layout/cells.py",
    "if not are_flush(cells) or any(",
    "if any(",
    means="the boxes of a figure are a table",
)
def test_centred_labels_of_figure_are_not_a_table():
    left = [("Main block", "Linear projection", ""), ("", "Concat", ""), ("", "", "")]
    right = [("Embedding", "", "Output head"), ("", "", "Cross entropy"), ("", "", "")]
    figure = "".join(
        line(x - 2.5 * len(text), 700 - (20 * (at // 3) * 3 + 12 * (at % 3)), text)
        for at, row in enumerate((left + right) * 3)
        for x, text in zip((100, 250, 400), row, strict=True)
        if text
    )

    (text,) = markdown(figure)

    assert "|" not in text


def grouped_table(group):
    """Return the content of a table whose first column has no line between its second and its third row."""
    inner = "150 660 m 350 660 l S\n"
    texts = lines(155, 685, "Port", "Kiel", "Turku", "Riga", pitch=20) + lines(255, 685, "Ships", *"123", pitch=20)
    first = line(55, 685, "Sea") + group + line(55, 625, "South")
    return box((50, 150, 250, 350), (700, 680, 640, 620)) + inner + first + texts


@guards(
    "shared/ingest/parse/readers/pdf/rulings.py",
    "                yield [*merged, *one[len(merged) :]]",
    "                yield one",
    means="only the first row of a group has the group's label",
)
def test_each_row_has_label_of_merged_cell():
    (text,) = markdown(grouped_table(line(55, 655, "North")))

    assert "| North | Kiel | 1 |\n| North | Turku | 2 |\n| South | Riga | 3 |" in text


@guards(
    "shared/ingest/parse/readers/pdf/rulings.py",
    "<= _LABEL_CHARS",
    "<= 999",
    means="a long text next to rows is repeated in each of them",
)
def test_long_text_of_merged_cell_is_not_repeated():
    (text,) = markdown(grouped_table(lines(52, 673, *["All ports of the north"] * 4, pitch=8, size=7)))

    assert text.count("All ports") == 4


@guards(
    "shared/ingest/parse/readers/pdf/rulings.py",
    " or self._crosses_words(words):",
    ":",
    means="the boxes of a diagram with arrows between them are a table",
)
def test_lines_through_words_make_no_table():
    boxes = "".join(f"50 {700 - 30 * at} 100 20 re S\n" for at in range(5))
    words = lines(55, 706, *["3x3 convolution, 64"] * 5, pitch=30)

    (text,) = markdown(f"{boxes}95 580 m 95 720 l S\n{words}")

    assert "|" not in text


@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    " or _is_above_title(part[lead:])",
    "",
    means="the fields above a table are its header",
)
def test_fields_above_title_are_outside_the_table():
    content = rows((50, 300), 700, ("Grade: my_grade", "Classes: my_number")) + line(50, 680, "Classes", font="F2")
    content += rows(
        (50, 200, 350), 664, ("Teacher", "Room", "Students"), *[("Smith", "1", "20"), ("Miller", "2", "30")]
    )

    (text,) = markdown(content)

    assert "| Teacher | Room | Students |\n| --- | --- | --- |\n| Smith | 1 | 20 |" in text


PORTS = ("Kiel", "Turku", "Riga", "Gdansk", "Oslo", "Bergen", "Malmo", "Visby")
SHIPS = ("112", "97", "64", "51", "48", "33", "20", "18")


@guards(
    "shared/ingest/parse/readers/pdf/rulings.py",
    "for one in with_all_rows(row)",
    "for one in (row,)",
    means="all rows between two lines are one cell",
)
def test_rows_between_two_lines_stay_rows():
    content = box((50, 150, 250, 350), (700, 680, 610, 540))
    content += "".join(line(x, 686, name) for x, name in ((55, "Port"), (155, "Ships"), (255, "Open")))
    content += lines(55, 666, *PORTS[:4], pitch=15) + lines(155, 666, *SHIPS[:4], pitch=15)
    content += line(255, 636, "in summer") + line(255, 590, "always")
    content += lines(55, 590, *PORTS[4:6], "Pier", pitch=15) + lines(155, 590, *SHIPS[4:7], pitch=15)

    (text,) = markdown(line(50, 750, BODY) + content)

    assert text.split("\n")[-9:] == [
        "| Port | Ships | Open |",
        "| --- | --- | --- |",
        "| Kiel | 112 |  |",
        "| Turku | 97 |  |",
        "| Riga | 64 | in summer |",
        "| Gdansk | 51 |  |",
        "| Oslo | 48 | always |",
        "| Bergen | 33 |  |",
        "| Pier | 20 |  |",
    ]


def test_wrapped_cells_with_numbers_stay_cells():
    content = box((50, 150, 300), (700, 680, 640, 600))
    content += line(55, 686, "Class") + line(155, 686, "Amount") + lines(55, 668, "Notes of", "class A", pitch=12)
    content += lines(155, 668, "256,000", "(12 %)", pitch=12) + line(55, 625, "Loans") + line(155, 625, "16,000")

    (text,) = markdown(line(50, 750, BODY) + content)

    assert "| Notes of class A | 256,000 (12 %) |" in text


def test_lines_between_some_columns_keep_rows_whole():
    content = box((150, 250, 350), (700, 680, 520))
    content += "".join(line(x, 686, name) for x, name in ((55, "Port"), (160, "Ships"), (260, "Tons"), (360, "Open")))
    content += lines(55, 664, *(f"{port} in the north" for port in PORTS), pitch=18)
    content += "".join(lines(x, 664, *SHIPS, pitch=18) for x in (160, 260, 358))

    (text,) = markdown(line(50, 750, BODY) + content)

    assert "| Kiel in the north | 112 | 112 | 112 |" in text
    assert "| Visby in the north | 18 | 18 | 18 |" in text


def test_row_without_inner_lines_has_cells():
    content = box((50, 150, 250, 350), (700, 680, 660)) + box((50, 350), (660, 640))
    content += box((50, 150, 250, 350), (640, 620)) + box((50, 350), (620, 600))
    ports = (("Port", "Ships", "Tons"), ("Kiel", "112", "97"), ("Turku", "64", "51"), ("Riga", "48", "33"))
    content += rows((55, 155, 255), 686, *ports, pitch=20) + line(55, 606, "The harbour opens at six and closes late")

    (text,) = markdown(line(50, 750, BODY) + content)

    assert "| Kiel | 112 | 97 |\n| Turku | 64 | 51 |\n| Riga | 48 | 33 |" in text
    assert "| The harbour opens at six and closes late |  |  |" in text


INVOICE = (
    ("Item", "Description", "Qty", "Price", "Amount"),
    ("P-1", "Mooring rope, 20 m", "2", "120.00", "240.00"),
    ("P-2", "Fender, blue", "10", "035.50", "355.00"),
    ("P-3", "Anchor chain", "1", "900.00", "900.00"),
)
TOTALS = (("Subtotal", "495.00"), ("VAT 19 %", "284.05"), ("Total", "779.05"))
TOTAL_ROWS = "|  |  |  | Subtotal | 495.00 |\n|  |  |  | VAT 19 % | 284.05 |\n|  |  |  | Total | 779.05 |"


@pytest.mark.parametrize("label_x", [400, 440])
@guards(
    "shared/ingest/parse/readers/pdf/layout/aligned.py",
    "totals = _totals(part[:end])",
    "totals = 0",
    means="the labels of totals join the columns above them",
)
def test_totals_below_table_are_rows(label_x):
    table = rows((50, 120, 390, 440, 520), 640, *INVOICE) + rows((label_x, 520), 576, *TOTALS)

    (text,) = markdown(line(50, 700, BODY) + table + line(50, 480, BODY))

    assert "| P-3 | Anchor chain | 1 | 900.00 | 900.00 |\n" + TOTAL_ROWS in text


def test_totals_next_to_lines_are_rows():
    grid = box((45, 110, 360, 430, 510, 585), (654, 634, 614, 594, 574)) + box((510, 585), (574, 554, 534, 514))
    table = rows((50, 120, 390, 440, 520), 640, *INVOICE, pitch=20) + rows((440, 520), 560, *TOTALS, pitch=20)

    (text,) = markdown(line(50, 700, BODY) + grid + table + line(50, 480, BODY))

    assert "| P-3 | Anchor chain | 1 | 900.00 | 900.00 |\n" + TOTAL_ROWS in text


def test_fields_next_to_sender_stay_blocks():
    sender = lines(50, 740, "Harbour Supplies", "Pier Street 1", "20457 Hamburg", "Germany")
    fields = lines(400, 738, "Invoice no.: 2024-117", "Date: 2024-03-01", "Due: 2024-03-31", "Page: 1")

    (text,) = markdown(sender + fields + line(50, 600, BODY))

    assert "|" not in text
    assert " ".join(text.split()).startswith(
        "Harbour Supplies Pier Street 1 20457 Hamburg Germany Invoice no.: 2024-117"
    )


def test_blocks_of_page_head_stay_apart():
    left = lines(50, 760, "Construction of the pier", "Harbour of Turku", "Winter works")
    right = "".join(line(x, y, text) for x, y, text in ((452.8, 760, "Section 12"), (423.9, 748, "Notes for bidders")))

    (text,) = markdown(left + right + line(442.7, 736, "Part one of 8") + line(50, 600, BODY))

    assert "|" not in text
    assert " ".join(text.split()).startswith(
        "Construction of the pier Harbour of Turku Winter works Section 12 Notes for bidders Part one of 8"
    )


def test_leaders_and_lines_of_fields_are_short():
    rows = (("Kiel" + " ." * 20, "112"), ("Turku" + "." * 30, "97"), ("Riga" + " ." * 30, "64"))
    table = "".join(line(50, 700 - 14 * at, one) + line(350, 700 - 14 * at, two) for at, (one, two) in enumerate(rows))

    (text,) = markdown(line(50, 750, BODY) + table + line(50, 600, "Name: " + "_" * 60))

    assert "| Kiel .... | 112 |" in text
    assert "| Turku.... | 97 |" in text
    assert text.endswith("Name: ____")
