"""A repository in a folder of this machine, which is only read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dulwich.repo import Repo

from features.sources.errors import COMPONENT
from features.sources.git.objects import GitReader, Stored
from features.sources.git.options import FOLDER_PREFIX
from features.sources.git.packs import index_of
from features.sources.git.repository import Refs, Repository
from shared.domain.errors import Misconfigured
from shared.process.temporary_folders import TemporaryFolder

# Files that let a repository read objects of another folder, which may be outside the operator's roots.
_LEADS_ELSEWHERE = ("commondir", "objects/info/alternates")
_ID = re.compile("[0-9a-f]{40}")
_MOST_PACKS = 20
_MOST_LOOSE_BYTES = 2 << 30


class LocalRepository(Repository):
    """A bare repository, or a folder with `.git`.

    Its packs are read in place. Its loose objects are joined in a temporary file.

    Args:
        folder: the folder.
        reader: reads objects.
    """

    def __init__(self, folder: Path, reader: GitReader) -> None:
        super().__init__(str(folder), reader)
        self._folder = folder
        self._temporary: TemporaryFolder | None = None
        self._stores: list[Stored] = []
        self._files: list[IO[bytes]] = []  # opened in the thread, also for a task that was cancelled meanwhile

    @property
    def stores(self) -> list[Stored]:
        return self._stores

    async def _refs(self, ref: str) -> Refs:
        del ref
        self._remove_files()  # of an attempt that failed
        temporary = self._temporary = TemporaryFolder(FOLDER_PREFIX)
        found = await self.in_thread(lambda: _found(self._folder, temporary.path, self._files))
        self._stores.append(found.loose)
        for number, (pack, idx) in enumerate(found.packs):
            index = await self.reader.write_index(idx, temporary.path / f"{number}", name="converted_index")
            self._stores.append(Stored("pack", pack, index))
        return found.refs

    def _remove_files(self) -> None:
        for file in self._files:
            file.close()
        self._files.clear()
        self._stores.clear()
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None


@dataclass(frozen=True, slots=True)
class _OpenedRepository:
    """The refs of a folder, its opened packs with their indexes, and its loose objects."""

    refs: Refs
    packs: Sequence[tuple[IO[bytes], IO[bytes]]]
    loose: Stored


def _found(folder: Path, temporary: Path, files: list[IO[bytes]]) -> _OpenedRepository:
    """Open the objects of a folder, and add the opened files to `files`.

    Raises:
        Misconfigured: it leads to the objects of another folder, or has too many packs or loose objects.
    """
    inner = folder / ".git"
    git = inner if inner.exists() else folder
    if inner.is_file() or git.is_symlink() or any((git / name).exists() for name in _LEADS_ELSEWHERE):
        raise Misconfigured(
            f"The repository at {folder} reads objects of another folder: use that folder, or a complete clone.",
            component=COMPONENT,
        )
    with closing(Repo(str(folder))) as repo:
        refs = repo.get_refs()
    packs = sorted((git / "objects/pack").glob("*.pack"))
    if len(packs) > _MOST_PACKS:
        raise _disordered(folder)
    for pack in packs:
        files += [pack.open("rb")]
        files += [pack.with_suffix(".idx").open("rb")]
    opened = list(zip(files[::2], files[1::2], strict=True))
    _join(folder, git / "objects", temporary)
    files += [(temporary / "loose").open("rb"), (temporary / "index").open("rb")]
    return _OpenedRepository(refs, opened, Stored("loose", *files[-2:]))


def _join(folder: Path, objects: Path, temporary: Path) -> None:
    """Join the loose objects in one file."""
    index = list[tuple[bytes, int]]()
    with (temporary / "loose").open("wb") as joined:
        for path in objects.glob("[0-9a-f][0-9a-f]/*"):
            name = path.parent.name + path.name
            if not _ID.fullmatch(name):
                continue
            content = path.read_bytes()
            index.append((bytes.fromhex(name), joined.tell()))
            joined.write(len(content).to_bytes(8, "big") + content)
            if joined.tell() > _MOST_LOOSE_BYTES:
                raise _disordered(folder)
    (temporary / "index").write_bytes(index_of(index))


def _disordered(folder: Path) -> Misconfigured:
    message = f"The repository at {folder} has too many packs or loose objects: run git gc in it."
    return Misconfigured(message, component=COMPONENT)
