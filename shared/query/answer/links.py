"""Links in answers: an answer rendered as Markdown must not load resources or contain links that a document chose."""

from __future__ import annotations

import re

_LONGEST_HELD = 2_000  # maximum length of a link; parts of a longer one are separated
# Between round brackets, with a character of addresses: a call in code such as `f[i](x)` is not a link. All repetitions
# are possessive, and none passes an opening bracket twice, so the time grows with the length of the text only.
_TARGET = (
    r"\((?=[^():/.#@?<]*+[:/.#@?<])"
    r"\s*+(?:<[^<>\n]*+>|[^\s()<>]*+(?>(?:\([^\s()]*+\)[^\s()]*+)*))"
    r"(?>(?:\s++(?:\"[^\"]*+\"|'[^']*+'|\([^()]*+\)))?)\s*+\)"
)
_IMAGE = re.compile(rf"!\[(?>(?:[^\[\]]++|\[[^\[\]]*+\])*)\](?>(?:{_TARGET}|\[[^\[\]]*+\])?)")
_NUMBER = r"\s*+\d{1,3}\s*+"
_LINK = re.compile(rf"\[(?P<text>(?!{_NUMBER}\])[^\[\]]*+)\]{_TARGET}")
_CITED_LINK = re.compile(rf"(?P<cited>\[{_NUMBER}\]){_TARGET}")
# Attributes of any tag may load something, and removing a link or an image may complete a tag. Only a single name in
# angle brackets, such as `List<int>`, is unchanged.
_UNSAFE_TAG = re.compile(r"<(?=[!?]|/?[A-Za-z](?![\w-]*+>))")
_TAG = (
    r"</?(?:a|area|audio|base|body|button|embed|form|frame|iframe|image|img|input|link|meta|object|picture|script|source"
    r"|style|svg|track|video)\b[^<>]*+>?+"
)
_TAGS = re.compile(rf"(?>(?:{_TAG})+)|(?P<start></?+[A-Za-z]*+)(?>(?:{_TAG})+)", re.IGNORECASE)
_OPEN_TAG = re.compile(r"<(?:/?[A-Za-z][^<>]*|/)?$")
_APART = {"](": "] (", "]:": "] :", "![": "! ["}
_OPENS_TAG = re.compile(r"<[A-Za-z/!?]")


class LinkCleaner:
    """Removes images from a text that arrives in pieces, and replaces links by their text.

    Text that could become a link is changed, too: a definition such as `[1]: https://…`, which would turn each citation
    into a link, or a target that is longer than any link. An open bracket is held back until it closes.
    """

    def __init__(self) -> None:
        self._held = ""
        self._last = ""  # character that was shown

    def feed(self, piece: str) -> str:
        """Process a piece of text; return the text that can be shown now, including earlier text that was held back."""
        text = self._held + piece
        held = _held_from(text)
        if len(text) - held > _LONGEST_HELD:
            held = len(text)
        self._held = text[held:]
        return self._shown(text[:held])

    def end(self) -> str:
        """Return the text that is still held back."""
        rest, self._held = self._held, ""
        return self._shown(rest)

    def _shown(self, text: str) -> str:
        shown = without_links(text)
        meeting = self._last + shown[:1]
        if meeting in _APART or _OPENS_TAG.match(meeting):  # the text in between is not shown any more
            shown = " " + shown
        self._last = shown[-1:] or self._last
        return shown


def without_links(text: str) -> str:
    """Return the text without images, with links as their text."""
    text = _UNSAFE_TAG.sub("< ", _without_tags(text))
    text = _LINK.sub(lambda link: link["text"], _CITED_LINK.sub(lambda link: link["cited"], _IMAGE.sub("", text)))
    text = _UNSAFE_TAG.sub("< ", _without_tags(text))
    for together, apart in _APART.items():
        text = text.replace(together, apart)
    return text


def _without_tags(text: str) -> str:
    """Remove tags in one pass. The start of a name before a removed tag is separated from the text after it."""
    return _TAGS.sub(lambda found: f"{found['start']} " if found["start"] else "", text)


def _held_from(text: str) -> int:
    """Return the offset of the part that may still become a link, an image or a tag; the end if there is none."""
    start, depth, at = None, 0, 0
    while at < len(text):
        if text[at] == "[":
            if start is None:
                start = at - (text[at - 1 : at] == "!")
            depth += 1
        elif text[at] == "]" and depth:
            depth -= 1
            if depth == 0 and start is not None:
                at = _after_target(text, at + 1)
                if at == len(text):
                    return start
                if text[at] != "[":
                    start = None
                continue
        at += 1
    if start is not None:
        return start
    tag = _OPEN_TAG.search(text)
    return tag.start() if tag else len(text) - text.endswith("!")


def _after_target(text: str, at: int) -> int:
    """Return the offset after round brackets that open at an offset, if any; the end if they do not close."""
    if text[at : at + 1] != "(":
        return at
    depth = 0
    for index in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    return len(text)
