"""Words of other servers, for people: one short line without secrets, and without other people's texts.

A sentence about a provider or an engine is shown to all tenants, so the words in it contain no key, and no text of a
request.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

MOST_CHARS = 200
_READ_CHARS = 2_000  # of an answer; the words of longer ones are at their start
_QUOTED_CHARS = 16  # from this length on, characters that the request contains are a quotation
_KEY_CHARS = 8  # from this length on, a part of a key is a secret
_END_CHARS = 4  # of a key, by which some servers name it
_HIDDEN = "***"
_IN_QUOTES = re.compile(
    r"([\"'`\u201c\u2018\u00ab])([^\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb]{3,})([\"'`\u201d\u2019\u00bb])"
)

# Control characters, and characters that change the order of others or have no width; halves of surrogate pairs.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ESCAPED_SPACE = re.compile(r"\\+[nrt]")
_MARKUP = re.compile(r"<(?:!doctype|html|head|body|title|h1|p|center)\b", re.IGNORECASE)
_TITLES = [re.compile(rf"<{tag}\b[^>]*>(.*?)</{tag}>", re.IGNORECASE | re.DOTALL) for tag in ("title", "h1")]
_UNREAD = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
_SENTENCE = re.compile(r".+?[.!?](?=\s|$)")

_ENDS_OF_KEY = re.compile(r"[^\s\"'`(),:;*]{0,80}\*{3}[^\s\"'`(),:;]*")  # around asterisks

# In this order, because a URL may contain an address, and a header a key. Searches are bounded, because a server sends
# the text.
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://)[^\s/@]{1,200}@", re.IGNORECASE), rf"\1{_HIDDEN}@"),
    (re.compile(r"\?[\w.%~-]{1,60}=[^\s\"'<>()]*"), f"?{_HIDDEN}"),
    (re.compile(r"[^\s\"`<>(),:;@/*]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"), _HIDDEN),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    (
        re.compile(
            r"\b((?:(?:api|secret|access)[-_ ]?)?(?:key|token|password|secret))(\s{0,3}[=:]\s{0,3})[^\s\"'`<>(),;]{4,}",
            re.IGNORECASE,
        ),
        rf"\1\2{_HIDDEN}",
    ),
    (re.compile(r"\b(?:sk|pk|rk|gsk|hf|xai|pplx|ghp|nvapi|r8|tgp|csk|fw)[-_][\w-]{3,}(?:(?:\.{2,}|…)\w*)?"), _HIDDEN),
    (re.compile(r"\b(?:AIza|AKIA|eyJ)[\w.-]{8,}"), _HIDDEN),
    (re.compile(r"\b(?:org|proj|acct)[-_]\w[\w-]*|\b(?:user|team)[-_](?=[\w-]*\d)[\w-]+"), _HIDDEN),
    (
        re.compile(
            r"\b(organi[sz]ation|project|account|workspace|subscription|tenant|customer|user)((?:\s(?:id|name))?[\s:=]{1,3})"
            r"(?:[\"'`][^\"'`]{1,200}[\"'`]|[A-Za-z.]{0,60}[\d_-][\w.-]*)",
            re.IGNORECASE,
        ),
        rf"\1\2{_HIDDEN}",
    ),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), _HIDDEN),
    (re.compile(r"\b(?=[A-Za-z]{0,60}\d)(?=\d{0,60}[A-Za-z])[A-Za-z0-9]{20,}\b"), _HIDDEN),
)


def words_for_people(text: str, secrets: Iterable[str] = (), sent: str = "", most_chars: int = MOST_CHARS) -> str:
    """Return the words of an answer as a person may read them.

    Args:
        text: the words, or a page of HTML.
        secrets: keys and passwords, of which neither the whole nor a part is shown.
        sent: texts of the request; quotations of them are replaced by `…`.
        most_chars: longest result.

    Returns:
        One line; empty if there is nothing to read.
    """
    words = _line(_of_page(text[:_READ_CHARS]) if is_page(text) else text[:_READ_CHARS])
    words = _without(_ENDS_OF_KEY.sub(_HIDDEN, words), secrets)
    for pattern, shown in _SECRETS:
        words = pattern.sub(shown, words)
    words = _without_quotations(words, _line(sent)) if sent else words
    return shortened(words, most_chars)


def shortened(words: str, most_chars: int = MOST_CHARS) -> str:
    """Return the start of words, with an ellipsis if there is more."""
    return words if len(words) <= most_chars else f"{words[: most_chars - 1].rstrip()}…"


def is_page(text: str) -> bool:
    """Return whether a text is a page of HTML."""
    return _MARKUP.search(text[:_READ_CHARS]) is not None


def _of_page(page: str) -> str:
    """Return the title of a page, or its first sentence."""
    for pattern in _TITLES:
        if (found := pattern.search(page)) and (title := html.unescape(_TAG.sub(" ", found[1])).strip()):
            return title
    text = " ".join(html.unescape(_TAG.sub(" ", _UNREAD.sub(" ", page))).split())
    sentence = _SENTENCE.match(text)
    return sentence[0] if sentence else text


def _line(text: str) -> str:
    """Return a text in one line: no control characters, and JSON's escapes as the characters that they mean."""
    if "\\" in text:
        text = _ESCAPED_SPACE.sub(" ", text).replace('\\"', '"')
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return " ".join(_INVISIBLE.sub(" ", text).split())


def _without(words: str, secrets: Iterable[str]) -> str:
    """Remove secrets, long parts of them, and their ends where these are a word."""
    for secret in secrets:
        for start in range(len(secret) - _KEY_CHARS + 1):
            part = secret[start : start + _KEY_CHARS]
            while (found := words.find(part)) >= 0:
                end = _common(words[found:], secret[start:])
                words = f"{words[:found]}{_HIDDEN}{words[found + end :]}"
        if len(secret) > _END_CHARS:
            words = re.sub(rf"(?<!\w){re.escape(secret[-_END_CHARS:])}(?!\w)", _HIDDEN, words)
    return words


def _common(first: str, second: str) -> int:
    """Return the length of the common start of two texts."""
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length


def _without_quotations(words: str, sent: str) -> str:
    """Replace each run of characters that the request contains, too, and each shorter one between quotation marks.

    Letters count as equal in either case.
    """
    texts = _folded(sent)

    def quoted(found: re.Match[str]) -> str:
        return f"{found[1]}…{found[3]}" if _folded(found[2]) in texts else found[0]

    words = _IN_QUOTES.sub(quoted, words)
    folded, shown, position, start = _folded(words), list[str](), 0, 0
    while start <= len(words) - _QUOTED_CHARS:
        end = start + _QUOTED_CHARS
        if folded[start:end] not in texts:
            start += 1
            continue
        while end < len(words) and folded[end - _QUOTED_CHARS + 1 : end + 1] in texts:
            end += 1
        before, after = (" " if words[index] == " " else "" for index in (start, end - 1))
        shown += [words[position:start], before, "…", after]
        start = position = end
    return "".join([*shown, words[position:]])


def _folded(text: str) -> str:
    """Return a text of the same length in small letters; a letter whose small form is longer stays."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(s if len(s := c.lower()) == 1 else c for c in text)
