"""Files selected by paths on the command line, with their external ids."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from shared.domain.errors import InvalidInput

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected files by external id, and the numbers of files that were left out."""

    files: dict[str, Path]
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
    hidden = excluded = 0
    for root in _roots(paths):
        for path in _walk(root):
            name = _external_id(path, root, here)
            if path != root and _is_hidden(path.relative_to(root)):
                hidden += 1
            elif not _is_wanted(name, include, exclude):
                excluded += 1
            elif files.setdefault(name, path).resolve() != path.resolve():
                message = (
                    f"{path} and {files[name]} would both be {name}: upload them from a folder that contains both."
                )
                raise InvalidInput(message, field="paths")
    return Selection(files, hidden, excluded)


def _roots(paths: Sequence[str]) -> Iterator[Path]:
    for text in paths:
        path = Path(text).expanduser()
        if path.exists():
            yield path
            continue
        matches = sorted(glob.glob(str(path), recursive=True)) if _GLOB & set(text) else []  # noqa: PTH207 - any root
        if not matches:
            raise InvalidInput(f"{text} does not exist.", field="paths")
        yield from map(Path, matches)


def _walk(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    for folder, folders, names in os.walk(root):
        yield from (Path(folder, name) for name in folders if name.startswith("."))  # counted, not entered
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names))


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
