"""The parts of a Word file: XML, and the relations between parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from posixpath import join as joined
from posixpath import normpath
from urllib.parse import unquote

from lxml import etree

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.archive import Archive
from shared.ingest.parse.readers.memory import require_memory
from shared.ingest.parse.readers.word.names import Element

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
_PARSER = etree.XMLParser(
    resolve_entities=False,
    no_network=True,
    huge_tree=True,
    recover=True,
    remove_comments=True,
    remove_pis=True,
    collect_ids=False,
)
_DECLARED = re.compile(r"^\ufeff?\s*<\?xml[^>]{0,200}\?>")
_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_MAIN_NAME = re.compile(r"(?:^|/)document\d*\.xml$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Relation:
    """A reference of a part to another one, or to an address outside of the file."""

    kind: str
    target: str
    outside: bool


class Package:
    """A Word file.

    Args:
        content: content of the file.

    Raises:
        Unreadable: it is not an archive, or it has no main document.
    """

    def __init__(self, content: bytes) -> None:
        self._archive = Archive(content, KIND)
        self._roots: dict[str, Element | None] = {}
        self.main_name = self._found_main()

    @cached_property
    def main_relations(self) -> Mapping[str, Relation]:
        return self.relations(self.main_name)

    def bytes_of(self, name: str) -> bytes | None:
        """Return the content of a part; None if it is missing."""
        return self._archive.read(name) if name in self._archive else None

    def xml(self, name: str) -> Element | None:
        """Return the root of a part; None if it is missing or has no element.

        Raises:
            Unreadable: the part is longer than `MAX_XML_BYTES`.
        """
        if name not in self._roots:
            data = self.bytes_of(name)
            self._roots[name] = None if data is None else root_of(data)
        return self._roots[name]

    def main_part(self) -> tuple[Element | None, bytes, bool]:
        """Return the root of the main document, its XML, and whether the tree has all of it."""
        data = self.bytes_of(self.main_name) or b""
        root, complete = _parsed(data)
        return root, data, complete

    def related(self, kind: str) -> Element | None:
        """Return the root of the first part of a kind that the main document refers to."""
        names = (one.target for one in self.main_relations.values() if one.kind == kind and not one.outside)
        roots = (self.xml(name) for name in names)
        return next((root for root in roots if root is not None), None)

    def related_data(self, kind: str) -> bytes | None:
        """Return the XML of the first part of a kind that the main document refers to."""
        return next((data for name in self.related_names(kind) if (data := self.bytes_of(name))), None)

    def related_names(self, kind: str) -> list[str]:
        """Return the names of the parts of a kind that the main document refers to."""
        return [one.target for one in self.main_relations.values() if one.kind == kind and not one.outside]

    def relations(self, name: str) -> dict[str, Relation]:
        """Return the relations of a part by their ids; the relations of the file for an empty name."""
        folder, _, file = name.rpartition("/")
        root = self.xml(joined(folder, "_rels", f"{file}.rels"))
        if root is None:
            return {}
        relations = {}
        for one in root.iter("{*}Relationship"):
            outside = (one.get("TargetMode") or "").lower() == "external"
            target = one.get("Target") or ""
            kind = (one.get("Type") or "").rpartition("/")[2]
            relations[one.get("Id") or ""] = Relation(kind, target if outside else _resolved(folder, target), outside)
        return relations

    def _found_main(self) -> str:
        relations = self.relations("").values()
        stated = [one.target for one in relations if one.kind == "officeDocument" and not one.outside]
        guessed = [name for name in self._archive.names if _MAIN_NAME.search(name) and "glossary" not in name.lower()]
        for name in (*stated, "word/document.xml", *guessed):
            if name in self._archive:
                return name
        raise Unreadable(f"the {KIND} file has no main document inside; save it again in Word, or as PDF")


def is_usual(data: bytes) -> bool:
    """Return whether XML is in UTF-8 with Word's usual prefix `w`, and without comments and sections."""
    head = data[:_HEAD_BYTES]
    return _USUAL_PREFIX in head and b"<!" not in data and not _OTHER_ENCODING.search(head)


def root_of(data: bytes) -> Element | None:
    """Return the root of XML, as much of it as can be read; entities are not resolved and nothing is fetched."""
    return _parsed(data)[0]


def _parsed(data: bytes) -> tuple[Element | None, bool]:
    """Return the root of XML, and whether all of it was read."""
    if len(data) > MAX_XML_BYTES:
        raise Unreadable(f"the {KIND} file is too large when unpacked; divide it", detail=f"{len(data):,} bytes of XML")
    if encoding := _WIDE.get(data[:2]):
        data = _DECLARED.sub("", data.decode(encoding, "replace")).encode("utf-8", "replace")
    if _STRICT in data:
        for strict, transitional in _TRANSITIONAL:
            data = data.replace(_STRICT + strict, transitional)
    root = None
    with suppress(etree.XMLSyntaxError):  # nothing that could be recovered
        root = etree.fromstring(data, _PARSER)
    if not len(_PARSER.error_log):
        return root, root is not None
    require_memory(_PARSER)
    return root, root is not None and not _PARSER.error_log.filter_from_fatals()


def _resolved(folder: str, target: str) -> str:
    target = unquote(target).replace("\\", "/").partition("#")[0]
    return normpath(target if target.startswith("/") else joined("/", folder, target)).lstrip("/")
