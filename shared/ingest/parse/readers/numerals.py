"""Numbers of lists as they are shown."""

from __future__ import annotations

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"),
    (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_LARGEST_ROMAN = 4000


def numeral(number: int, form: str) -> str:
    """Return a number in one of the forms `1`, `a`, `A`, `i` and `I`; digits for any other form."""
    if form in ("a", "A") and number > 0:
        times, letter = divmod(number - 1, 26)
        text = chr(ord("a") + letter) * min(times + 1, 9)
        return text.upper() if form == "A" else text
    if form in ("i", "I") and 0 < number < _LARGEST_ROMAN:
        return _roman(number).upper() if form == "I" else _roman(number)
    return str(number)


def _roman(number: int) -> str:
    parts = []
    for value, text in _ROMAN:
        count, number = divmod(number, value)
        parts.append(text * count)
    return "".join(parts)
