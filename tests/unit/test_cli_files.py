"""Selection of files by paths and patterns."""

import pytest

from cli.files import select
from shared.domain.errors import InvalidInput


@pytest.fixture
def tree(tmp_path):
    for name in ("docs/a.md", "docs/deep/b.pdf", "docs/.hidden/c.md", "docs/.d.md", "other/a.md", "top.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def names(paths, tree, **more):
    return list(select([str(tree / path) for path in paths], here=tree, **more).files)


def test_folder_includes_files_below_except_hidden(tree):
    selection = select([str(tree / "docs")], here=tree)

    assert list(selection.files) == ["docs/a.md", "docs/deep/b.pdf"]
    assert selection.hidden == 2  # the file and the folder


def test_hidden_file_is_included_if_named(tree):
    assert names(["docs/.d.md"], tree) == ["docs/.d.md"]
    assert names(["docs/.hidden"], tree) == ["docs/.hidden/c.md"]


def test_globs_unexpanded_by_shell_are_expanded(tree):
    assert names(["*/a.md"], tree) == ["docs/a.md", "other/a.md"]
    assert names(["**/*.pdf"], tree) == ["docs/deep/b.pdf"]


def test_path_without_match_is_reported(tree):
    for path in ("absent.md", "*.docx"):
        with pytest.raises(InvalidInput, match="does not exist"):
            names([path], tree)


def test_patterns_match_name_and_path(tree):
    assert names(["."], tree, include=["*.md"]) == ["docs/a.md", "other/a.md"]
    assert names(["."], tree, include=["*.md"], exclude=["other/*"]) == ["docs/a.md"]
    assert select([str(tree)], exclude=["*.md"], here=tree).excluded == 2


def test_file_named_twice_is_listed_once(tree):
    assert names(["docs", "docs/a.md"], tree) == ["docs/a.md", "docs/deep/b.pdf"]


def test_outside_path_keeps_its_folder_name(tree):
    here = tree / "other"
    assert list(select([str(tree / "docs")], here=here).files) == ["docs/a.md", "docs/deep/b.pdf"]
    assert list(select([str(tree / "top.txt")], here=here).files) == ["top.txt"]


def test_files_with_equal_names_are_rejected(tree):
    here = tree / "docs" / "deep"
    with pytest.raises(InvalidInput, match=r"would both be a\.md"):
        select([str(tree / "docs" / "a.md"), str(tree / "other" / "a.md")], here=here)


def test_relative_path_uses_working_directory(tree, monkeypatch):
    monkeypatch.chdir(tree / "docs")
    assert list(select(["."]).files) == ["a.md", "deep/b.pdf"]
    assert list(select(["../other"]).files) == ["other/a.md"]
