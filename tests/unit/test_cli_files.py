"""Selection of files by paths and patterns."""

import errno
import os
from pathlib import Path

import pytest

from cli.estimates import of_files
from cli.files import select
from shared.domain.errors import InvalidInput
from tests.support.planted import guards


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


@guards(
    "cli/files.py",
    "            elif reason := _reason(path, name, error):\n"
    '                unreadable[os.fsencode(name).decode("utf-8", "backslashreplace")] = reason\n',
    "",
    means="an odd entry of a folder stops the upload of all others, or blocks it",
)
def test_odd_entries_are_named_with_the_reason(tree):
    folder = tree / "docs"
    (folder / "gone.txt").symlink_to(tree / "absent.txt")
    os.mkfifo(folder / "pipe.txt")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("Coffee")

    selection = select([str(folder)], here=tree)

    assert list(selection.files) == ["docs/a.md", "docs/deep/b.pdf"]
    assert selection.unreadable == {
        "docs/gone.txt": "It is a link to a file that does not exist.",
        "docs/pipe.txt": "It is not a file, but a pipe, a socket or a device.",
        r"docs/caf\xe9.txt": "Its name is not UTF-8: rename it.",
    }


@guards(
    "cli/files.py",
    "        yield from ((path, None) for path in links if not path.resolve().is_relative_to(root.resolve()))\n",
    "",
    means="the files of a folder behind a link are missing without a word",
)
def test_link_to_folder_elsewhere_is_named(tree):
    other = tree / "archive"
    other.mkdir()
    (other / "c.md").write_text("C")
    (tree / "docs/elsewhere").symlink_to(other)
    (tree / "docs/deep/loop").symlink_to(tree / "docs")

    selection = select([str(tree / "docs")], here=tree)

    assert list(selection.files) == ["docs/a.md", "docs/deep/b.pdf"]
    assert selection.unreadable == {"docs/elsewhere": "It is a link to a folder elsewhere: add that folder."}


def test_named_link_without_target_has_a_reason(tree):
    (tree / "gone.txt").symlink_to(tree / "absent.txt")

    assert select([str(tree / "gone.txt")], here=tree).unreadable == {
        "gone.txt": "It is a link to a file that does not exist."
    }


def test_entries_without_permission_are_named(tree, monkeypatch):
    """Root may open everything, so the system's answers are replaced."""
    refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tree / "docs/deep"))
    walk = os.walk

    def refusing(root, onerror):
        onerror(refused)
        return walk(root)

    monkeypatch.setattr("cli.files.os.walk", refusing)
    monkeypatch.setattr("cli.files.os.access", lambda path, mode: path.name != "a.md")

    assert select([str(tree / "docs")], here=tree).unreadable == {
        "docs/a.md": "It cannot be read: permission denied.",
        "docs/deep": "The folder cannot be opened: Permission denied.",
    }


@guards(
    "cli/estimates.py",
    "    except (OSError, Unreadable):\n        return None\n",
    "    except ZeroDivisionError:\n        return None\n",
    means="a file that cannot be read stops the estimate of all others",
)
def test_estimate_reads_texts_as_the_parser_does(tree):
    contents = {
        "wide.txt": "Der Hafen öffnet um sieben.".encode("utf-16"),
        "padded.log": b"The harbour opens." + bytes(2),
        "script.sql": b"\xff\xfe" + "SELECT 'Gr\u00f6\u00dfe';".encode("utf-16-le"),
        "noise.txt": bytes(range(8)) * 20,
    }
    for name, content in contents.items():
        (tree / name).write_bytes(content)
    files = {name: tree / name for name in (*contents, "absent.txt")}

    documents, left_out = of_files(files, most_bytes=1000)

    assert left_out == 0
    assert {sample["text"] for sample in documents["sample"]} == {
        "Der Hafen öffnet um sieben.",
        "The harbour opens.",
        "SELECT 'Größe';",
    }


@guards(
    "cli/estimates.py",
    "accepted = [path for path in files.values() if _size(path) <= most_bytes]",
    "accepted = list(files.values())",
    means="an estimate counts files that are too large to be uploaded",
)
def test_estimate_leaves_out_too_large_files(tree):
    contents = {"small.md": 9, "large.md": 11, "page.png": 10, "scan.png": 11, "a.pdf": 10, "b.pdf": 11}
    for name, size in contents.items():
        (tree / name).write_text("x" * size)

    documents, left_out = of_files({name: tree / name for name in contents}, most_bytes=10)

    assert (documents["count"], documents["bytes"], documents["pages"], left_out) == (2, 9, 1, 1)
