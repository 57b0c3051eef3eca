"""The elements of an XML file, read by expat of the standard library.

feedparser (BSD) was rejected: it reads every field of nine formats, of which only addresses are used, and it repairs
malformed feeds, so that the entries after an error would look deleted. Declarations of entities are refused, so that
none can expand, and external files are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from xml.parsers import expat

_DEEPEST = 100
_TEXT_CHARS = 10_000

Visit = Callable[[tuple[str, ...], Mapping[str, str], str], None]
"""Called at the end of an element with its path of names from the root, its attributes and its text."""


class NotXml(ValueError):
    """The file cannot be read; the message is a clause."""


class StopVisit(Exception):
    """Raised by a visit that needs no more elements."""


def read(content: bytes, visit: Visit) -> None:
    """Visit the elements of a file. A name in the namespace of the root has no prefix, and another one has its URI.

    Raises:
        NotXml: it is not well-formed, too deep, or declares entities.
    """
    reader = _ElementReader(visit)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(content, True)  # noqa: FBT003 - it has no names
    except StopVisit:
        return
    except expat.ExpatError as error:
        raise NotXml(f"it is not well-formed XML in line {error.lineno}") from error
    except LookupError as error:
        raise NotXml("its encoding is unknown") from error


def _refuse_entity(*_: object) -> None:
    raise NotXml("it declares entities")


class _ElementReader:
    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._namespace = ""
        self._path: list[str] = []
        self._open: list[tuple[dict[str, str], list[str]]] = []
        self._chars = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        if not self._path:
            self._namespace = namespace
        if len(self._path) >= _DEEPEST:
            raise NotXml(f"its elements are nested more than {_DEEPEST} deep")
        self._path.append(local if namespace == self._namespace else name)
        self._open.append((attributes, []))
        self._chars = 0

    def text(self, data: str) -> None:
        if self._open and self._chars < _TEXT_CHARS:
            self._open[-1][1].append(data[:_TEXT_CHARS])
            self._chars += len(data)

    def end(self, _: str) -> None:
        attributes, parts = self._open.pop()
        self._visit(tuple(self._path), attributes, "".join(parts).strip())
        self._path.pop()
