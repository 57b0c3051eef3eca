"""Footnotes, endnotes and comments: their marks in the text, and their own text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shared.ingest.parse.readers.numerals import numeral
from shared.ingest.parse.readers.word.blocks import WordBlock, placed
from shared.ingest.parse.readers.word.names import W, value
from shared.ingest.parse.readers.word.package import WordPackage
from shared.ingest.parse.readers.xml_tree import Element

Read = Callable[[Element, str], list[WordBlock]]
"""Reads the text below an element of a part of this kind."""

_KINDS = {"footnote": ("footnotes", "decimal"), "endnote": ("endnotes", "lowerRoman")}
_SEPARATORS = frozenset(("separator", "continuationSeparator", "continuationNotice"))


class Notes:
    """The notes and comments of a file.

    Args:
        package: the file.
        read: reads the text of a note.
    """

    def __init__(self, package: WordPackage, read: Read) -> None:
        self._read = read
        self._package = package
        self._counts = dict.fromkeys(_KINDS, 0)
        self._notes = {kind: _by_id(package.related(part), kind) for kind, (part, _) in _KINDS.items()}
        self._comments = _by_id(package.related("comments"), "comment")

    def note(self, kind: str, identifier: str, own_mark: str | None) -> tuple[str, WordBlock | None]:
        """Return the mark of a note and its text, which is returned once.

        Args:
            kind: footnote or endnote.
            identifier: id of the note.
            own_mark: a mark that the author wrote; None if Word counts.
        """
        if own_mark is None:
            self._counts[kind] += 1
        note = self._notes[kind].pop(identifier, None)
        text = "" if note is None else self._text(note, f"{kind}s")
        if not text:
            return "", None
        if own_mark is not None:  # it is in the text already
            return "", WordBlock(text if text.startswith(own_mark) else f"{own_mark} {text}", "markdown")
        mark = f"[^{numeral(self._counts[kind], self._form(kind))}]"
        return mark, WordBlock(f"{mark}: {text}", "markdown")

    def comment(self, identifier: str) -> WordBlock | None:
        """Return a comment with its author; it is returned once."""
        comment = self._comments.pop(identifier, None)
        if comment is None:
            return None
        text, author = self._text(comment, "comments"), (comment.get(W + "author") or "").strip()
        return WordBlock(f"Comment by {author}: {text}" if author else f"Comment: {text}", "markdown") if text else None

    def rest(self) -> Iterator[WordBlock]:
        """Yield the notes that nothing in the text refers to."""
        for kind, notes in self._notes.items():
            for note in notes.values():
                if text := self._text(note, f"{kind}s"):
                    yield WordBlock(text, "markdown")

    def _form(self, kind: str) -> str:
        return value(self._package.related("settings"), f"{kind}Pr", "numFmt") or _KINDS[kind][1]

    def _text(self, element: Element, part: str) -> str:
        return placed(self._read(element, part)).markdown


def _by_id(root: Element | None, kind: str) -> dict[str, Element]:
    return {
        one.get(W + "id") or "": one
        for one in (() if root is None else root.iterchildren(W + kind))
        if one.get(W + "type") not in _SEPARATORS
    }
