"""Values of cells as a spreadsheet shows them: number formats of Office Open XML (ECMA-376 part 1, 18.8.30, 18.8.31).

Colours, padding and the width of a column are ignored. Numbers have the separators `,` and `.`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction

from shared.ingest.parse.readers.sheets.serial_dates import DatePicture, is_date_token, last_serial

_CODES = (
    *("0", "0.00", "#,##0", "#,##0.00", "$#,##0", "$#,##0", "$#,##0.00", "$#,##0.00", "0%", "0.00%", "0.00E+00"),
    *("# ?/?", "# ??/??", "m/d/yyyy", "d-mmm-yy", "d-mmm", "mmm-yy", "h:mm AM/PM", "h:mm:ss AM/PM", "h:mm", "h:mm:ss"),
    "m/d/yyyy h:mm",
)
_LATER_CODES = (
    *("#,##0 ;(#,##0)", "#,##0 ;(#,##0)", "#,##0.00;(#,##0.00)", "#,##0.00;(#,##0.00)", '#,##0;(#,##0);"-"'),
    *('$#,##0;$(#,##0);$"-"', '#,##0.00;(#,##0.00);"-"', '$#,##0.00;$(#,##0.00);$"-"', "mm:ss", "[h]:mm:ss", "mm:ss.0"),
    *("##0.0E+0", "@"),
)
BUILT_IN = {
    **dict(enumerate(_CODES, 1)),
    **dict(enumerate(_LATER_CODES, 37)),
    **dict.fromkeys((*range(27, 32), 36, *range(50, 55), 57, 58), "yyyy-mm-dd"),  # of East Asian versions
    **dict.fromkeys((32, 55), "h:mm"),
    **dict.fromkeys((33, 34, 35, 56), "h:mm:ss"),
}
"""Format codes of the identifiers that a file does not define; 14 and 22 as in the United States."""

MOST_CODE_CHARS = 1_000
"""A longer format code is ignored: Excel permits 255 characters."""

_MOST_DECIMALS = 30
_MOST_DIGITS = 40
_LONGEST_EXPONENT = 15  # decimal digits that a stored number has
_GENERAL_DIGITS = 10
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?'
    r"|\\(?P<escaped>.)"
    r"|(?P<padding>_.)|(?P<fill>\*.)"
    r"|\[(?P<bracket>[^\]]*)\]"
    r"|(?P<general>general)"
    r"|(?P<exponent>e[+-])"
    r"|(?P<half>am/pm|a/p|上午/下午)"
    r"|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?|b+|e+|g+)"
    r"|(?P<digit>[0#?])"
    r"|(?P<literal>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s{0,5}(-?\d{1,15}(?:\.\d{1,15})?)")
_CURRENCY = re.compile(r"\$([^-\]]*)(?:-([0-9A-Fa-f]{1,8}))?")
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
    "=": lambda value, limit: value == limit,
    "<>": lambda value, limit: value != limit,
}

_EXACT = 1e11  # below it, the digit after the last one shown is known up to `_NO_TIE`
_NO_TIE = 1e-3

_Token = tuple[str, str]
"""Kind and text of a token: `literal`, `digit`, `general`, `exponent`, `text`, `date`, `half`, `elapsed`, `percent`."""


class NumberFormat:
    """A number format.

    Args:
        code: the format code, such as `#,##0.00 "EUR"`.
        since_1904: whether dates count from 1904-01-01.
    """

    def __init__(self, code: str, *, since_1904: bool = False) -> None:
        sections = [_section(part, since_1904=since_1904) for part in _divided(code[:MOST_CODE_CHARS])]
        self._text = next((section for section in sections if section.has_text), None)
        if sections[-1].has_text and len(sections) > 1:
            sections = sections[:-1]
        elif len(sections) > 3:  # noqa: PLR2004 - positive, negative, zero, text
            self._text, sections = sections[3], sections[:3]
        self._numbers = sections
        self._hides_all = not any(section.tokens for section in sections)
        self._single = sections[0] if len(sections) == 1 and not self._hides_all else None
        self._is_conditional = any(section.condition for section in sections)
        self.is_date = any(section.picture for section in sections)

    def number(self, value: float) -> str:
        """Return a number as it is shown."""
        if self._single and value >= 0 and not self._is_conditional:  # most cells
            shown = self._single.shown(abs(value))
            return general(value) if shown is None else shown
        if self._hides_all:
            return general(value)
        section, signed = self._section_of(value)
        shown = section.shown(abs(value))
        if shown is None:
            return general(value)
        negative = signed and value < 0 and any("1" <= char <= "9" for char in shown)
        return f"-{shown}" if negative else shown

    def text(self, value: str) -> str:
        """Return a text as it is shown; a format that hides texts does not hide it here."""
        if self._text is None or not self._text.has_text:
            return value
        return "".join(value if kind == "text" else text for kind, text in self._text.tokens)

    def _section_of(self, value: float) -> tuple[_FormatSection, bool]:
        """Return the section for a number, and whether a minus sign is shown in front of it."""
        sections = self._numbers
        if self._is_conditional:
            return _conditional(sections, value)
        if len(sections) == 1 or value > 0:
            return sections[0], True
        if value < 0:
            return sections[1], False
        return (sections[2] if len(sections) > 2 else sections[0]), False  # noqa: PLR2004 - the section of zero


@dataclass(frozen=True, slots=True)
class _FormatSection:
    tokens: Sequence[_Token]
    condition: tuple[str, float] | None
    picture: DatePicture | None
    number: _NumberPicture | None

    @property
    def has_text(self) -> bool:
        return any(kind == "text" for kind, _ in self.tokens)

    def holds(self, value: float) -> bool:
        return self.condition is None or _COMPARE[self.condition[0]](value, self.condition[1])

    def shown(self, value: float) -> str | None:
        """Return a number that is not negative; None if it is not a date of this section."""
        if self.picture:
            return self.picture.shown(value) if value <= last_serial() else None
        if self.number:
            return self.number.shown(value)
        return "".join(general(value) if kind in ("general", "text") else text for kind, text in self.tokens).strip()


def _conditional(sections: Sequence[_FormatSection], value: float) -> tuple[_FormatSection, bool]:
    for index, section in enumerate(sections):
        last = index == len(sections) - 1
        if section.condition is None and not last and len(sections) == 3 and index == 1:  # noqa: PLR2004
            if value < 0:
                return section, False
        elif section.holds(value) or last:
            only_negative = section.condition is not None and section.condition[0] in ("<", "<=")
            return section, not (only_negative and section.condition is not None and section.condition[1] <= 0)
    raise AssertionError("the last section always holds")


def general(value: float) -> str:
    """Return a number in the format General; all digits of a whole number are kept."""
    if value == int(value) and abs(value) < 10**_LONGEST_EXPONENT:
        return str(int(value))
    digits = f"{value:.{_GENERAL_DIGITS}g}"
    if "e" not in digits:
        exact = f"{value:.15g}"
        if len(exact) <= _GENERAL_DIGITS:
            return exact
        is_tie = exact[-1] == "5" and len(exact.lstrip("-")) == _GENERAL_DIGITS + 2  # Excel rounds it away from zero
        if abs(value) >= 1 and not is_tie:
            return digits
        whole = len(digits.lstrip("-").partition(".")[0])
        return _plain(value, max(0, _GENERAL_DIGITS - whole))
    mantissa, _, exponent = f"{value:.5e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}E{exponent}"


def _plain(value: float, decimals: int) -> str:
    shown = f"{value:.{decimals}f}" if _rounds_alike(abs(value), decimals) else f"{_rounded(value, decimals):f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _rounded(value: float, decimals: int) -> Decimal:
    """Return a number rounded half away from zero, from the fifteen digits that Excel keeps."""
    exact = Decimal(f"{value:.15g}")
    try:
        return exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)
    except InvalidOperation:  # more digits than a Decimal has
        return exact


def _rounds_alike(value: float, decimals: int) -> bool:
    """Return whether a number rounded to even, as Python does it, is the same one rounded as Excel does it."""
    next_digit = value * 10 ** (decimals + 1)
    if next_digit < _EXACT and abs(next_digit % 10 - 5) > _NO_TIE:
        return True
    exact = f"{value:.{_LONGEST_EXPONENT}g}"
    whole, _, places = exact.partition(".")
    if "e" in exact or len(whole) + decimals > _LONGEST_EXPONENT:
        return False
    return len(places) != decimals + 1 or places[-1] != "5"


def _divided(code: str) -> list[str]:
    """Return the sections of a code, which `;` divides outside of quotes."""
    parts, start = list[str](), 0
    for token in _TOKEN.finditer(code):
        if token["literal"] == ";":
            parts.append(code[start : token.start()])
            start = token.end()
    return [*parts, code[start:]][:4]


def _section(code: str, *, since_1904: bool) -> _FormatSection:
    tokens, condition, locale = list[_Token](), None, None
    for match in _TOKEN.finditer(code):
        kind = match.lastgroup or ""
        text = match[kind]
        if kind == "bracket":
            if found := _CONDITION.fullmatch(text):
                condition = (found[1], float(found[2]))
            elif _ELAPSED.fullmatch(text):
                tokens.append(("elapsed", text.lower()))
            elif currency := _CURRENCY.fullmatch(text):
                tokens.append(("literal", currency[1]))
                locale = currency[2] or locale
        elif token := _token(kind, text):
            tokens.append(token)
    if any(is_date_token(kind) for kind, _ in tokens):
        return _FormatSection(tokens, condition, DatePicture(tokens, locale, since_1904=since_1904), None)
    number = _NumberPicture(tokens) if any(kind == "digit" for kind, _ in tokens) else None
    return _FormatSection(
        [("literal", text) if kind == "percent" else (kind, text) for kind, text in tokens], condition, None, number
    )


def _token(kind: str, text: str) -> _Token | None:
    if kind in ("quoted", "escaped"):
        return "literal", text
    if kind in ("padding", "fill"):
        return None
    if kind in ("date", "half", "general", "exponent", "digit"):
        return kind, text.lower() if kind == "date" else text
    return {"%": ("percent", "%"), "@": ("text", "@")}.get(text, ("literal", text))


class _NumberPicture:
    """The digits of a section: literals, the number, literals."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        first = next(index for index, (kind, _) in enumerate(tokens) if kind == "digit")
        last = max(index for index, (kind, _) in enumerate(tokens) if kind == "digit")
        while last + 1 < len(tokens) and tokens[last + 1] == ("literal", ","):
            last += 1
        last = _denominator_end(tokens, last)
        if first and tokens[first - 1] == ("literal", "."):  # `.00`
            first -= 1
        if tokens[last + 1 : last + 2] == [("literal", ".")]:  # `0.`
            last += 1
        core = tokens[first : last + 1]
        self._before = "".join(text for _, text in tokens[:first])
        self._after = "".join(text for _, text in tokens[last + 1 :])
        self._percents = sum(kind == "percent" for kind, _ in tokens)
        self._write = self._writer(list(core))

    def shown(self, value: float) -> str:
        scaled = float(Decimal(f"{value:.15g}").scaleb(2 * self._percents)) if self._percents else value
        return f"{self._before}{self._write(scaled)}{self._after}".strip()

    def _writer(self, core: list[_Token]) -> Callable[[float], str]:
        exponent = next((index for index, (kind, _) in enumerate(core) if kind == "exponent"), None)
        if exponent is not None:
            return _Scientific(core[:exponent], core[exponent][1], core[exponent + 1 :]).shown
        slash = next((index for index, token in enumerate(core) if token == ("literal", "/")), None)
        if slash is not None:
            return _FractionPicture(core[:slash], core[slash + 1 :]).shown
        return _Decimal(core).shown


def _denominator_end(tokens: Sequence[_Token], last: int) -> int:
    """Return the index of the last digit of a fixed denominator after token `last`, as in `# ??/16`, or `last`."""
    end = last + 1
    if end < len(tokens) and tokens[end] == ("literal", "/"):
        while end + 1 < len(tokens) and tokens[end + 1][0] == "literal" and tokens[end + 1][1].isdigit():
            end += 1
    return end if end > last + 1 else last


class _Decimal:
    """Digits with an optional point: `#,##0.00`, `00000`, `000-00-0000`, `0.0,,`."""

    def __init__(self, core: list[_Token]) -> None:
        point = next((index for index, token in enumerate(core) if token == ("literal", ".")), len(core))
        whole, decimals = core[:point], core[point + 1 :]
        self._point = point < len(core)
        self._scale = 0
        for part in (decimals, whole):
            while part and part[-1] == ("literal", ","):
                part.pop()
                self._scale += 3
            if part:
                break
        self._grouped = ("literal", ",") in whole
        self._whole = [token for token in whole if token != ("literal", ",")]
        self._decimals = decimals[:_MOST_DECIMALS]
        self._places = sum(kind == "digit" for kind, _ in self._decimals)
        self._least = sum(token == ("digit", "0") for token in self._whole[:_MOST_DIGITS])
        self._least_decimals = self._required(self._decimals)
        self._simple = all(kind == "digit" for kind, _ in (*self._whole, *self._decimals))
        self._fixed = self._simple and self._least == 1 and not self._scale and self._least_decimals == self._places
        self._fixed = self._fixed and self._point == bool(self._places)
        self._form = f"{',' if self._grouped else ''}.{self._places}f"

    @staticmethod
    def _required(tokens: list[_Token]) -> int:
        digits = [text for kind, text in tokens if kind == "digit"]
        return max((index + 1 for index, text in enumerate(digits) if text == "0"), default=0)

    def shown(self, value: float) -> str:
        if self._fixed and _rounds_alike(value, self._places):
            return format(value, self._form)
        number = _rounded(value / 10**self._scale if self._scale else value, self._places)
        whole, _, decimals = f"{number:f}".partition(".")
        whole = "" if whole == "0" and not self._least else whole.zfill(self._least)
        kept = decimals[: self._least_decimals] + decimals[self._least_decimals :].rstrip("0")
        if self._simple:
            whole = _grouped(whole) if self._grouped else whole
            return f"{whole}.{kept}" if self._point and (kept or self._least_decimals or not self._places) else whole
        return self._with_literals(whole, kept)

    def _with_literals(self, whole: str, decimals: str) -> str:
        """Return the digits with the literals between them, as in a telephone number."""
        out, left = list[str](), list(whole)
        slots = sum(kind == "digit" for kind, _ in self._whole)
        for kind, text in reversed(self._whole):
            if kind != "digit":
                out.append(text)
                continue
            slots -= 1
            if slots == 0:
                out.extend(reversed(left))
                left = []
            elif left:
                out.append(left.pop())
        shown, rest = "".join(reversed(out)), iter(decimals)
        tail = "".join(next(rest, "") if kind == "digit" else text for kind, text in self._decimals)
        return f"{shown}.{tail}" if self._point and tail else shown


class _Scientific:
    """Digits with an exponent: `0.00E+00`, `##0.0E+0`."""

    def __init__(self, mantissa: list[_Token], mark: str, exponent: list[_Token]) -> None:
        point = next((index for index, token in enumerate(mantissa) if token == ("literal", ".")), len(mantissa))
        self._step = max(1, sum(kind == "digit" for kind, _ in mantissa[:point]))
        self._places = sum(kind == "digit" for kind, _ in mantissa[point:])
        self._plus = mark[1] == "+"
        self._width = sum(token == ("digit", "0") for token in exponent)

    def shown(self, value: float) -> str:
        if value == 0:
            power, mantissa = 0, Decimal(0)
        else:
            exact = Decimal(f"{value:.15g}")
            power = exact.adjusted() // self._step * self._step
            mantissa = _rounded(float(exact.scaleb(-power)), self._places)
            if mantissa >= 10**self._step:
                power, mantissa = power + self._step, _rounded(float(mantissa.scaleb(-self._step)), self._places)
        sign = "-" if power < 0 else "+" if self._plus else ""
        return f"{mantissa:.{self._places}f}E{sign}{abs(power):0{max(1, self._width)}d}"


class _FractionPicture:
    """A whole number and a fraction: `# ?/?`, `# ??/16`, `?/?`."""

    def __init__(self, upper: list[_Token], lower: list[_Token]) -> None:
        digits = "".join(text for _, text in lower if text in "0#?123456789").strip()
        fixed = "".join(text for _, text in lower).strip()
        self._denominator = int(fixed) if re.fullmatch(r"[1-9]\d{0,6}", fixed) else None
        self._most = 10 ** min(len(digits) or 1, 7) - 1
        self._mixed = any(kind == "literal" and text == " " for kind, text in upper) and upper[0][0] == "digit"

    def shown(self, value: float) -> str:
        whole = int(value) if self._mixed else 0
        rest = Fraction(value) - whole
        if self._denominator:
            numerator, denominator = int(rest * self._denominator + Fraction(1, 2)), self._denominator
        else:
            near = rest.limit_denominator(self._most)
            numerator, denominator = near.numerator, near.denominator
        if self._mixed and numerator == denominator:
            whole, numerator = whole + 1, 0
        if not numerator and (self._mixed or not value):
            return str(whole)
        return f"{whole} {numerator}/{denominator}" if whole else f"{numerator}/{denominator}"


def _grouped(digits: str) -> str:
    first = len(digits) % 3
    return ",".join(filter(None, (digits[:first], *(digits[at : at + 3] for at in range(first, len(digits), 3)))))
