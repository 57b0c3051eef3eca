"""Numbers of the items of HTML's lists (HTML Standard, section 4.4.5)."""

from __future__ import annotations

import re

from shared.ingest.parse.readers.html.frames import Frame
from shared.ingest.parse.readers.numerals import numeral
from shared.ingest.parse.readers.xml_tree import Element

_STYLE = re.compile(r"list-style(?:-type)?\s*+:\s*+(lower|upper)-(alpha|latin|roman)", re.IGNORECASE)
_TYPES = {"a": "lower-alpha", "A": "upper-alpha", "i": "lower-roman", "I": "upper-roman"}
_MAX_NUMBER = 999_999_999


def set_number(frame: Frame, element: Element) -> None:
    """Set the first number and the style of a numbered list."""
    start = _integer(element.get("start"))
    if element.get("reversed") is not None:
        frame.step = -1
        frame.number = sum(1 for _ in element.iterchildren("li")) if start is None else start
    else:
        frame.number = 1 if start is None else start
    style = _STYLE.search(element.get("style") or "")
    frame.style = f"{style[1]}-{style[2]}".lower() if style else _TYPES.get(element.get("type") or "", "")


def marker(above: Frame, element: Element) -> str:
    """Return the marker of the next item of a list."""
    if above.kind != "list" or above.style == "bullet":
        return "- "
    stated = _integer(element.get("value"))
    number = above.number if stated is None else stated
    above.number = number + above.step
    case, _, letters = above.style.partition("-")
    text = str(number)
    if letters == "roman" and 0 < number < 4000:  # noqa: PLR2004 - larger ones have no Roman number
        text = numeral(number, "i")
    elif letters and letters != "roman" and number > 0:
        text = _letters(number)
    return f"{text.upper() if case == 'upper' else text}. "


def _integer(text: str | None) -> int | None:
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if abs(number) <= _MAX_NUMBER else None


def _letters(number: int) -> str:
    text = ""
    while number:
        number, letter = divmod(number - 1, 26)
        text = chr(ord("a") + letter) + text
    return text
