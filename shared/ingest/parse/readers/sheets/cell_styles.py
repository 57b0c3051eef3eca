"""Values of a workbook as its styles show them (ECMA-376 part 1, section 18.8): numbers, texts and ISO dates.

Fonts, colours and conditional formats are not read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite

from shared.ingest.parse.readers.sheets.number_formats import BUILT_IN, NumberFormat, general
from shared.ingest.parse.readers.xml_tree import Element, local_name, parsed

MOST_FORMATS = 10_000
_CACHED_VALUES = 300_000
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
        self._shown: dict[str | None, dict[str, str]] = {}
        self._shown_count = 0

    def number(self, raw: str, style: str | None) -> str:
        """Return a stored number as it is shown."""
        cache = self._shown.get(style)
        if cache is None:
            cache = self._shown[style] = {}
        shown = cache.get(raw)
        if shown is None:
            self._shown_count += 1
            if self._shown_count > _CACHED_VALUES:
                self._shown.clear()
                cache = self._shown[style] = {}
                self._shown_count = 1
            shown = cache[raw] = self._number(raw, self._formats.get(style or "0"))
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

    @staticmethod
    def whole_number(raw: str, form: NumberFormat | None) -> str:
        if form is None and len(raw) <= _MOST_DIGITS and raw.isascii() and raw.isdigit():
            return raw.lstrip("0") or "0"
        try:
            value = float(raw)
        except ValueError:
            return raw.strip()
        if not isfinite(value):
            return raw.strip()
        return form.number(value) if form else general(value)


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
