"""Reader of EPUB 2 and 3: the documents of a book in the order of its spine (EPUB 3.3, section 5.6).

Each document is HTML. Not read: pictures, styles, documents outside the spine, protected files (these are named), and
a long table of contents if the book has its titles.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers import html
from shared.ingest.parse.readers.archive import Archive
from shared.ingest.parse.readers.guard import words
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.xml_tree import Element, parsed
from shared.ingest.parse.text import decode

LONG_CONTENTS_CHARS = 1000
"""A longer table of contents is left out if the book has all its titles; a shorter one is part of another chunk."""

_SUFFIXES = (".xhtml", ".html", ".htm", ".xml")
_TYPES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")
_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_PROTECTED = "the EPUB file is protected with DRM, so that its text cannot be read; add a copy without protection"
_DAMAGED = "the EPUB file is damaged: it has no list of its contents; create or download it again"


@dataclass(frozen=True, slots=True)
class _BookItem:
    """A file of a book, as its package names it."""

    name: str
    media_type: str
    properties: str


def read(content: bytes) -> FileReading:
    """Return the text of a book.

    Raises:
        Unreadable: it is damaged or protected with DRM.
    """
    archive = Archive(content, "EPUB")
    path = _package_path(archive)
    package = parsed(archive.read(path)).root if path else None
    items = {} if package is None else dict(_items(package, posixpath.dirname(path)))
    spine = [] if package is None else _spine(package, items)
    spine = spine or [item for item in (*items.values(), *_unlisted(archive, items)) if _is_document(item)]
    if not spine:
        raise Unreadable(_DAMAGED)
    encrypted = set(_encrypted(archive))
    if spine and all(item.name in encrypted for item in spine):
        raise Unreadable(_PROTECTED)
    titles = _titles(archive, items)
    parts, unread = list[tuple[_BookItem, Part]](), list[str]()
    for item in spine:
        if item.name in encrypted:
            unread.append(f"{item.name} is protected with DRM")
        elif item.name not in archive:
            unread.append(f"{item.name} is listed in the book but missing in the file")
        elif _is_document(item):
            parts.append((item, _part(item, archive.read(item.name), titles.get(item.name, ""))))
    title = None if package is None else _title(package)
    return FileReading(tuple(_without_contents(parts)), title, (*archive.unread(), *unread))


def _package_path(archive: Archive) -> str:
    """Return the name of the package document, as the container states it, or the first in the file; empty if none."""
    if (
        "META-INF/container.xml" in archive
        and (container := parsed(archive.read("META-INF/container.xml")).root) is not None
    ):
        for root in container.iter("{*}rootfile"):
            path = unquote(root.get("full-path") or "")
            if path in archive:
                return path
    return next((name for name in archive.names if name.lower().endswith(".opf")), "")


def _unlisted(archive: Archive, items: Mapping[str, _BookItem]) -> Iterator[_BookItem]:
    """Yield the files of a book that its damaged package document does not name."""
    named = {item.name for item in items.values()}
    for name in archive.names:
        if name not in named and not name.startswith("META-INF/"):
            yield _BookItem(name, "", "")


def _items(package: Element, folder: str) -> Iterator[tuple[str, _BookItem]]:
    for item in package.iter("{*}item"):
        name = _resolved(folder, item.get("href") or "")
        yield item.get("id") or "", _BookItem(name, item.get("media-type") or "", item.get("properties") or "")


def _resolved(folder: str, address: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0])))


def _spine(package: Element, items: Mapping[str, _BookItem]) -> list[_BookItem]:
    ids = dict.fromkeys(reference.get("idref") or "" for reference in package.iter("{*}itemref"))
    return list(dict.fromkeys(items[name] for name in ids if name in items))


def _is_document(item: _BookItem) -> bool:
    """Return whether an item is text, by its name if its type is wrong."""
    return item.media_type in _TYPES or item.name.lower().endswith(_SUFFIXES)


def _encrypted(archive: Archive) -> Iterator[str]:
    """Yield the names of encrypted files; fonts are only made unusable elsewhere."""
    if "META-INF/encryption.xml" not in archive:
        return
    root = parsed(archive.read("META-INF/encryption.xml")).root
    for data in root.iter("{*}EncryptedData") if root is not None else ():
        method = data.find("{*}EncryptionMethod")
        if method is None or method.get("Algorithm") not in _OF_FONTS:
            yield from (_resolved("", reference.get("URI") or "") for reference in data.iter("{*}CipherReference"))


def _titles(archive: Archive, items: Mapping[str, _BookItem]) -> dict[str, str]:
    """Return the title of each document in the book's table of contents, if it has one entry."""
    entries = list[tuple[str, str]]()
    for item in items.values():
        is_contents = item.media_type == "application/x-dtbncx+xml" or "nav" in item.properties.split()
        if is_contents and item.name in archive and (root := parsed(archive.read(item.name)).root) is not None:
            entries += _entries(root, posixpath.dirname(item.name))
    found: dict[str, str] = {}
    for name, title in entries:
        found[name] = title if found.get(name, title) == title else ""
    return found


def _entries(contents: Element, folder: str) -> Iterator[tuple[str, str]]:
    for point in contents.iter("{*}navPoint"):
        label, target = point.find("{*}navLabel/{*}text"), point.find("{*}content")
        if label is not None and target is not None:
            yield _resolved(folder, target.get("src") or ""), " ".join((label.text or "").split())
    for link in contents.iter("{*}a"):
        yield _resolved(folder, link.get("href") or ""), " ".join("".join(link.itertext()).split())


def _part(item: _BookItem, data: bytes, title: str) -> Part:
    try:
        page = decode(data)
    except Unreadable:
        return Part("", location=item.name)
    return Part(_headed(html.markdown_of(page), title), html.plain_of(page), location=item.name)


def _headed(text: str, title: str) -> str:
    """Return a document whose first line is a heading if it is the title in the table of contents."""
    first, gap, rest = text.partition("\n\n")
    plain = first.replace("*", "").replace("\n", " ")
    if title and plain.casefold() == title.casefold():
        return f"# {plain}{gap}{rest}"
    return text


def _without_contents(parts: list[tuple[_BookItem, Part]]) -> Iterator[Part]:
    """Yield the parts without a long table of contents of which each word is in another part."""
    for item, part in parts:
        if "nav" in item.properties.split() and len(part.markdown) > LONG_CONTENTS_CHARS:
            others = {word for other, text in parts if other != item for word in words(text.plain or "")}
            if others.issuperset(words(part.plain or "")):
                continue
        yield part


def _title(package: Element) -> str | None:
    titles = (" ".join("".join(element.itertext()).split()) for element in package.iter("{*}title"))
    return next((title for title in titles if title), None)
