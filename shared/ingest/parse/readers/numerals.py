"""Numbers of lists as they are shown."""

from __future__ import annotations

from collections.abc import Callable

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"),
    (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_LARGEST_ROMAN = 5_000
_MOST_LETTERS = 12
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_RUSSIAN = "абвгдежзиклмнопрстуфхцчшщыэюя"
_GREEK = "αβγδεζηθικλμνξοπρστυφχψω"
_HEBREW = "אבגדהוזחטיכלמנסעפצקרשת"
_ARABIC = "أبتثجحخدذرزسشصضطظعغفقكلمنهوي"
_KANA = "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
_IROHA = "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセスン"
_HANGUL = "가나다라마바사아자차카타파하"
_STEMS = "甲乙丙丁戊己庚辛壬癸"
_BRANCHES = "子丑寅卯辰巳午未申酉戌亥"
_HAN = "〇一二三四五六七八九"
_UNITS = ("", "十", "百", "千")
_TENS = 10
_MOST_HAN = 10_000
_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS_WORDS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINAL_WORDS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
}
_MOST_WORDS = 100


def numeral(number: int, form: str) -> str:
    """Return a number in a format of Word, such as `lowerRoman`, or of OpenDocument and HTML, such as `i`.

    A number without such a form, and one of an unknown format, is returned in digits.
    """
    build = _FORMS.get(form)
    return (build(number) if build and number > 0 else "") or str(number)


def _roman(number: int) -> str:
    if number >= _LARGEST_ROMAN:
        return ""
    parts = []
    for size, text in _ROMAN:
        count, number = divmod(number, size)
        parts.append(text * count)
    return "".join(parts)


def _repeated(letters: str) -> Callable[[int], str]:
    """Return letters that repeat as in Word: z, aa, bb."""

    def build(number: int) -> str:
        times, at = divmod(number - 1, len(letters))
        return letters[at] * (times + 1) if times < _MOST_LETTERS else ""

    return build


def _upper(build: Callable[[int], str]) -> Callable[[int], str]:
    return lambda number: build(number).upper()


def _enclosed(first: str, most: int) -> Callable[[int], str]:
    return lambda number: chr(ord(first) + number - 1) if number <= most else ""


def _digits(characters: str) -> Callable[[int], str]:
    return lambda number: "".join(characters[int(digit)] for digit in str(number))


def _han(number: int) -> str:
    """Return a number as 十一 or 二十三."""
    if number >= _MOST_HAN:
        return _digits(_HAN)(number)
    text, gap = "", False
    digits = str(number)
    for place, digit in zip(range(len(digits) - 1, -1, -1), digits, strict=True):
        if digit == "0":
            gap = bool(text)
            continue
        text += (_HAN[0] if gap else "") + _HAN[int(digit)] + _UNITS[place]
        gap = False
    return text.removeprefix("一") if text.startswith("一十") else text


def _ordinal(number: int) -> str:
    last = number % _TENS if number % 100 // _TENS != 1 else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def _cardinal_words(number: int) -> str:
    if number >= _MOST_WORDS:
        return ""
    if number < len(_WORDS):
        return _WORDS[number].capitalize()
    tens, ones = divmod(number, _TENS)
    return (_TENS_WORDS[tens] + (f"-{_WORDS[ones]}" if ones else "")).capitalize()


def _ordinal_words(number: int) -> str:
    head, dash, last = _cardinal_words(number).lower().rpartition("-")
    if not last:
        return ""
    if last in _ORDINAL_WORDS:
        last = _ORDINAL_WORDS[last]
    elif last.endswith("y"):
        last = last[:-1] + "ieth"
    else:
        last = ("twelf" if last == "twelve" else last) + "th"
    return (head + dash + last).capitalize()


_FORMS: dict[str, Callable[[int], str]] = {
    "i": _roman,
    "I": _upper(_roman),
    "a": _repeated(_LATIN),
    "A": _upper(_repeated(_LATIN)),
    "lowerRoman": _roman,
    "upperRoman": _upper(_roman),
    "lowerLetter": _repeated(_LATIN),
    "upperLetter": _upper(_repeated(_LATIN)),
    "russianLower": _repeated(_RUSSIAN),
    "russianUpper": _upper(_repeated(_RUSSIAN)),
    "lowerGreek": _repeated(_GREEK),
    "upperGreek": _upper(_repeated(_GREEK)),
    "hebrew2": _repeated(_HEBREW),
    "arabicAlpha": _repeated(_ARABIC),
    "aiueo": _repeated(_KANA),
    "aiueoFullWidth": _repeated(_KANA),
    "iroha": _repeated(_IROHA),
    "irohaFullWidth": _repeated(_IROHA),
    "ganada": _repeated(_HANGUL),
    "ideographTraditional": _repeated(_STEMS),
    "ideographZodiac": _repeated(_BRANCHES),
    "decimalZero": lambda number: f"{number:02}",
    "decimalFullWidth": _digits("0123456789"),
    "decimalFullWidth2": _digits("0123456789"),
    "decimalEnclosedCircle": _enclosed("①", 20),
    "decimalEnclosedCircleChinese": _enclosed("①", 20),
    "decimalEnclosedParen": _enclosed("⑴", 20),
    "decimalEnclosedFullstop": _enclosed("⒈", 20),
    "ideographDigital": _digits(_HAN),
    "japaneseDigitalTenThousand": _digits(_HAN),
    "koreanDigital2": _digits(_HAN),
    "taiwaneseDigital": _digits(_HAN),
    "chineseCounting": _han,
    "chineseCountingThousand": _han,
    "japaneseCounting": _han,
    "taiwaneseCounting": _han,
    "taiwaneseCountingThousand": _han,
    "hindiNumbers": _digits("०१२३४५६७८९"),
    "arabicAbjad": _repeated(_ARABIC),
    "thaiNumbers": _digits("๐๑๒๓๔๕๖๗๘๙"),
    "numberInDash": lambda number: f"- {number} -",
    "hex": lambda number: f"{number:X}",
    "ordinal": _ordinal,
    "cardinalText": _cardinal_words,
    "ordinalText": _ordinal_words,
    "none": lambda _: "\u200b",
}
