"""Files selected by paths on the command line, with their external ids, and odd entries with the reason."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from shared.domain.errors import InvalidInput

_GLOB = frozenset("*?[")
_OTHERS = {stat.S_IFDIR: "It is a link to a folder elsewhere: add that folder."}


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected files by external id, and the numbers of files that were left out.

    Args:
        unreadable: reasons why other selected entries cannot be read, by names for people.
    """

    files: dict[str, Path]
    unreadable: dict[str, str]
    hidden: int = 0
    excluded: int = 0


def select(
    paths: Sequence[str], *, include: Sequence[str] = (), exclude: Sequence[str] = (), here: Path | None = None
) -> Selection:
    """Find the files of folders (recursively), globs and single paths.

    Hidden files and folders inside a folder are left out. A hidden path that was typed is included. Patterns have the
    syntax of a shell. A pattern is compared with the external id and with the filename.

    Args:
        paths: paths as typed.
        include: patterns; if there are any, a file must match at least one.
        exclude: patterns; a file must not match any.
        here: folder to which external ids are relative; the id of a file elsewhere starts with the name of its folder.

    Raises:
        InvalidInput: a path matches nothing, or two files would have the same external id.
    """
    here = (here or Path.cwd()).resolve()
    files: dict[str, Path] = {}
    unreadable: dict[str, str] = {}
    hidden = excluded = 0
    for root in _roots(paths):
        for path, error in _walk(root):
            name = _external_id(path, root, here)
            if path != root and _is_hidden(path.relative_to(root)):
                hidden += 1
            elif not _is_wanted(name, include, exclude):
                excluded += 1
            elif reason := _reason(path, name, error):
                unreadable[os.fsencode(name).decode("utf-8", "backslashreplace")] = reason
            elif files.setdefault(name, path).resolve() != path.resolve():
                message = (
                    f"{path} and {files[name]} would both be {name}: upload them from a folder that contains both."
                )
                raise InvalidInput(message, field="paths")
    return Selection(files, unreadable, hidden, excluded)


def _roots(paths: Sequence[str]) -> Iterator[Path]:
    for text in paths:
        path = Path(text).expanduser()
        if os.path.lexists(path):
            yield path
            continue
        matches = sorted(glob.glob(str(path), recursive=True)) if _GLOB & set(text) else []  # noqa: PTH207 - any root
        if not matches:
            raise InvalidInput(f"{text} does not exist.", field="paths")
        yield from map(Path, matches)


def _walk(root: Path) -> Iterator[tuple[Path, OSError | None]]:
    """Yield the entries of a folder, and folders that cannot be opened, each with the error.

    Links to folders are not followed. A folder elsewhere is an entry, because its files would be missing.
    """
    if not root.is_dir():
        yield root, None
        return
    refused: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=refused.append):
        yield from ((Path(folder, name), None) for name in folders if name.startswith("."))  # counted, not entered
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = (path for name in folders if (path := Path(folder, name)).is_symlink())
        yield from ((path, None) for path in links if not path.resolve().is_relative_to(root.resolve()))
        yield from ((Path(folder, name), None) for name in sorted(names))
    yield from ((Path(os.fsdecode(error.filename)), error) for error in refused)


def _reason(path: Path, name: str, error: OSError | None) -> str | None:
    """Return why an entry cannot be uploaded; None if it can. Reading a pipe would block for ever."""
    if error is not None:
        return f"The folder cannot be opened: {error.strerror}."
    try:
        name.encode()
        mode = path.stat().st_mode
    except UnicodeEncodeError:
        return "Its name is not UTF-8: rename it."
    except FileNotFoundError:
        return "It is a link to a file that does not exist."
    except OSError as refused:
        return f"It cannot be opened: {refused.strerror}."
    if not stat.S_ISREG(mode):
        return _OTHERS.get(stat.S_IFMT(mode), "It is not a file, but a pipe, a socket or a device.")
    return None if os.access(path, os.R_OK) else "It cannot be read: permission denied."


def _external_id(path: Path, root: Path, here: Path) -> str:
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - a link keeps its own name
    if absolute.is_relative_to(here):
        return absolute.relative_to(here).as_posix()
    above = Path(os.path.abspath(root)).parent  # noqa: PTH100
    return absolute.relative_to(above).as_posix()


def _is_hidden(inside: Path) -> bool:
    return any(part.startswith(".") for part in inside.parts)


def _is_wanted(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    def matches(patterns: Sequence[str]) -> bool:
        return any(fnmatch(name, pattern) or fnmatch(Path(name).name, pattern) for pattern in patterns)

    return (not include or matches(include)) and not matches(exclude)
