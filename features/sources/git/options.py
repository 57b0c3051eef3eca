"""The options of repositories, which are checked without the library of Git."""

from __future__ import annotations

from pydantic import Field, field_validator

from features.sources.options import FileOptions

FOLDER_PREFIX = "foreask-git-"  # of temporary folders


class GitOptions(FileOptions):
    """Options of a repository. Patterns are compared with the path below the folder."""

    ref: str = Field("HEAD", min_length=1, max_length=500, description="a branch, a tag or the complete id of a commit")
    path: str = Field("", max_length=1_000, description="a folder of the repository, of which the files are read")
    link: str | None = Field(
        None, max_length=1_000, description="address of a file for people, with {commit} and {path}"
    )

    @field_validator("path")
    @classmethod
    def _without_slashes(cls, value: str) -> str:
        return value.strip("/")
