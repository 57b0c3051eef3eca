"""Reader of e-mail (RFC 5322, MIME of RFC 2045 to 2049), mailboxes (RFC 4155), and saved pages (`.mht`, RFC 2557).

The headers that people see are one line; transport headers are left out. Of alternative forms one is read. A document
is `degraded` if something that a person would open was not read: an attached picture or archive, a protected file, an
encrypted text, a part beyond a limit. Pictures that the text shows (logos, photos in HTML), empty files and signatures
need no sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from shared.ingest.parse.readers.attachments import AttachedFile, Attachments, summed
from shared.ingest.parse.readers.charsets import decode_text
from shared.ingest.parse.readers.mail import contentlines, letter, mime
from shared.ingest.parse.readers.mail.letter import Body, Letter
from shared.ingest.parse.readers.mail.mime import MimePart
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.text import unicode_codec

MAX_FORWARDS = 10
"""A forwarded message in as many forwarded messages is not read."""

MAX_SUBJECT = 1_000
"""Characters of a subject; RFC 5322 allows 998 in a line."""

MAX_UUENCODED = 100
"""A text contains at most as many uuencoded files; more remain text."""

_FROM_LINE = re.compile(rb"^From [^\r\n]{0,200}\d\d:\d\d[^\r\n]{0,80}\r?\n(?=[!-9;-~]{1,80}:|>From )", re.MULTILINE)
_BLANK_LINES = (b"\n\n", b"\r\n\r\n")
_STUFFED = re.compile(rb"^>(>*From )", re.MULTILINE)
_UNSHOWN = frozenset(
    (
        "text/css",
        "text/javascript",
        "application/javascript",
        "text/x-amp-html",
        "text/watch-html",
        "application/x-javascript",
    )
)
_SIGNATURES = frozenset(
    (
        "application/pgp-signature",
        "application/pkcs7-signature",
        "application/x-pkcs7-signature",
        "application/pgp-keys",
    )
)
_SMIME = frozenset(("application/pkcs7-mime", "application/x-pkcs7-mime"))
_REPORTS = frozenset(("message/delivery-status", "message/disposition-notification", "message/feedback-report"))
_MESSAGES = frozenset(("message/rfc822", "message/global", "message/news"))
_TOO_DEEP = "a part of the message was not read: it is nested too deep, or the message has too many parts"
_TAG = re.compile(r"<[^<>\n]{0,200}>")


def read(content: bytes, attachments: Attachments) -> FileReading:
    """Return the messages of a file: one, or all messages of a mailbox, each a numbered part."""
    data, recoded = _plain_bytes(content)
    messages = list(_messages(data))
    if len(messages) == 1:
        root = _letter(messages[0], attachments, recoded=recoded)
        parts, unread = letter.rendered(root, attachments)
        return FileReading(tuple(parts), root.subject or None, summed(unread))
    parts, unread = list[Part](), list[str]()
    for number, message in enumerate(messages, 1):
        more, problems = letter.rendered(
            _letter(message, attachments, recoded=recoded), attachments, location=f"message {number}"
        )
        parts += [replace(more[0], number=number), *more[1:]]
        unread += [f"message {number}: {problem}" for problem in problems]
    return FileReading(tuple(parts), None, summed(unread), apart=True)


def _plain_bytes(content: bytes) -> tuple[bytes, bool]:
    """Return a file in an encoding that contains ASCII, and whether it was in UTF-16 or UTF-32."""
    codec = unicode_codec(content) if b"\0" in content[:8] or content[:2] in (b"\xff\xfe", b"\xfe\xff") else None
    if codec and codec != "utf-8":
        return content.decode(codec, "replace").removeprefix("\ufeff").lstrip().encode("utf-8", "replace"), True
    return content.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n\t \0"), False


def _messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a mailbox. A line `From ` starts one if a header follows; other files have one message."""
    if b"\n" not in data[:2_000_000] and b"\r" in data[:2_000_000]:
        data = data.replace(b"\r", b"\n")
    if not data.startswith(b"From "):
        yield data
        return
    found = [line.span() for line in _FROM_LINE.finditer(data)]
    starts = [(at, end) for at, end in found if data[max(0, at - 4) : at].endswith(_BLANK_LINES) or not at]
    if not starts:
        yield data.partition(b"\n")[2]
        return
    for (_, begin), (end, _) in zip(starts, (*starts[1:], (len(data), 0)), strict=True):
        message = data[begin:end]
        yield _STUFFED.sub(rb"\1", message) if len(starts) > 1 else message


def _letter(message: bytes, attachments: Attachments, *, recoded: bool, depth: int = 0) -> Letter:
    root, complete = mime.parse(message, recoded=recoded)
    collected = _Collected(attachments, recoded, depth)
    collected.take(root, root=True)
    found = collected.letter
    found.subject = root.header("subject")[:MAX_SUBJECT]
    if not _is_saved_page(root):
        found.facts = [
            ("From", root.header("from") or root.header("sender")),
            ("To", letter.people(root.header("to"))),
            ("Cc", letter.people(root.header("cc"))),
            ("Date", root.header("date")),
        ]
    if not complete:
        found.unread.append(_TOO_DEEP)
    return found


def _is_saved_page(root: MimePart) -> bool:
    if root.header("to") or root.header("received"):
        return False
    sender = root.header("from").lower()
    return (
        "saved by" in sender
        or "snapshot-content-location" in root.headers
        or (not sender and root.kind == "multipart/related")
    )


@dataclass(slots=True)
class _Collected:
    """The texts and files of one message; `depth` is the number of messages around it."""

    attachments: Attachments
    recoded: bool
    depth: int
    letter: Letter = field(default_factory=Letter)

    def take(self, part: MimePart, *, root: bool = False, related: bool = False) -> None:
        """Add a part with all of its parts. Nesting is limited by `mime.MAX_DEPTH`."""
        kind = part.kind
        if kind.startswith("multipart/"):
            self._take_parts(part)
        elif kind in _MESSAGES:
            self._take_message(part)
        elif kind in _REPORTS or kind == "text/rfc822-headers":
            self._take_report(part)
        elif kind in _SMIME:
            self._take_signed(part)
        elif kind in ("message/external-body", "message/partial") and not root:
            self.letter.unread.append("a part of the message was not read: it is stored elsewhere")
        elif kind in _SIGNATURES or kind in _UNSHOWN or part.filename.lower() in ("smime.p7s", "signature.asc"):
            return
        elif kind in ("text/calendar", "text/x-vcalendar"):
            self._add(contentlines.body(part.text))
        elif _is_body(part, root=root):
            self._add(self._body(part))
        else:
            self._take_file(part, related=related)

    def _take_parts(self, part: MimePart) -> None:
        kind = part.kind
        if kind == "multipart/encrypted":
            self.letter.unread.append(letter.ENCRYPTED.format("PGP"))
        elif kind == "multipart/alternative":
            self._take_best(part)
        elif kind == "multipart/related":
            for child in part.parts:
                self.take(child, related=True)
        else:
            for child in part.parts:
                self.take(child)

    def _take_best(self, part: MimePart) -> None:
        forms, extra = list[list[Body]](), list[Body]()
        for child in part.parts:
            inner = _Collected(self.attachments, self.recoded, self.depth)
            inner.take(child)
            if child.kind in ("text/calendar", "text/x-vcalendar"):
                extra += inner.letter.bodies
            else:
                forms.append(inner.letter.bodies)
            known = {file.content for file in self.letter.files}
            self.letter.files += [file for file in inner.letter.files if file.content not in known]
            self.letter.forwarded += inner.letter.forwarded
            self.letter.unread += inner.letter.unread
        self.letter.bodies += letter.best(forms) + extra

    def _take_message(self, part: MimePart) -> None:
        if self.depth >= MAX_FORWARDS:
            self.letter.unread.append(_TOO_DEEP)
            return
        inside = part.content.lstrip(b"\r\n")
        self.letter.forwarded.append(_letter(inside, self.attachments, recoded=self.recoded, depth=self.depth + 1))

    def _take_report(self, part: MimePart) -> None:
        text = part.text
        if part.kind == "text/rfc822-headers":
            headers, _ = mime.parse(part.content, recoded=self.recoded)
            named = ((label, headers.header(label.lower())) for label in ("Subject", "From", "To", "Date"))
            text = "\n".join(f"{label}: {value}" for label, value in named if value)
        self._add(letter.text_body(text.strip("\n"), self.letter.unread))

    def _take_signed(self, part: MimePart) -> None:
        inside = mime.signed_content(part.content) if "enveloped" not in part.parameters.get("smime-type", "") else None
        if inside is None:
            self.letter.unread.append(letter.ENCRYPTED.format("S/MIME"))
            return
        root, complete = mime.parse(inside.lstrip(b"\r\n"))
        self.take(root, root=True)
        if not complete:
            self.letter.unread.append(_TOO_DEEP)

    def _take_file(self, part: MimePart, *, related: bool) -> None:
        content = part.content
        if not content.strip():
            return
        shown = related or "content-id" in part.headers or part.disposition == "inline"
        picture = part.kind.startswith("image/")
        kind = None if part.kind in ("application/octet-stream", "text/plain") else part.kind
        charset = part.charset
        stated = f"{kind}; charset={charset}" if kind and charset and kind.startswith("text/") else kind
        if part.kind.startswith("text/"):
            content = part.text.encode()
        self.letter.files.append(
            AttachedFile(
                part.filename, content, stated, decoration=(picture and shown) or (related and not part.filename)
            )
        )

    def _body(self, part: MimePart) -> Body:
        if part.kind in ("text/html", "application/xhtml+xml"):
            return letter.html_body(part.text, self.attachments)
        text = part.text
        if part.kind in ("text/enriched", "text/richtext"):
            text = _TAG.sub("", text.replace("<<", "<"))
        elif "begin" in text:
            text = self._without_uuencoded(part, text)
        flowed = part.parameters.get("format", "").lower() == "flowed"
        delsp = part.parameters.get("delsp", "").lower() == "yes"
        return letter.text_body(text, self.letter.unread, flowed=flowed, delsp=delsp)

    def _without_uuencoded(self, part: MimePart, text: str) -> str:
        data, kept, at = part.content, list[bytes](), 0
        while len(kept) < MAX_UUENCODED and (file := mime.uuencoded(data, at)):
            start, name, content, end = file
            kept.append(data[at:start])
            self.letter.files.append(AttachedFile(name, content))
            at = end
        return decode_text(b"".join((*kept, data[at:])), part.charset) if kept else text

    def _add(self, body: Body) -> None:
        if body.plain.strip() or body.markdown.strip():
            self.letter.bodies.append(body)


def _is_body(part: MimePart, *, root: bool) -> bool:
    if not part.kind.startswith("text/") and part.kind != "application/xhtml+xml":
        return False
    if root:
        return part.kind != "text/vcard"
    return (
        part.disposition != "attachment"
        and not part.filename
        and part.kind not in ("text/vcard", "text/x-vcard", "text/rtf")
    )
