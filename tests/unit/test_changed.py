"""`make test CHANGED=1` chooses tests that can fail because of a change, and its table fits the tree."""

import ast
import subprocess

import pytest

from tests.support.changed import MOST_SECONDS, PRODUCT, ROOT, Chooser, Table, Tree, changed_files
from tests.support.table import chosen, inner_lines

TREE, TABLE = Tree(ROOT), Table.read(ROOT)
FILES = {
    "shared/retry.py": "def decide(): ...\n",
    "shared/drain.py": "from shared.retry import decide\n",
    "shared/claims.py": 'load(__file__)\n_WALKS = "walks.sql"\n',
    "shared/claims.sql": "",
    "shared/walks.sql": "",
    "api/web/app.js": "",
    "api/web/routes/ask.js": 'import { a } from "../parts/answer.js";\n',
    "api/web/parts/answer.js": "",
    "docs/a.md": "",
    "tests/support/corpora.py": "",
    "tests/support/ships.py": "from tests.support import corpora\n",
    "tests/unit/test_retry.py": "def test_a(): ...\n",
    "tests/unit/test_drain.py": "from shared import drain\ndef test_a(): ...\n",
    "tests/unit/test_guarded.py": '@guards("shared/claims.sql", "a", "b")\ndef test_a(): ...\ndef test_b(): ...\n',
    "tests/unit/test_docs.py": 'PAGE = "docs/a.md"\n',
    "tests/unit/test_ships.py": "from tests.support.ships import a\n",
    "tests/page/test_page_ask.py": 'visit.go("/ask")\n',
    "tests/page/test_page_work.py": 'visit.go("/work")\n',
    "tests/integration/test_stages.py": "def test_a(): ...\ndef test_b(): ...\n",
    "tests/integration/test_slow.py": "from shared import retry\n",
    "tests/slow.txt": "tests/integration/test_slow.py\n",
}
LISTED = {
    "shared/drain.py": ["tests/integration/test_stages.py::test_b"],
    "shared/claims.py": ["tests/unit/test_ids.py"],
}


@pytest.fixture
def tree(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    git(tmp_path, "init", "--quiet")
    return Tree(tmp_path)


def git(folder, *arguments):
    names = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    subprocess.run(["git", "-C", folder, *names, *arguments], check=True)


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("tests/unit/test_docs.py", {"unit/test_docs.py"}),
        ("shared/drain.py", {"integration/test_stages.py::test_b", "unit/test_drain.py"}),
        # A module that the table does not know has the tests of the modules that import it.
        ("shared/retry.py", {"unit/test_retry.py", "integration/test_stages.py::test_b"}),
        ("shared/claims.sql", {"unit/test_guarded.py::test_a"}),
        ("tests/support/corpora.py", {"unit/test_ships.py"}),
        ("docs/a.md", {"unit/test_docs.py"}),
        ("api/web/parts/answer.js", {"page/test_page_ask.py"}),
        ("api/web/app.js", {"page/test_page_ask.py"}),
        ("LICENSE", set()),
    ],
)
def test_changed_file_runs_its_tests(tree, path, tests):
    choice = Chooser(tree, Table(LISTED, {}, {})).choose([path])

    assert choice.reasons.keys() == {f"tests/{test}" for test in tests}


def test_statements_belong_to_module_that_loads_them(tree):
    assert tree.loaders("shared/claims.sql") == tree.loaders("shared/walks.sql") == ["shared/claims.py"]


def test_costly_choice_is_cut_but_changed_tests_run(tree):
    costs = dict.fromkeys(tree.tests, MOST_SECONDS + 1)
    choice = Chooser(tree, Table({}, costs, {})).choose(["shared/retry.py", "tests/unit/test_drain.py"])

    assert choice.reasons == {"tests/unit/test_drain.py": "changed"}
    assert choice.left_out == {"tests/unit/test_retry.py"}


def test_changed_files_are_edited_new_and_deleted(tree):
    git(tree.root, "add", ".")
    git(tree.root, "commit", "--quiet", "--message", "a")
    git(tree.root, "branch", "main")
    (tree.root / "shared/retry.py").unlink()
    git(tree.root, "commit", "--quiet", "--all", "--message", "b")
    (tree.root / "shared/drain.py").write_text("a = 1\n")
    (tree.root / "new.md").write_text("")

    assert changed_files(tree.root, "HEAD") == ["new.md", "shared/drain.py"]
    assert changed_files(tree.root, "main") == ["new.md", "shared/drain.py", "shared/retry.py"]


def test_module_gets_cheap_files_that_execute_lines_twice():
    executed = {"a::cheap": {1, 2}, "b::dear": {1, 2}, "c::third": {1, 2}, "d::only": {3}, "d::other": {1}}
    seconds = {"a": 1.0, "b": 9.0, "c": 2.0, "d::only": 2.0, "d::other": 9.0, "d": 30.0}

    assert chosen(executed, seconds) == ["a", "c", "d::only"]


def test_lines_of_imports_belong_to_no_test():
    assert inner_lines("A = 1\n\n\ndef a(\n    b,\n):\n    return (\n        b\n    )\n") == {7, 8, 9}


def test_listed_tests_exist():
    listed = {test for tests in TABLE.modules.values() for test in tests}

    assert [test for test in sorted(listed) if not TREE.has(test)] == [], "run python -m tests.support.table prune"


def test_every_product_module_has_tests():
    chooser = Chooser(TREE, TABLE)
    modules = [path for path in TREE.files if path.startswith(PRODUCT) and path.endswith(".py")]

    assert len(modules) > 500
    assert [path for path in modules if has_code(path) and next(chooser.candidates(path), None) is None] == []


def has_code(path):
    return len(ast.parse(TREE.source(path)).body) > 1  # more than a docstring
