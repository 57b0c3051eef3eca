"""Inline markup of HTML: the pieces of a line become Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# Marks in the pieces of a line; libxml2 returns no text that has them.
BREAK = "\0"
STRONG, CODE, DELETED, RAISED = ("\1", "\2"), ("\3", "\4"), ("\5", "\6"), ("\16", "\17")

_MARK = re.compile("[\1-\6\16\17]")
_SPAN = re.compile("\1([^\1-\6\16\17]*)\2|\3([^\1-\6\16\17]*)\4|\5([^\1-\6\16\17]*)\6|\16([^\1-\6\16\17]*)\17")
_AROUND = {"\1": "**", "\3": "`", "\5": "~~"}
_NESTED = 4
_RAISED = str.maketrans("0123456789+-", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b")
_RAISED_TEXT = re.compile(r"[+-]?\d{1,4}")
_INVISIBLE = re.compile("[\u00ad\u034f\ufeff]|(?<!\\S)[\u200b-\u200f\u2060-\u2064]+(?!\\S)")
_PERMALINK = " \u00b6\u00a7#\U0001f517"


def paragraphs(pieces: Sequence[str]) -> list[str]:
    """Return the paragraphs of a line: its parts between empty lines, which are two breaks."""
    text = pieces[0] if len(pieces) == 1 else "".join(pieces)
    if not (text.isascii() and text.isprintable()):
        text = _cleaned(text)
    if BREAK in text:
        return list(_divided(text))
    line = " ".join(text.split())
    return [line] if line else []


def _cleaned(text: str) -> str:
    if _MARK.search(text):
        text = _formatted(text)
    return text if text.isascii() else _INVISIBLE.sub("", text.replace("\u00a0", " "))


def _divided(text: str) -> Iterator[str]:
    lines = list[str]()
    for part in text.split(BREAK):
        if line := " ".join(part.split()):
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def title(text: str) -> str:
    """Return the text of a heading on one line, without marks of emphasis and the sign that links to it."""
    text = " ".join(text.replace("**", "").split())
    return text.rstrip(_PERMALINK) or text


def _formatted(text: str) -> str:
    text = text.replace("\2\1", "").replace("\4\3", "")
    for _ in range(_NESTED):
        text, count = _SPAN.subn(_span, text)
        if not count:
            break
    return _MARK.sub("", text)


def _span(found: re.Match[str]) -> str:
    mark, text = found[0][0], found[0][1:-1]
    core = text.strip()
    start, end = found.span()
    before = found.string[start - 1 : start] if text[:1].strip() else ""
    after = found.string[end : end + 1] if text[-1:].strip() else ""
    if mark == "\16":
        return core.translate(_RAISED) if before.strip() and _RAISED_TEXT.fullmatch(core) else text
    around = _AROUND[mark]
    if not core or BREAK in core or around[0] in core or before.isalnum() or after.isalnum():
        return text
    at = text.index(core)
    return f"{text[:at]}{around}{core}{around}{text[at + len(core) :]}"
