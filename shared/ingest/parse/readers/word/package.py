"""The parts of a Word file (ECMA-376 part 1, section 11.3): its main document, and the parts that it refers to.

XML of the strict variant (section 2.1) gets the names of the usual one, so that all other modules know one variant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.office.package import Package, Relation
from shared.ingest.parse.readers.xml_tree import Element, Tree, parsed

KIND = "Word document"

MAX_XML_BYTES = 64 * 1024 * 1024
"""A longer part would need more than a gigabyte as a tree: measured, 8 to 14 bytes for each byte of usual XML."""

_STRICT = b"http://purl.oclc.org/ooxml/"
_TRANSITIONAL = (
    (b"wordprocessingml/main", b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"),
    (b"officeDocument/relationships", b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"),
    (b"officeDocument/math", b"http://schemas.openxmlformats.org/officeDocument/2006/math"),
    (b"drawingml/main", b"http://schemas.openxmlformats.org/drawingml/2006/main"),
    (b"drawingml/chart", b"http://schemas.openxmlformats.org/drawingml/2006/chart"),
    (b"drawingml/diagram", b"http://schemas.openxmlformats.org/drawingml/2006/diagram"),
    (b"drawingml/picture", b"http://schemas.openxmlformats.org/drawingml/2006/picture"),
    (
        b"drawingml/wordprocessingDrawing",
        b"http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
    ),
)
_USUAL_PREFIX = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_OTHER_ENCODING = re.compile(rb"encoding\s{0,9}=\s{0,9}[\"'](?!utf-8[\"'])", re.IGNORECASE)
_HEAD_BYTES = 8192
_MAIN_NAME = re.compile(r"(?:^|/)document\d*\.xml$", re.IGNORECASE)


class WordPackage(Package):
    """A Word file. The tree of each part is built once, except the tree of the main document.

    Args:
        content: content of the file.

    Raises:
        Unreadable: it is not an archive, or it has no main document.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(content, KIND)
        self._roots: dict[str, Element | None] = {}
        self.main_name = self._found_main()

    @cached_property
    def main_relations(self) -> Mapping[str, Relation]:
        return self.relations(self.main_name)

    def xml(self, path: str) -> Element | None:
        """Return the root of a part; None if it is missing or has no element.

        Raises:
            Unreadable: the part is longer than `MAX_XML_BYTES`.
        """
        if path not in self._roots:
            self._roots[path] = super().xml(path)
        return self._roots[path]

    @staticmethod
    def _tree(data: bytes) -> Tree:
        return word_tree(data)

    def main_part(self) -> tuple[Tree, bytes]:
        """Return the tree of the main document, and its XML."""
        data = self.read(self.main_name) or b""
        return word_tree(data), data

    def related(self, kind: str) -> Element | None:
        """Return the root of the first part of a kind that the main document refers to."""
        roots = map(self.xml, self.related_names(kind))
        return next((root for root in roots if root is not None), None)

    def related_data(self, kind: str) -> bytes | None:
        """Return the XML of the first part of a kind that the main document refers to."""
        return next((data for name in self.related_names(kind) if (data := self.read(name))), None)

    def related_names(self, kind: str) -> list[str]:
        """Return the names of the parts of a kind that the main document refers to."""
        return list(self.targets(self.main_name, kind))

    def _found_main(self) -> str:
        stated = self.targets("", "officeDocument")
        guessed = (name for name in self.names if _MAIN_NAME.search(name) and "glossary" not in name.lower())
        for name in (*stated, "word/document.xml", *guessed):
            if name in self._archive:
                return name
        raise Unreadable(f"the {KIND} file has no main document inside; save it again in Word, or as PDF")


def is_usual(data: bytes) -> bool:
    """Return whether XML is in UTF-8 with Word's usual prefix `w`, and without comments and sections."""
    head = data[:_HEAD_BYTES]
    return _USUAL_PREFIX in head and b"<!" not in data and not _OTHER_ENCODING.search(head)


def word_tree(data: bytes) -> Tree:
    """Return the tree of a part of a Word file.

    Raises:
        Unreadable: it is longer than `MAX_XML_BYTES`.
    """
    if len(data) > MAX_XML_BYTES:
        raise Unreadable(f"the {KIND} file is too large when unpacked; divide it", detail=f"{len(data):,} bytes of XML")
    if _STRICT in data:
        for strict, transitional in _TRANSITIONAL:
            data = data.replace(_STRICT + strict, transitional)
    return parsed(data)
