"""Values of a workbook as its styles show them (ECMA-376 part 1, section 18.8): numbers, texts and ISO dates.

Fonts, colours and conditional formats are not read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite

from shared.ingest.parse.readers.sheets.number_formats import BUILT_IN, NumberFormat, general
from shared.ingest.parse.readers.sheets.xml_bytes import decoded
from shared.ingest.parse.readers.xml_tree import Element, local_name, parsed

MOST_FORMATS = 10_000
LONGEST_CACHED = 12
"""Bytes of a value; longer ones are hardly repeated."""

_CACHED_NUMBERS = 300_000
_MOST_DIGITS = 15
_EXCEL_EPOCH = datetime(1899, 12, 30, tzinfo=UTC)


class CellStyles:
    """The number formats of a workbook's cells.

    Args:
        content: the part `styles.xml`; None if there is none.
        since_1904: whether dates count from 1904-01-01.
    """

    def __init__(self, content: bytes | None, *, since_1904: bool) -> None:
        self._since_1904 = since_1904
        codes, styles = _format_codes(parsed(content)[0] if content else None)
        self._formats: dict[str, NumberFormat | None] = {}
        compiled: dict[str, NumberFormat | None] = {"General": None}
        for index, identifier in enumerate(styles):
            code = codes.get(identifier) or BUILT_IN.get(identifier, "General")
            if code not in compiled:
                plain = code.strip().lower() in ("general", "@", "")
                compiled[code] = None if plain else NumberFormat(code, since_1904=since_1904)
            self._formats[str(index)] = compiled[code]
        self._numbers: dict[str | None, _ShownNumbers] = {}
        self._kept = 0

    def number(self, raw: bytes, style: str | None) -> str:
        """Return a stored number as it is shown."""
        numbers = self._numbers.get(style)
        if numbers is None:
            numbers = self._numbers[style] = _ShownNumbers(self._formats.get(style or "0"))
        shown = numbers.get(raw)
        if shown is None:
            self._kept += 1
            if self._kept > _CACHED_NUMBERS:
                self._numbers.clear()
                self._kept = 0
            shown = numbers[raw]
        return shown

    def text(self, text: str, style: str | None) -> str:
        """Return a stored text as it is shown."""
        form = self._formats.get(style or "0")
        return form.text(text) if form else text

    def moment(self, raw: str, style: str | None) -> str:
        """Return a date that is stored as ISO 8601."""
        form = self._formats.get(style or "0")
        try:
            when = datetime.fromisoformat(raw.strip())
        except ValueError:
            return raw
        if not form or not form.is_date:
            return raw
        days = (when.replace(tzinfo=UTC) - _EXCEL_EPOCH).total_seconds() / 86_400
        return form.number(days - (1462 if self._since_1904 else 0))


class _ShownNumbers(dict[bytes, str]):
    """Stored numbers of one style as they are shown: the two readings of a sheet share them.

    Args:
        form: their format; None for General.
    """

    def __init__(self, form: NumberFormat | None) -> None:
        super().__init__()
        self._form = form
        self._show = form.number if form else general

    def __missing__(self, raw: bytes) -> str:
        if self._form is None and len(raw) <= _MOST_DIGITS and raw.isdigit():
            shown = (raw.lstrip(b"0") or b"0").decode()
        else:
            value = _float(raw)
            if value is None:  # entities, or no number
                value = _float(decoded(raw))
            shown = decoded(raw).strip() if value is None else self._show(value)
        self[raw] = shown
        return shown


def _float(raw: bytes | str) -> float | None:
    """Return a finite number; None for other text."""
    try:
        value = float(raw)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _format_codes(root: Element | None) -> tuple[dict[int, str], list[int]]:
    """Return the format codes that a file defines, and the format of each style."""
    codes, styles = dict[int, str](), list[int]()
    for element in root.iter("{*}numFmt") if root is not None else ():
        if (identifier := whole_number(element.get("numFmtId"))) is not None and local_name(
            element.getparent()
        ) == "numFmts":
            codes[identifier] = element.get("formatCode") or ""
    for element in root.iter("{*}cellXfs") if root is not None else ():
        styles = [whole_number(style.get("numFmtId")) or 0 for style in element if local_name(style) == "xf"]
    return codes, styles


def whole_number(text: str | None) -> int | None:
    """Return a whole number of up to 32 bits; None for other text, because damaged files have any."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004 - 32 bits


def boolean(raw: str) -> str:
    """Return a stored truth value as it is shown."""
    return "TRUE" if raw.strip() in ("1", "true") else "FALSE"
