"""Packages of Office Open XML: the parts of a file, and their relationships (ECMA-376 part 2, sections 8 and 9)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from urllib.parse import unquote

from shared.ingest.parse.readers.archive import Archive
from shared.ingest.parse.readers.markdown import one_line
from shared.ingest.parse.readers.xml_tree import Element, Tree, parsed

_TEXT = re.compile(r"<(?:\w{1,20}:)?t(?:\s[^<>]{0,200})?>([^<]*)")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relationship of a part.

    Args:
        kind: last word of its type, such as `slide`.
        target: path of the other part, or an address outside the file.
        external: whether it leads out of the file.
    """

    kind: str
    target: str
    external: bool


class Package:
    """The parts of an Office file.

    Args:
        content: content of the file.
        kind: name of its format for people.
    """

    def __init__(self, content: bytes, kind: str) -> None:
        self._archive = Archive(content, kind)
        self._relations: dict[str, Mapping[str, Relation]] = {}
        self._incomplete: set[str] = set()
        self.names = self._archive.names

    def read(self, path: str) -> bytes | None:
        """Return the content of a part; None if it is missing."""
        return self._archive.read(path) if path and path in self._archive else None

    def unread(self) -> Iterator[str]:
        """Yield a sentence if parts that were read are damaged."""
        yield from self._archive.unread()

    def xml(self, path: str) -> Element | None:
        """Return the root of a part; None if it is missing or has no element."""
        data = self.read(path)
        if data is None:
            return None
        root, is_whole = self._tree(data)
        if not is_whole:
            self._incomplete.add(path)
        return root

    @staticmethod
    def _tree(data: bytes) -> Tree:
        return parsed(data)

    def lost(self, path: str) -> str:
        """Return the texts of a part that could not be parsed to its end, one in each line; empty for other parts."""
        if path not in self._incomplete:
            return ""
        return "\n".join(unescape(text) for text in _TEXT.findall(self._archive.read(path).decode("utf-8", "replace")))

    def relations(self, path: str) -> Mapping[str, Relation]:
        """Return the relationships of a part by their id; the relationships of the file for an empty path."""
        if path not in self._relations:
            folder, name = posixpath.split(path)
            root = self.xml(posixpath.join(folder, "_rels", f"{name}.rels"))
            found = root.iter("{*}Relationship") if root is not None else ()
            self._relations[path] = {each.get("Id", ""): _relation(each, folder) for each in found}
        return self._relations[path]

    def target(self, path: str, kind: str) -> str:
        """Return the path of the first part that is related to a part in this way; empty if there is none."""
        return next(self.targets(path, kind), "")

    def targets(self, path: str, kind: str) -> Iterator[str]:
        """Yield the paths of the parts that are related to a part in this way."""
        for relation in self.relations(path).values():
            if relation.kind == kind and not relation.external:
                yield relation.target

    def title(self) -> str:
        """Return the title in the file's properties; empty if there is none."""
        root = self.xml(self.target("", "core-properties") or "docProps/core.xml")
        found = root.find("{*}title") if root is not None else None
        return one_line((found.text if found is not None else "") or "")


def relation_id(element: Element, name: str = "id") -> str:
    """Return the id of a relationship that an element names; empty if it names none."""
    return next((value for key, value in element.attrib.items() if key.endswith("}" + name)), "")


def _relation(element: Element, folder: str) -> Relation:
    target, external = element.get("Target", ""), element.get("TargetMode", "").lower() == "external"
    if not external:
        path = unquote(target).replace("\\", "/").partition("#")[0]
        target = posixpath.normpath(posixpath.join("/", folder, path)).lstrip("/")
    return Relation(element.get("Type", "").rpartition("/")[2], target, external)
