"""Dates, times and durations of a spreadsheet: numbers of days, shown by the tokens of a number format."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

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
        self._tokens = _with_minutes(tokens)
        self._since_1904 = since_1904
        language = _LANGUAGES.get(code & 0x3FF, "en")
        self._months, self._days = _MONTHS[language].split(), _DAYS[language].split()
        self._half = any(kind == "half" for kind, _ in tokens)
        decimals = [len(text.partition(".")[2]) for kind, text in tokens if kind == "date" and "." in text]
        self._decimals = min(max(decimals, default=0), 6)

    def shown(self, serial: float) -> str:
        """Return the date of a number of days that is not negative."""
        ticks = round(serial * _DAY_SECONDS * 10**self._decimals)
        seconds, fraction = divmod(ticks, 10**self._decimals)
        days, second = divmod(seconds, _DAY_SECONDS)
        day = self._date(days)
        out = [self._part(kind, text, day, seconds, second, fraction) for kind, text in self._tokens]
        return "".join(out).strip()

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

    def _part(  # noqa: PLR0917 - the parts of one moment
        self, kind: str, text: str, day: tuple[int, int, int, int], seconds: int, second: int, fraction: int
    ) -> str:
        if kind == "half":
            afternoon = second >= _DAY_SECONDS // 2
            return ("P" if afternoon else "A") + ("M" if len(text) > 3 else "")  # noqa: PLR2004 - `A/P`
        if kind == "elapsed":
            size = {"h": 3600, "m": 60, "s": 1}[text[0]]
            return str(seconds // size).zfill(len(text))
        if kind == "minutes":
            return str(second // 60 % 60).zfill(min(len(text), 2))
        if kind != "date":
            return text
        if text[0] in "hs":
            return self._clock(text, second, fraction)
        return self._calendar(text, *day)

    def _clock(self, text: str, second: int, fraction: int) -> str:
        if text[0] == "h":
            hour = second // 3600
            return str((hour - 1) % 12 + 1 if self._half else hour).zfill(min(len(text), 2))
        whole, _, decimals = text.partition(".")
        shown = str(second % 60).zfill(min(len(whole), 2))
        return f"{shown}.{str(fraction).zfill(self._decimals)[: len(decimals)]}" if decimals else shown

    def _calendar(self, text: str, year: int, month: int, day: int, weekday: int) -> str:
        letter, length = text[0], len(text)
        if letter == "m":
            name = self._months[month - 1]
            return (str(month), f"{month:02d}", name[:3], name, name[0])[min(length, 5) - 1]
        if letter == "d":
            name = self._days[weekday]
            return (str(day), f"{day:02d}", name[:3], name)[min(length, 4) - 1]
        if letter == "g":
            return ""
        shown = year + 543 if letter == "b" else year
        return f"{shown % 100:02d}" if letter in "yb" and length < 3 else str(shown)  # noqa: PLR2004 - `yy`


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
