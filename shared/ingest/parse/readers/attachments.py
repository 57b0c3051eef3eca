"""Files in a file: each is read by the reader of its kind, within limits that the outermost file shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.reading import FileReading, Part

MAX_DEPTH = 3
"""An attachment of an attachment of an attachment is read, not the next one."""

MAX_FILES = 1_000
MAX_BYTES = 256 * 1024 * 1024
MAX_CHARS = 20_000_000
"""Limits on all attachments of a file together."""

MAX_SENTENCES = 20
"""Further contents that were not read are only counted."""

_HEADING = re.compile(r"^ {0,3}(#{1,6})(?=[ \t])")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_DEEPEST = 6  # level of a heading

Opener = Callable[[bytes, str | None, str | None, "Attachments"], FileReading]
"""Reads a file by content, name and media type; the last argument is for the files in it.

It raises `Unreadable` with a sentence.
"""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file in a message or in a document.

    Args:
        name: its name; may be empty.
        decoration: whether the text shows it at a position of its own, as a logo in a signature; then it needs no
            sentence.
    """

    name: str
    content: bytes
    media_type: str | None = None
    decoration: bool = False


@dataclass(slots=True)
class _Spent:
    files: int = 0
    bytes: int = 0
    chars: int = 0


@dataclass(frozen=True, slots=True)
class Attachments:
    """The access of a reader to the readers of the files in its file.

    Args:
        open_file: reads a file of any kind.
        markdown_of: returns the Markdown of a page of HTML.
        plain_of: returns the words of a page of HTML, by another path.
        depth: number of files around this one.
    """

    open_file: Opener
    markdown_of: Callable[[str], str]
    plain_of: Callable[[str], str]
    depth: int = 0
    _spent: _Spent = field(default_factory=_Spent)

    def inside(self) -> Attachments:
        """Return the access for a file in this file. Both share the limits."""
        return Attachments(self.open_file, self.markdown_of, self.plain_of, self.depth + 1, self._spent)

    def read(
        self, files: Iterable[AttachedFile], level: int, label: str = "attachment"
    ) -> tuple[list[Part], list[str]]:
        """Return the texts of files, each under a heading of this level with its name, and why others were not read.

        Args:
            files: the files.
            level: level of their headings.
            label: word for such a file.
        """
        parts, unread = list[Part](), list[str]()
        for number, file in enumerate(files, 1):
            name = file.name or f"{label} {number}"
            reason = self._refusal(file)
            if not reason:
                try:
                    reading = self.open_file(file.content, file.name or None, file.media_type, self.inside())
                except Unreadable as error:
                    reason = str(error)
                else:
                    self._spent.chars += sum(len(part.markdown) for part in reading.parts)
                    parts += _under(name, reading, level, f'{label} "{name}"')
                    unread += [f"in {name}: {sentence}" for sentence in reading.unread]
            if reason and not _is_empty(file, reason):
                unread.append(f'the {label} "{name}" was not read: {reason}')
        return parts, unread

    def _refusal(self, file: AttachedFile) -> str | None:
        if file.decoration:
            return "it is a decoration"
        if self.depth >= MAX_DEPTH:
            return f"it is nested in more than {MAX_DEPTH} files; add it on its own"
        spent = self._spent
        if spent.files >= MAX_FILES or spent.bytes + len(file.content) > MAX_BYTES or spent.chars > MAX_CHARS:
            return "the file contains too many other files, or too long ones; add it on its own"
        spent.files += 1
        spent.bytes += len(file.content)
        return None


def _is_empty(file: AttachedFile, reason: str) -> bool:
    """Return whether nothing is missing without a file: a decoration, or a page without words, as programs attach."""
    textual = (file.media_type or "").startswith("text/")
    return file.decoration or not file.content or (textual and reason.endswith("has no text inside"))


def summed(unread: list[str]) -> tuple[str, ...]:
    """Return the first sentences, and the number of the others."""
    kept = list(dict.fromkeys(unread))
    if len(kept) <= MAX_SENTENCES:
        return tuple(kept)
    return (*kept[:MAX_SENTENCES], f"{len(kept) - MAX_SENTENCES:,} more files or parts were not read")


def _under(name: str, reading: FileReading, level: int, location: str) -> Iterator[Part]:
    heading = f"{'#' * min(level, _DEEPEST)} {name}"
    for number, part in enumerate(reading.parts):
        markdown = below(part.markdown, level) if part.markdown.strip() else ""
        if number == 0:
            markdown = f"{heading}\n\n{markdown}".strip()
        yield Part(markdown, part.plain, f"{location}, {part.location}" if part.location else location)


def below(markdown: str, level: int) -> str:
    """Return Markdown whose headings are all deeper than this level."""
    lines, fence, levels = markdown.split("\n"), "", list[tuple[int, int]]()
    for index, line in enumerate(lines):
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = ""
        elif not fence and (found := _HEADING.match(line)):
            levels.append((index, len(found[1])))
    shift = level + 1 - min((depth for _, depth in levels), default=_DEEPEST)
    if shift > 0:
        for index, depth in levels:
            lines[index] = "#" * min(depth + shift, _DEEPEST) + lines[index].lstrip()[depth:]
    return "\n".join(lines)
