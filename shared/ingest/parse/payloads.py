"""Data in a text that is not for reading: data URIs, base64 and comments. It would be divided, embedded and paid for.

Every repetition is possessive or bounded, so that hostile text is read in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LEAST_CHARS = 256
"""A shorter run of letters and digits is a key or a checksum, which people search for."""

_LINES = 8  # a block of base64 has at least so many lines

_URI = r"data:[\w.+/-]{0,160}(?:;[\w=.+-]{1,80}){0,5},"
_TARGET = rf"\(\s{{0,9}}<?{_URI}[^\s()]*+(?:\([^\s()]*+\)[^\s()]*+)*[^()\n]{{0,400}}\)"
_PICTURE_OR_LINK = re.compile(rf"!?\[([^\[\]\n]*+)\]{_TARGET}", re.IGNORECASE)
_DEFINITION = re.compile(
    rf"^ {{0,3}}\[[^\[\]\n]{{1,300}}\]:[ \t]{{0,9}}<?{_URI}[^\n]*+\n?", re.IGNORECASE | re.MULTILINE
)
_TAG = re.compile(r"<(?:img|image|source|input|embed)\b[^<>]*+>", re.IGNORECASE)
_ALT = re.compile(r"\balt\s{0,9}=\s{0,9}(?:\"([^\"<>]*+)\"|'([^'<>]*+)')", re.IGNORECASE)
_BASE64_URI = re.compile(r"data:[\w.+/-]{0,160}(?:;[\w=.+-]{1,80}){0,5}?;base64,[A-Za-z0-9+/=_%-]*+", re.IGNORECASE)
_RUN = re.compile(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{{{LEAST_CHARS},}}+={{0,2}}")
_LINE = r"[ \t>]{0,20}[A-Za-z0-9+/]"
_WRAPPED = re.compile(
    rf"^{_LINE}{{60,100}}+(?:\n{_LINE}{{60,100}}+){{{_LINES - 1},}}(?:\n{_LINE}{{1,100}}+={{0,2}}$)?", re.MULTILINE
)
_MARKUP = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)|(`++)|<!--", re.MULTILINE)


def without_data(text: str) -> str:
    """Return a text without data URIs and base64. The text of a picture or link to a data URI is kept."""
    if "data:" in text or "DATA:" in text:
        text = _PICTURE_OR_LINK.sub(r"\1", text)
        text = _DEFINITION.sub("", text)
        text = _TAG.sub(_picture, text)
        text = _BASE64_URI.sub("", text)
    return _WRAPPED.sub(_kept, _RUN.sub(_kept, text))


def without_comments(markdown: str) -> str:
    """Return Markdown without the comments of HTML outside its code."""
    if "<!--" not in markdown:
        return markdown
    kept, at = list[str](), 0
    for start, end in _comments(markdown):
        kept.append(markdown[at:start])
        at = end
    return "".join((*kept, markdown[at:]))


def _picture(tag: re.Match[str]) -> str:
    if "data:" not in tag[0].lower():
        return tag[0]
    alt = _ALT.search(tag[0])
    return (alt[1] or alt[2] or "") if alt else ""


def _kept(run: re.Match[str]) -> str:
    """Return a long run of letters and digits, or nothing if it is data: base64 or hexadecimal digits."""
    text = run[0]
    upper, lower, digits = (sum(map(test, text)) / len(text) for test in (str.isupper, str.islower, str.isdecimal))
    is_base64 = min(upper, lower) > 0.1 and digits > 0.02  # noqa: PLR2004 - of random data a third, a third, a sixth
    is_hexadecimal = digits > 0.3 and upper + lower > 0.2  # noqa: PLR2004 - of random data ten and six sixteenths
    return "" if is_base64 or is_hexadecimal else text


def _comments(markdown: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of comments. A comment without an end is text."""
    at = 0
    while found := _MARKUP.search(markdown, at):
        at = found.end()
        if fence := found[1]:
            closing = re.compile(rf"^ {{0,3}}{fence[0]}{{{len(fence)},}}+[ \t]*+$", re.MULTILINE).search(markdown, at)
            at = closing.end() if closing else len(markdown)
        elif ticks := found[2]:
            paragraph_end = markdown.find("\n\n", at)
            end = markdown.find(ticks, at, paragraph_end if paragraph_end >= 0 else len(markdown))
            at = end + len(ticks) if end >= 0 else at
        else:
            end = markdown.find("-->", at)
            if end < 0:
                return
            yield found.start(), end + 3
            at = end + 3
