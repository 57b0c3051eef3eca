"""SQL statements are loaded from files; every mistake in a file is found at import or here."""

import re
from pathlib import Path

import pytest

import features
import shared.ledger
from shared.ledger.model import states
from shared.ledger.postgres import statements

FOLDERS = [Path(package.__path__[0]) for package in (shared.ledger, features)]
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.sql")) if "migrations" not in path.parts]
MODULES = {path: path.read_text() for folder in FOLDERS for path in folder.rglob("*.py")}
# The statements that other modules use, by the names of their modules.
USED = set(re.findall(r"\b(\w+)\.SQL\.(\w+)", "\n".join(MODULES.values())))
# Files that are not loaded as `SQL` of the module of the same name: the module, and the object that has the statements.
HOLDERS = {
    "run_phases": ("run_claims", "phases"),
    "listing": ("listing", r"_ORDERS\[order\]"),
    "walks": ("listing", "_WALKS"),
    "settlements": ("work", "SQL"),
}
COUNT = "-- name: count\n-- Count the documents.\nSELECT count(*) FROM documents d WHERE "


def load(folder, content, **values):
    (folder / "counting.sql").write_text(content)
    return statements.load(folder / "counting.py", states.FRAGMENTS, **values)


def test_statement_includes_parts_and_values(tmp_path):
    content = (
        COUNT
        + "{exists:d} AND {is_of:d}\n\n-- part: is_of\n-- A document of a tenant.\n{argument}.{column} = :tenant\n"
    )
    sql = load(tmp_path, content, column="tenant")
    assert str(sql.count) == "SELECT count(*) FROM documents d WHERE d.state <> 'deleting' AND d.tenant = :tenant"


def test_argument_names_other_placeholders(tmp_path):
    part = "\n\n-- part: in_queue\n-- The rows of a queue.\n{{argument}_is_open}\n"
    sql = load(tmp_path, COUNT + "{in_queue:parse}" + part, parse_is_open="{TO_PARSE:d}")
    assert str(sql.count) == "SELECT count(*) FROM documents d WHERE d.state IN ('queued', 'parsing')"


@pytest.mark.parametrize(
    ("content", "values", "message"),
    [
        (COUNT + "{is_new}\n", {}, "the placeholder {is_new} has no value"),
        (COUNT + "true\n", {"limit": "1"}, "no statement uses limit"),
        (COUNT + "true\n\n-- part: is_new\n-- A new document.\nfalse\n", {}, "no statement uses is_new"),
        (COUNT + "true\n\n" + COUNT + "false\n", {}, "two blocks or values have the same name"),
        (COUNT + "{count}\n", {"count": "true"}, "two blocks or values have the same name"),
        ("-- name: count\nSELECT 1\n", {}, "a block has no name or no purpose"),
        ("SELECT 1\n\n" + COUNT + "true\n", {}, "a block has no name or no purpose"),
    ],
)
def test_mistakes_in_a_file_are_rejected(tmp_path, content, values, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load(tmp_path, content, **values)


def test_unknown_statement_is_named(tmp_path):
    with pytest.raises(AttributeError, match="no statement 'counts'"):
        _ = load(tmp_path, COUNT + "true\n").counts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_code_uses_exactly_the_stored_statements(path):
    module, holder = HOLDERS.get(path.stem, (path.stem, "SQL"))
    used = set(re.findall(rf"(?<![\w.]){holder}\.(\w+)", MODULES[path.with_name(f"{module}.py")]))
    used |= {name for other, name in USED if other == module}
    assert used == set(re.findall(r"^-- name: (\w+)$", path.read_text(), re.MULTILINE))
