"""Compound files for tests: Outlook messages and Word 97 files with a few streams."""

from __future__ import annotations

import struct
from collections.abc import Mapping

SECTOR = 512
_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD

Tree = Mapping[str, "bytes | Tree"]


def compound_file(tree: Tree) -> bytes:
    """Return a compound file with these folders and streams. Each stream has sectors of its own."""
    entries, streams = [("Root Entry", 5, _FREE, b"")], list[bytes]()
    _add(tree, 0, entries)
    chains, at, starts = list[int](), 0, list[int]()
    for _, _, _, data in entries:
        count = -(-len(data) // SECTOR)
        starts.append(at if count else _END)
        chains += [*range(at + 1, at + count), _END] if count else []
        streams.append(data.ljust(count * SECTOR, b"\0"))
        at += count
    directory = b"".join(
        _entry(name, kind, child, sibling, starts[index], len(data))
        for index, ((name, kind, child, data), sibling) in enumerate(zip(entries, _siblings(entries), strict=True))
    )
    directory = directory.ljust(-(-len(directory) // SECTOR) * SECTOR, b"\0")
    sectors = len(directory) // SECTOR
    chains += [*range(at + 1, at + sectors), _END]
    fat_sectors = 1
    while fat_sectors * 128 < len(chains) + fat_sectors:
        fat_sectors += 1
    fat = [*chains, *[_FAT] * fat_sectors]
    fat += [_FREE] * (fat_sectors * 128 - len(fat))
    first = len(chains)
    numbers = [*range(first, first + fat_sectors), *[_FREE] * (109 - fat_sectors)]
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIIIIIII", 0, fat_sectors, at, 0, 0, _END, 0, _END, 0) + struct.pack("<109I", *numbers)
    return header + b"".join(streams) + directory + struct.pack(f"<{len(fat)}I", *fat)


def _add(tree: Tree, parent: int, entries: list[tuple[str, int, int, bytes]]) -> None:
    """Add the entries of a folder. Its first child is the root of a list of right siblings."""
    name, kind, _, data = entries[parent]
    entries[parent] = (name, kind, len(entries) if tree else _FREE, data)
    first = len(entries)
    for child, content in tree.items():
        entries.append(
            (child, 2 if isinstance(content, bytes) else 1, _FREE, content if isinstance(content, bytes) else b"")
        )
    _LISTS.append(range(first, len(entries)))
    for index, content in enumerate(tree.values(), first):
        if not isinstance(content, bytes):
            _add(content, index, entries)


_LISTS: list[range] = []


def _siblings(entries: list[tuple[str, int, int, bytes]]) -> list[int]:
    siblings = [_FREE] * len(entries)
    for numbers in _LISTS:
        for number in numbers[:-1]:
            siblings[number] = number + 1
    _LISTS.clear()
    return siblings


def _entry(name: str, kind: int, child: int, sibling: int, start: int, length: int) -> bytes:  # noqa: PLR0917 - as stored
    encoded = (name + "\0").encode("utf-16-le")
    entry = encoded.ljust(64, b"\0") + struct.pack("<HBBIII", len(encoded), kind, 1, _FREE, sibling, child)
    return entry + bytes(36) + struct.pack("<IQ", start, length)


def message(
    texts: Mapping[int, bytes | str], numbers: Mapping[int, int], header: int, folders: Tree | None = None
) -> Tree:
    """Return the folder of a message, recipient or attachment.

    Args:
        texts: text in Unicode, or bytes of a text in its code page, by number of the property; of bodies any bytes.
        numbers: numbers by number of the property.
        header: length of the header of its properties.
        folders: more folders and streams.
    """
    streams = {
        f"__substg1.0_{number:04X}{'001F' if isinstance(value, str) else '001E'}": (
            value.encode("utf-16-le") if isinstance(value, str) else value
        )
        for number, value in texts.items()
    }
    fixed = b"".join(struct.pack("<HHIiI", 3, number, 6, value, 0) for number, value in numbers.items())
    return {"__properties_version1.0": bytes(header) + fixed, **streams, **(folders or {})}


def word_file(paragraphs: list[tuple[str, bytes]], header: str = "", objects: Tree | None = None) -> bytes:
    """Return a Word 97 file with these paragraphs, each with the properties of its last character, its mark.

    Args:
        paragraphs: paragraphs of its body.
        header: text of its headers.
        objects: folders of embedded objects.
    """
    body = sum(len(paragraph) for paragraph, _ in paragraphs)
    paragraphs = [*paragraphs, (header, b"")] if header else paragraphs
    text = "".join(paragraph for paragraph, _ in paragraphs)
    start, data = 2048, text.encode("utf-16-le")
    ends, at = [start], start
    for paragraph, _ in paragraphs:
        at += len(paragraph) * 2
        ends.append(at)
    page, offsets, free = bytearray(SECTOR), list[int](), SECTOR - 2
    for _, properties in paragraphs:
        block = bytes([(len(properties) + 4) // 2]) + b"\0\0" + properties
        free -= len(block) + len(block) % 2
        page[free : free + len(block)] = block
        offsets.append(free // 2)
    struct.pack_into(f"<{len(ends)}I", page, 0, *ends)
    for index, offset in enumerate(offsets):
        page[len(ends) * 4 + index * 13] = offset
    page[-1] = len(paragraphs)
    pieces = b"\x02" + struct.pack("<IIIHIH", 16, 0, len(text), 0, start, 0)
    bin_table = struct.pack("<III", ends[0], ends[-1], 2)
    table = pieces + bin_table
    pairs = [(0, 0)] * 40
    pairs[33], pairs[13] = (0, len(pieces)), (len(pieces), len(bin_table))
    fib = struct.pack("<HHHHHH", 0xA5EC, 0xC1, 0, 0, 0, 0x200) + bytes(20) + struct.pack("<H", 14) + bytes(28)
    fib += (
        struct.pack("<H", 22)
        + struct.pack("<22i", 0, 0, 0, body, 0, len(header), *[0] * 16)
        + struct.pack("<H", len(pairs))
    )
    fib += b"".join(struct.pack("<II", *pair) for pair in pairs)
    main = fib.ljust(1024, b"\0") + bytes(page)
    streams = {"WordDocument": main.ljust(start, b"\0") + data.ljust(4096, b"\0"), "1Table": table.ljust(4096, b"\0")}
    return compound_file({**streams, "ObjectPool": objects} if objects else streams)
