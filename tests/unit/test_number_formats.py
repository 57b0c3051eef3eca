"""Numbers are shown in their format."""

from __future__ import annotations

import pytest

from shared.ingest.parse.readers.sheets.number_formats import BUILT_IN, NumberFormat, general
from tests.support.planted import guards


@guards(
    "shared/ingest/parse/readers/sheets/number_formats.py",
    "rounding=ROUND_HALF_UP",
    "",
    means="halves are rounded to even digits",
    case="0.00-2.665-2.67",
)
@guards(
    "shared/ingest/parse/readers/sheets/serial_dates.py",
    'if before == "h" or after == "s":',
    "if False:",
    means="minutes are months",
    case="HH:MM-0.6458333333333334-15:30",
)
@guards(
    "shared/ingest/parse/readers/sheets/serial_dates.py",
    "str(moment.seconds // size)",
    "str(moment.second // size)",
    means="durations lose their days",
    case="[h]:mm-1.5625-37:30",
)
@guards(
    "shared/ingest/parse/readers/sheets/number_formats.py",
    "negative = signed and value < 0",
    "negative = value < 0",
    means="a minus sign stands in brackets",
)
@guards(
    "shared/ingest/parse/readers/sheets/number_formats.py",
    "locale = currency[2] or locale",
    "pass",
    means="months have English names",
    case="[$-407]d. mmmm yyyy-46085-4. M\\xe4rz 2026",
)
@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("DD/MM/YYYY", 46085, "04/03/2026"),
        ("HH:MM", 0.6458333333333334, "15:30"),
        ("[h]:mm", 1.5625, "37:30"),
        ("[mm]:ss", 0.05, "72:00"),
        ("h:mm AM/PM", 0.75, "6:00 PM"),
        ("mm:ss.0", 0.000694444, "01:00.0"),
        ("yyyy-mm-dd hh:mm:ss", 46085.6458333, "2026-03-04 15:30:00"),
        ("d/m/yyyy", 60, "29/2/1900"),
        ("dddd", 46085, "Wednesday"),
        ("[$-407]d. mmmm yyyy", 46085, "4. März 2026"),
        ("[$-F800]dddd, mmmm dd, yyyy", 46085, "Wednesday, March 4, 2026"),
        ('yyyy"年"m"月"d"日"', 46085, "2026年3月4日"),
        ("MMM YYYY", 46082, "Mar 2026"),
        ('#,##0.00\\ "€"', 1234.5, "1,234.50 €"),
        ('"$"#,##0.00;[Red]("$"#,##0.00)', -1234.5, "($1,234.50)"),
        ("[$EUR-407] #,##0.00", 5, "EUR 5.00"),
        ("#,##0.00 [$€-407]", -5, "-5.00 €"),
        ('_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)', -3, "$(3.00)"),
        ('_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)', 0, "$-"),
        ("0.0%", 0.075, "7.5%"),
        ("0.00%;[Red]-0.00%", -0.05, "-5.00%"),
        ("00000", 1067, "01067"),
        ("00,000", 7, "00,007"),
        ("000-00-0000", 123456789, "123-45-6789"),
        ("(000) 000-0000", 5551234567, "(555) 123-4567"),
        ("0.00E+00", 12345.678, "1.23E+04"),
        ("##0.0E+0", 12345, "12.3E+3"),
        ("# ?/?", 2.5, "2 1/2"),
        ("# ??/16", 0.5, "8/16"),
        ('[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', 1234567, "1.2M"),
        ('[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', 1500, "1.5K"),
        ('[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', 5, "5"),
        ('[<0]"minus "0;0', -5, "minus 5"),
        ('0 "pcs"', 3, "3 pcs"),
        ("#.##", 0.5, ".5"),
        ("0.00", 2.665, "2.67"),
        ("0.00", -0.001, "0.00"),
        ("0;-0;;@", 0, ""),
        (";;;", 7, "7"),
        ("General", 0.30000000000000004, "0.3"),
        ('General" kg"', 5, "5 kg"),
        ("@", 5, "5"),
        ("yyyy-mm-dd", 99999999, "99999999"),
    ],
)
def test_number_is_shown_in_its_format(code: str, value: float, shown: str) -> None:
    assert NumberFormat(code).number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1 / 3, "0.333333333"),
        (4006381333931, "4006381333931"),
        (1e-7, "1E-07"),
        (1.5e20, "1.5E+20"),
        (123456.789, "123456.789"),
    ],
)
def test_number_without_format_keeps_its_digits(value: float, shown: str) -> None:
    assert general(value) == shown


def test_text_section_shows_text() -> None:
    assert NumberFormat('0;-0;0;"Ref. "@').text("A7") == "Ref. A7"
    assert NumberFormat("0.00").text("A7") == "A7"
    assert NumberFormat(";;;").text("A7") == "A7"


def test_dates_since_1904_are_four_years_later() -> None:
    assert NumberFormat("yyyy-mm-dd", since_1904=True).number(1) == "1904-01-02"


@pytest.mark.parametrize(
    "code",
    [*BUILT_IN.values(), "", ";", '"', "[", "\\", "0" * 5000, "[$-FFFFFFFF]yyyy", "?/", "E+0", "0/0/0", ".", "%"],
)
@pytest.mark.parametrize("value", [0, 1.5, -1.5, 1e308, -1e-308, 2958465.999999])
def test_no_format_fails(code: str, value: float) -> None:
    assert isinstance(NumberFormat(code).number(value), str)
