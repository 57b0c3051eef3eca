"""A repository in a folder of this machine, which is only read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from dulwich.objects import ObjectID, Tree
from dulwich.repo import Repo

from shared.domain.errors import Misconfigured
from shared.sources.files import COMPONENT
from shared.sources.git.repository import Repository, commit_of

# Files that let a repository read objects of another folder, which may be outside the operator's roots.
_LEADS_ELSEWHERE = ("commondir", "objects/info/alternates")


class LocalRepository(Repository):
    """A bare repository, or a folder with `.git`.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder
        self._repo: Repo | None = None

    def open(self, ref: str) -> ObjectID:
        self._require_own_objects()
        self._repo = Repo(str(self._folder))
        commit = commit_of(self._repo.object_store, self._repo.get_refs(), ref)
        self.commit = commit.id
        return ObjectID(commit.tree)

    def tree(self, tree_id: ObjectID) -> Tree:
        tree = self._opened().object_store[tree_id]
        assert isinstance(tree, Tree)
        return tree

    def present(self, content_id: ObjectID) -> bytes | None:
        return self._opened().object_store.get_raw(content_id)[1]

    def content(self, content_id: ObjectID, following: Callable[[], Iterable[ObjectID]]) -> bytes:  # noqa: ARG002
        return self._opened().object_store.get_raw(content_id)[1]

    def close(self) -> None:
        if self._repo is not None:
            self._repo.close()
            self._repo = None

    def _opened(self) -> Repo:
        assert self._repo is not None
        return self._repo

    def _require_own_objects(self) -> None:
        """Refuse a folder that leads to the objects of another one."""
        inner = self._folder / ".git"
        folder = inner if inner.exists() else self._folder
        if inner.is_file() or folder.is_symlink() or any((folder / name).exists() for name in _LEADS_ELSEWHERE):
            raise Misconfigured(
                f"The repository at {self._folder} reads objects of another folder: use that folder, or a complete"
                " clone.",
                component=COMPONENT,
            )
