"""Dates, times and durations of a spreadsheet: numbers of days, shown by the tokens of a number format.

ECMA-376 part 1, section 18.8.31, defines the tokens. Each becomes a function once, because a sheet has many dates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

_DAY_SECONDS = 86_400
_LAST_SERIAL = 2_958_466  # 10000-01-01
_LEAP_BUG = 60
"""Excel counts 1900-02-29, a day that did not exist, as day 60."""

_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
}
_DAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
    "it": "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "nl": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
    "pt": "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
}
_LANGUAGES = {0x07: "de", 0x0A: "es", 0x0C: "fr", 0x10: "it", 0x13: "nl", 0x16: "pt"}
"""Languages by the low ten bits of a Windows locale; names of other languages are English."""

_SYSTEM_DATE = 0xF800
_SYSTEM_TIME = 0xF400


def is_date_token(kind: str) -> bool:
    """Return whether a token of a number format shows a part of a date."""
    return kind in ("date", "half", "elapsed")


def last_serial() -> int:
    """Return the number after the last date."""
    return _LAST_SERIAL


class _DateTime(NamedTuple):
    """A date and a time.

    Args:
        weekday: 0 is Monday.
        seconds: all seconds of the number of days, for durations.
        second: second of the day.
        fraction: the rest, in the unit of the last decimal that is shown.
    """

    year: int
    month: int
    day: int
    weekday: int
    seconds: int
    second: int
    fraction: int


_Writer = Callable[[_DateTime], str]


class DatePicture:
    """The tokens of a date, time or duration.

    Args:
        tokens: kinds and texts of the tokens.
        locale: Windows locale in hexadecimal digits.
        since_1904: whether days count from 1904-01-01.
    """

    def __init__(self, tokens: Sequence[tuple[str, str]], locale: str | None, *, since_1904: bool) -> None:
        code = int(locale, 16) & 0xFFFF if locale else 0
        if code == _SYSTEM_DATE:
            tokens = [("date", "dddd"), ("literal", ", "), ("date", "mmmm"), ("literal", " "), ("date", "d")]
            tokens += [("literal", ", "), ("date", "yyyy")]
        elif code == _SYSTEM_TIME:
            tokens = [("date", "h"), ("literal", ":"), ("date", "mm"), ("literal", ":"), ("date", "ss")]
            tokens += [("literal", " "), ("half", "AM/PM")]
        self._since_1904 = since_1904
        language = _LANGUAGES.get(code & 0x3FF, "en")
        self._months, self._days = _MONTHS[language].split(), _DAYS[language].split()
        self._half = any(kind == "half" for kind, _ in tokens)
        decimals = [len(text.partition(".")[2]) for kind, text in tokens if kind == "date" and "." in text]
        self._decimals = min(max(decimals, default=0), 6)
        self._writers = [self._writer(kind, text) for kind, text in _with_minutes(tokens)]

    def shown(self, serial: float) -> str:
        """Return the date of a number of days that is not negative."""
        ticks = round(serial * _DAY_SECONDS * 10**self._decimals)
        seconds, fraction = divmod(ticks, 10**self._decimals)
        days, second = divmod(seconds, _DAY_SECONDS)
        moment = _DateTime(*self._date(days), seconds, second, fraction)
        return "".join([write(moment) for write in self._writers]).strip()

    def _date(self, days: int) -> tuple[int, int, int, int]:
        """Return year, month, day and day of the week (0 is Monday)."""
        if self._since_1904:
            when = date(1904, 1, 1) + timedelta(days=min(days, _LAST_SERIAL - 1 - 1462))
        elif days == 0:
            return 1900, 1, 0, 5
        elif days == _LEAP_BUG:
            return 1900, 2, 29, 2
        else:
            base = date(1899, 12, 31) if days < _LEAP_BUG else date(1899, 12, 30)
            when = base + timedelta(days=min(days, _LAST_SERIAL - 1))
        return when.year, when.month, when.day, when.weekday()

    def _writer(self, kind: str, text: str) -> _Writer:
        """Return the function that writes a token."""
        if kind == "half":
            names = ("AM", "PM") if len(text) > 3 else ("A", "P")  # noqa: PLR2004 - `A/P`
            return lambda moment: names[moment.second >= _DAY_SECONDS // 2]
        if kind == "elapsed":
            size, width = {"h": 3600, "m": 60, "s": 1}[text[0]], len(text)
            return lambda moment: str(moment.seconds // size).zfill(width)
        if kind == "minutes":
            return (_one_digit, _two_digits)[len(text) > 1](lambda moment: moment.second // 60 % 60)
        if kind != "date":
            return lambda _: text
        return self._clock(text) if text[0] in "hs" else self._calendar(text)

    def _clock(self, text: str) -> _Writer:
        whole, _, decimals = text.partition(".")
        digits = _two_digits if len(whole) > 1 else _one_digit
        if text[0] == "h" and self._half:
            return digits(lambda moment: (moment.second // 3600 - 1) % 12 + 1)
        if text[0] == "h":
            return digits(lambda moment: moment.second // 3600)
        write = digits(lambda moment: moment.second % 60)
        if not decimals:
            return write
        return lambda moment: f"{write(moment)}.{str(moment.fraction).zfill(self._decimals)[: len(decimals)]}"

    def _calendar(self, text: str) -> _Writer:
        letter, length = text[0], len(text)
        if letter == "m":
            return self._month(length)
        if letter == "d":
            return self._day(length)
        if letter == "g":
            return lambda _: ""
        since = 543 if letter == "b" else 0  # the Buddhist era
        if letter in "yb" and length < 3:  # noqa: PLR2004 - `yy`
            return lambda moment: f"{(moment.year + since) % 100:02d}"
        return lambda moment: str(moment.year + since)

    def _month(self, length: int) -> _Writer:
        if length < 3:  # noqa: PLR2004 - `mmm` is a name
            return (_one_digit, _two_digits)[length - 1](lambda moment: moment.month)
        end = {3: 3, 4: None}.get(length, 1)
        names = [name[:end] for name in self._months]
        return lambda moment: names[moment.month - 1]

    def _day(self, length: int) -> _Writer:
        if length < 3:  # noqa: PLR2004 - `ddd` is a name
            return (_one_digit, _two_digits)[length - 1](lambda moment: moment.day)
        names = [name[:3] if length == 3 else name for name in self._days]  # noqa: PLR2004
        return lambda moment: names[moment.weekday]


def _one_digit(number: Callable[[_DateTime], int]) -> _Writer:
    return lambda moment: str(number(moment))


def _two_digits(number: Callable[[_DateTime], int]) -> _Writer:
    return lambda moment: f"{number(moment):02d}"


def _with_minutes(tokens: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the tokens in which `m` after hours or in front of seconds is minutes."""
    out = list(tokens)
    shown = [index for index, (kind, _) in enumerate(out) if kind in ("date", "elapsed")]
    for at, index in enumerate(shown):
        kind, text = out[index]
        if kind != "date" or text[0] != "m" or len(text) > 2:  # noqa: PLR2004 - `mmm` is a name
            continue
        before = out[shown[at - 1]][1][0] if at else ""
        after = out[shown[at + 1]][1][0] if at + 1 < len(shown) else ""
        if before == "h" or after == "s":
            out[index] = ("minutes", text)
    return out
