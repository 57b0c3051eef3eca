"""A message as Markdown: subject, people, text, forwarded messages and attachments. Mail and Outlook share it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from shared.ingest.parse.readers.attachments import AttachedFile, Attachments, below
from shared.ingest.parse.readers.guard import words
from shared.ingest.parse.readers.reading import Part

MOST_PEOPLE = 30
"""Further recipients are only counted."""

MOST_LOST = 0.01
"""A form of a message has the words of another one if it lacks at most this share of them."""

MOST_FORMS = 8
"""More forms than any program sends are not alternatives, and are all read."""

OTHER_TEXT = 0.5
"""A form of which the chosen one lacks more is another text."""

_MARKUP = re.compile(r"^([ \t]*)(#{1,6}(?=[ \t]|$)|\||```|~~~)")
_RULE = re.compile(r"^\s*(?:-{2,}|={2,})\s*$")
_QUOTE = re.compile(r"^ ?>")
_LINK = re.compile(r"<?(?:https?|mailto|cid):[^\s<>]+>?|\[[a-zA-Z]+:[^\]\s]*\]")
_ARMOR = re.compile(r"^-----BEGIN PGP (SIGNED MESSAGE|MESSAGE|SIGNATURE|PUBLIC KEY BLOCK)-----[ \t]*$", re.MULTILINE)
_ARMOR_HEADER = re.compile(r"(?:[ \t]*\n)?(?:(?:Hash|Charset|Version|Comment|NotDashEscaped):[^\n]*\n)*[ \t]*\n?")

ENCRYPTED = "the text of the message is encrypted ({}); add a decrypted copy"


@dataclass(slots=True)
class Body:
    """A text of a message in Markdown, and a second reading of it."""

    markdown: str
    plain: str


@dataclass(slots=True)
class Letter:
    """A message.

    Args:
        facts: label and value of sender, recipients and date.
        forwarded: messages that are parts of this one.
    """

    subject: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    files: list[AttachedFile] = field(default_factory=list)
    forwarded: list[Letter] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def rendered(
    letter: Letter, attachments: Attachments, *, level: int = 1, location: str = ""
) -> tuple[list[Part], list[str]]:
    """Return the parts of a message: its own text, forwarded messages, attachments; and sentences on losses."""
    own = _own(letter, level, location)
    parts, unread = [own], list(letter.unread)
    for forwarded in letter.forwarded:
        named = f"{location}, forwarded message".removeprefix(", ")
        more, problems = rendered(forwarded, attachments, level=level + 1, location=named)
        more[0] = _labelled(more[0])
        parts += more
        unread += problems
    more, problems = attachments.read(letter.files, level + 1)
    return parts + more, unread + problems


def _own(letter: Letter, level: int, location: str) -> Part:
    facts = " \u00b7 ".join(f"{label}: {value}" for label, value in letter.facts if value)
    heading = f"{'#' * min(level, 6)} {letter.subject}" if letter.subject else ""
    texts = [body.markdown.strip("\n") for body in letter.bodies if body.markdown.strip()]
    text = below("\n\n".join(texts), level if letter.subject else 0)
    markdown = "\n\n".join(piece for piece in (heading, facts, text) if piece)
    plain = "\n".join((letter.subject, facts, *(body.plain for body in letter.bodies)))
    return Part(markdown, plain, location)


def _labelled(part: Part) -> Part:
    first, _, rest = part.markdown.partition("\n\n") if part.markdown.startswith("#") else ("", "", part.markdown)
    text = "\n\n".join(piece for piece in (first, "Forwarded message", rest) if piece)
    return Part(text, part.plain, part.location)


def people(value: str) -> str:
    """Return the recipients of a header; of a long list the first ones and the number of the others."""
    names = value.split(",")
    if len(names) <= MOST_PEOPLE:
        return value
    return f"{','.join(names[:MOST_PEOPLE])} and {len(names) - MOST_PEOPLE:,} more"


def html_body(html: str, attachments: Attachments) -> Body:
    """Return a body in HTML."""
    return Body(attachments.markdown_of(html), attachments.plain_of(html))


def text_body(text: str, unread: list[str], *, flowed: bool = False, delsp: bool = False) -> Body:
    """Return a body in plain text. An encrypted part of it is named in `unread`."""
    text = _without_armor(text, unread)
    if flowed:
        text = _reflowed(text, delsp=delsp)
    return Body(_as_markdown(text), text)


def best(forms: list[list[Body]]) -> list[Body]:
    """Return the form of a message that lacks the fewest words of the others; of equal ones the last, the richest.

    Some programs send another text in each form, such as a newsletter with a sentence about its HTML: a form that the
    chosen one hardly contains is returned, too.
    """
    filled = [form for form in forms if any(body.plain.strip() for body in form)]
    if len(filled) < 2:  # noqa: PLR2004 - nothing to choose
        return filled[0] if filled else []
    if len(filled) > MOST_FORMS:
        return [body for form in filled for body in form]
    arrived = [Counter(words("\n".join(body.markdown for body in form))) for form in filled]
    stated = [Counter(words(_LINK.sub(" ", "\n".join(body.plain for body in form)))) for form in filled]
    lost = [[(count - mine).total() for count in stated] for mine in arrived]
    chosen = min(reversed(range(len(filled))), key=lambda index: _lost_words(lost[index], stated))
    apart = [
        form
        for index, form in enumerate(filled)
        if index != chosen and lost[chosen][index] > stated[index].total() * OTHER_TEXT
    ]
    return filled[chosen] + [body for form in apart for body in form]


def _lost_words(lost: list[int], stated: list[Counter[str]]) -> int:
    """Return the number of words that a form lacks; a few are differences between two readings."""
    return sum(words if words > count.total() * MOST_LOST else 0 for words, count in zip(lost, stated, strict=True))


def _without_armor(text: str, unread: list[str]) -> str:
    if "-----BEGIN PGP " not in text:
        return text
    kept, at = list[str](), 0
    for begin in _ARMOR.finditer(text):
        if begin.start() < at:
            continue
        kept.append(text[at : begin.start()])
        if begin[1] == "SIGNED MESSAGE":
            after = _ARMOR_HEADER.match(text, begin.end() + 1)
            at = after.end() if after else begin.end()
            continue
        end = text.find(f"-----END PGP {begin[1]}-----", begin.end())
        at = end + len(f"-----END PGP {begin[1]}-----") if end >= 0 else len(text)
        if begin[1] == "MESSAGE":
            unread.append(ENCRYPTED.format("PGP"))
    kept.append(text[at:])
    return re.sub(r"^- (?=-)", "", "".join(kept), flags=re.MULTILINE)


def _reflowed(text: str, *, delsp: bool) -> str:
    """Return text of `format=flowed` (RFC 3676) with one line for each paragraph."""
    out, open_depth = list[list[str]](), -1
    depths = list[int]()
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        content = line[depth:]
        content = content.removeprefix(" ")
        if open_depth == depth and content != "-- ":
            out[-1].append(content)
        else:
            out.append([content])
            depths.append(depth)
        flows = content.endswith(" ") and content != "-- "
        if flows and delsp:
            out[-1][-1] = content[:-1]
        open_depth = depth if flows else -1
    return "\n".join(
        f"{'>' * depth} {''.join(line)}".rstrip() if depth else "".join(line).rstrip()
        for depth, line in zip(depths, out, strict=True)
    )


def _as_markdown(text: str) -> str:
    """Return plain text as Markdown: its lines are kept, its quotations are quotations, nothing else is markup."""
    out, quoted = list[str](), False
    for line in text.split("\n"):
        line = line.rstrip()  # noqa: PLW2901
        is_quote = _QUOTE.match(line) is not None
        if out and out[-1] and ((quoted and not is_quote and line) or _RULE.match(line)):
            out.append("")
        out.append(line.lstrip() if is_quote else _MARKUP.sub(r"\1\\\2", line))
        quoted = is_quote
    return "\n".join(out).strip("\n")
