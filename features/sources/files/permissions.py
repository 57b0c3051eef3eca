"""Permissions of files as readers of documents: mode bits, and access lists of Linux.

A person who reads the document of a file can read the file. The reverse does not hold: rights that readers cannot
express, such as "the group, but not this member of it", admit fewer persons.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import NamedTuple

from shared.domain.access.persons import EVERYONE, readers_of
from shared.domain.errors import InvalidInput

READ, TRAVERSE = 4, 1
Readers = AbstractSet[str]
_ALL: Readers = frozenset({EVERYONE})

_ACCESS_LIST = "system.posix_acl_access"
_ENTRY = struct.Struct("<HHI")  # kind, rights, id
_VERSION_BYTES = 4
_OWNER, _USER, _GROUP_OF_FILE, _GROUP, _MASK, _OTHERS = 1, 2, 4, 8, 16, 32  # kinds of entries
_NO_LIST = (errno.ENODATA, errno.ENOTSUP)


class _Right(NamedTuple):
    """An entry of an access list, or a part of a mode."""

    kind: int
    bits: int
    id: int


class Names:
    """The names of users and groups of this machine, each looked up once; an unknown id is its number."""

    def __init__(self) -> None:
        self._known = dict[tuple[str, int], str]()

    def user(self, uid: int) -> str:
        if ("user", uid) not in self._known:
            self._known["user", uid] = str(uid)
            with suppress(KeyError):
                self._known["user", uid] = pwd.getpwuid(uid).pw_name
        return "user:" + self._known["user", uid]

    def group(self, gid: int) -> str:
        if ("group", gid) not in self._known:
            self._known["group", gid] = str(gid)
            with suppress(KeyError):
                self._known["group", gid] = grp.getgrgid(gid).gr_name
        return "group:" + self._known["group", gid]


def who_may(right: int, found: os.stat_result, file: str | int, names: Names) -> Readers:
    """Return who has a right to a file or folder.

    Args:
        right: `READ` or `TRAVERSE`.
        found: its status.
        file: its path or an open descriptor, to read its access list.
        names: names of users and groups.

    Raises:
        OSError: its access list cannot be read.
    """
    rights = _access_list(file, found) or _mode(found)
    mask = next((each.bits for each in rights if each.kind == _MASK), right)
    limited = {_USER, _GROUP, _GROUP_OF_FILE}
    has = {each: bool(each.bits & (mask if each.kind in limited else right) & right) for each in rights}
    others = [may for each, may in has.items() if each.kind in limited]
    if all(others) and any(may for each, may in has.items() if each.kind == _OTHERS):
        return _ALL
    readers = {names.user(each.id) for each, may in has.items() if may and each.kind in {_OWNER, _USER}}
    if all(may for each, may in has.items() if each.kind == _USER):  # a forbidden user may be a member of a group
        readers |= {names.group(each.id) for each, may in has.items() if may and each.kind in {_GROUP, _GROUP_OF_FILE}}
    return frozenset(filter(_is_storable, readers))


def both(first: Readers, second: Readers) -> Readers:
    """Return who is among both."""
    if EVERYONE in first:
        return second
    return first if EVERYONE in second else first & second


def _mode(found: os.stat_result) -> list[_Right]:
    mode = stat.S_IMODE(found.st_mode)
    return [
        _Right(_OWNER, mode >> 6 & 7, found.st_uid),
        _Right(_GROUP_OF_FILE, mode >> 3 & 7, found.st_gid),
        _Right(_OTHERS, mode & 7, 0),
    ]


def _access_list(file: str | int, found: os.stat_result) -> list[_Right]:
    """Return the entries of an access list; empty if there is none. With one, the mode has its mask as the group's."""
    if not hasattr(os, "getxattr"):
        return []
    try:
        content = os.getxattr(file, _ACCESS_LIST)
    except OSError as error:
        if error.errno in _NO_LIST:
            return []
        raise
    ids: Mapping[int, int] = {_OWNER: found.st_uid, _GROUP_OF_FILE: found.st_gid}
    entries = _ENTRY.iter_unpack(content[_VERSION_BYTES:])
    return [_Right(kind, bits, ids.get(kind, id_)) for kind, bits, id_ in entries]


def _is_storable(name: str) -> bool:
    try:
        return bool(readers_of([name]))
    except InvalidInput:
        return False
