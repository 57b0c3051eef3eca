"""SQL statements are loaded from files; every mistake in a file is found at import or here."""

import re
from pathlib import Path

import pytest

import features
import shared.ledger
from shared.ledger.model import states
from shared.ledger.postgres import statements

FOLDERS = [Path(package.__path__[0]) for package in (shared.ledger, features)]
FILES = [
    path
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.sql"))
    # The scheduler finds the statements of `polls` by the names of its steps: see `test_polls`.
    if "migrations" not in path.parts and path.stem != "polls" and ("ledger" in path.parts or path.stem == "ledger")
]
MODULES = {path: path.read_text() for folder in FOLDERS for path in folder.rglob("*.py")}
# The statements that other modules use, by the names of their modules.
USED = set(re.findall(r"\b(\w+)\.([A-Z]+)\.(\w+)", "\n".join(MODULES.values())))
# Files that are not loaded as `SQL` of the module of the same name: the module, and the object that has the statements.
HOLDERS = {
    "listing": ("listing", r'_ORDERS\[(?:order|"newest")\]'),
    "walks": ("listing", "_WALKS"),
    "claims_parse": ("parsing", "CLAIMS"),
    "claims_read": ("pages", "CLAIMS"),
    "claims_generate": ("generation", "CLAIMS"),
    "claims_index": ("indexing", "CLAIMS"),
    "claims_due": ("backlog", "DUE"),
}
COUNT = "-- name: count\n-- Count the documents.\nSELECT count(*) FROM documents d WHERE "


def load(folder, content, **values):
    (folder / "counting.sql").write_text(content)
    return statements.load(folder / "counting.py", states.FRAGMENTS, **values)


def test_statement_includes_parts_and_values(tmp_path):
    content = (
        COUNT
        + "{exists:d}\n  -- One of its owner.\n  AND {is_of}\n\n-- part: is_of\n-- Of a tenant.\nd.{column} = :tenant\n"
    )
    sql = load(tmp_path, content, column="tenant")
    assert str(sql.count) == "SELECT count(*) FROM documents d WHERE d.state <> 'deleting'\n  AND d.tenant = :tenant"


@pytest.mark.parametrize(
    ("content", "values", "message"),
    [
        (COUNT + "{is_new}\n", {}, "the placeholder {is_new} has no value"),
        (COUNT + "true\n", {"limit": "1"}, "no statement uses limit"),
        (COUNT + "true\n\n-- part: is_new\n-- A new document.\nfalse\n", {}, "no statement uses is_new"),
        (COUNT + "true\n\n" + COUNT + "false\n", {}, "two blocks or values have the same name"),
        (COUNT + "{count}\n", {"count": "true"}, "two blocks or values have the same name"),
        (COUNT + "{is_new:d}\n", {"is_new": "false"}, "the placeholder {is_new:d} has no value"),
        ("SELECT 1\n\n" + COUNT + "true\n", {}, "the first block has no name"),
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
    used |= {name for other, object_, name in USED if (other, object_) == (module, holder)}
    assert used == set(re.findall(r"^-- name: (\w+)$", path.read_text(), re.MULTILINE))


def test_claims_of_all_queues_rank_candidates_alike():
    """Each queue has its own statement, because tables, columns and conditions differ; the order of turns does not."""
    text = "\n".join(path.read_text() for path in FILES if path.name.startswith("claims_"))
    ranked = [
        re.sub(r"_(texts|questions)\b", "", one) for one in re.findall(r"ranked\w* AS \((.+?)\n\), ", text, re.DOTALL)
    ]
    turns = re.findall(r"    SELECT c.at, (c.position .+? AS turn), .+?(ORDER BY .+?)\n\)", text, re.DOTALL)
    assert (len(ranked), len(set(ranked)), len(turns), len(set(turns))) == (5, 1, 5, 1)
