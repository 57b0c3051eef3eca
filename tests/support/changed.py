"""Run the fast tests that a change can break: `make test CHANGED=1`, or `CHANGED=main` for a branch.

`tests/changed.toml` lists tests for each module of the product, recorded by `make test-table`: together they execute
every line of it that any fast test executes. Tests that guard a module, are named after it or import it are added. A
change of many files, or of a file that most tests use, is cut to `MOST_SECONDS`; the output states how many tests were
left out. The choice can miss a test that fails, so run `make test` before you merge.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self

import pytest

ROOT = Path(__file__).parents[2]
TABLE = Path("tests/changed.toml")
PAGE = ("api/web/", "tests/unit/page/")  # modules, and tests that run in Node
PRODUCT = ("shared/", "features/", "api/", "workers/", "embedded/", "cli/", "clients/")
MOST_SECONDS = 60.0  # of tests, one after the other; two processes need half of it
_MOST_FURTHER_SECONDS = 30.0  # after it, no test is chosen that only imports a file, or is named after it
_PARALLEL_SECONDS = 20.0  # from here on, a second process saves more than its start
_UNKNOWN_SECONDS = 2.0  # of a test file that the table does not know
_IMPORTS = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|.*)|import\s+([\w., ]+))", re.MULTILINE)
_JS_IMPORTS = re.compile(r'(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}/[^"]+)"')
_GUARDED = re.compile(r'@guards\(\s*"[^"]+"')
_GUARDS = re.compile(r'@guards\(\s*"([^"]+)"(?=.*?^(?:async )?def (test_\w+))', re.MULTILINE | re.DOTALL)
_VISITS = re.compile(r'\.go\(f?"/((?:lab/)?\w*)')
_SCREENS = {"": "ask", "collections": "collection", "answers": "shared"}  # modules of addresses with another name


@dataclass(frozen=True)
class Table:
    """The recorded tests of each module, and the seconds and numbers of tests of each test file.

    Args:
        modules: test files and single tests by module, such as `tests/unit/test_ids.py`.
        seconds: seconds of each test file and of each single test that is listed.
        tests: number of fast tests of each test file.
    """

    modules: Mapping[str, Sequence[str]]
    seconds: Mapping[str, float]
    tests: Mapping[str, int]

    @classmethod
    def read(cls, root: Path) -> Self:
        if not (root / TABLE).exists():
            return cls({}, {}, {})
        content = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))
        return cls(content["modules"], content["seconds"], content["tests"])

    def cost(self, test: str) -> float:
        """Return the seconds of a test file or of a single test."""
        file = test.partition("::")[0]
        if test not in self.seconds and test != file:
            return self.seconds.get(file, _UNKNOWN_SECONDS) / self.number(file)
        return self.seconds.get(test, _UNKNOWN_SECONDS) * (2 if is_of_page(file) else 1)  # they run in one process

    def number(self, test: str) -> int:
        return 1 if "::" in test else self.tests.get(test, 1)


@dataclass
class Tree:
    """The files of a working tree, and the imports between them."""

    root: Path

    @cached_property
    def files(self) -> list[str]:
        return [path for path in _git(self.root, *_EXISTING) if (self.root / path).is_file()]

    @cached_property
    def tests(self) -> dict[str, str]:
        """Return the sources of the test files."""
        return {path: self.source(path) for path in self.files if is_test(path)}

    @cached_property
    def slow(self) -> set[str]:
        path = self.root / "tests" / "slow.txt"
        return set(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else set()

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Return the files that each Python file of the product, the tests and the benchmarks imports."""
        modules = {_module(path): path for path in self.files if path.endswith(".py")}
        return {path: set(_imported(self.source(path), modules)) for path in modules.values()}

    def source(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def importers(self, path: str) -> list[str]:
        return [other for other, imported in self.imports.items() if path in imported and other != path]

    def has(self, test: str) -> bool:
        """Return whether a test file or a single test exists."""
        file, _, name = test.partition("::")
        return file in self.tests and (not name or f"def {name.rpartition('::')[2]}(" in self.tests[file])

    def named_after(self, path: str) -> list[str]:
        """Return the test files named after a module, such as test_api_queries.py for api/routes/queries.py."""
        parts = [part for part in PurePosixPath(path).with_suffix("").parts if part not in {"__init__", "__main__"}]
        names = {f"test_{parts[-1]}", *(f"test_{other}_{parts[-1]}" for other in parts[:-1])}
        return [test for test in self.tests if PurePosixPath(test).stem in names]

    def naming(self, path: str) -> list[str]:
        """Return the test files that contain a file's name, not only to guard it."""
        name = re.compile(rf"(?<!\w){re.escape(PurePosixPath(path).name)}\b")
        return [test for test, source in self.tests.items() if name.search(_GUARDED.sub("", source))]

    def guarding(self, path: str) -> list[str]:
        """Return the tests that declare a bug of a file."""
        found = [(test, guard) for test, source in self.tests.items() for guard in _GUARDS.findall(source)]
        return [f"{test}::{name}" for test, (guarded, name) in found if guarded == path]

    def loaders(self, path: str) -> list[str]:
        """Return the modules that read a file next to them: the module of its name, or modules that name it."""
        file = PurePosixPath(path)
        if (own := str(file.with_suffix(".py"))) in self.imports:
            return [own]
        modules = [module for module in self.imports if module.startswith(PRODUCT)]
        return [module for module in modules if f'"{file.name}"' in self.source(module)]


class Candidate(NamedTuple):
    """A test, and the reason to run it; `further` if other tests are recorded or declared for the file."""

    test: str
    reason: str
    further: bool = False


@dataclass
class Choice:
    """The tests for a change, each with its reason."""

    reasons: dict[str, str] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    seconds: float = 0.0


Candidates = Iterator[Candidate]  # the most important first


@dataclass(frozen=True)
class Chooser:
    tree: Tree
    table: Table

    def candidates(self, path: str) -> Candidates:
        if is_test(path):
            yield Candidate(path, "changed")
        elif path.startswith(PAGE):
            yield from self._of_page(path)
        elif path.startswith("tests/") and path.endswith(".py"):
            yield from self._of_support(path)
        elif path.startswith(PRODUCT) and path.endswith(".py"):
            yield from self._of_module(path)
        else:
            yield from self._guarding(path)
            for module in self.tree.loaders(path) if path.startswith(PRODUCT) else ():
                yield from self._of_module(module)
            yield from self._naming(path)

    def _of_module(self, path: str) -> Candidates:
        yield from self._guarding(path)
        listed = self.table.modules.get(path, ())
        yield from (Candidate(test, f"executes {path}") for test in listed)
        yield from (Candidate(test, f"named after {path}", bool(listed)) for test in self.tree.named_after(path))
        importers = filter(is_test, self.tree.importers(path))
        yield from self._cheapest(importers, f"imports {path}", further=bool(listed))
        if not listed:  # a new module, one without functions, or a program that only child processes run
            yield from self._of_neighbours(path)
            yield from self._naming(path)

    def _of_neighbours(self, path: str) -> Candidates:
        """Yield the tests of the nearest modules that import a module, else of the modules in its folder."""
        seen, nearest = {path}, {path}
        while nearest and not any(map(self.table.modules.get, nearest)):
            nearest = {other for one in nearest for other in self.tree.importers(one)} - seen
            seen |= nearest
        folder = PurePosixPath(path).parent
        for module in sorted(nearest) or sorted(self.table.modules):
            if nearest or PurePosixPath(module).parent == folder:
                listed = self.table.modules.get(module, ())
                yield from self._cheapest(listed, f"executes {module}, near {path}")

    def _of_support(self, path: str) -> Candidates:
        """Yield the test files that use a file of tests/support or a conftest, also through other support files."""
        folder = str(PurePosixPath(path).parent)
        if PurePosixPath(path).name == "conftest.py":
            users = {test for test in self.tree.tests if test.startswith(f"{folder}/")}
        else:
            users, waiting = set[str](), [path]
            while waiting:
                others = set(self.tree.importers(waiting.pop())) - users
                users |= others
                waiting += [other for other in others if not is_test(other) and not other.endswith("conftest.py")]
        yield from self._cheapest(filter(is_test, users), f"uses {path}")
        yield from self._naming(path)

    def _of_page(self, path: str) -> Candidates:
        """Yield tests of the page without a browser, and of the screens that load a file."""
        yield from self._guarding(path)
        yield from self._naming(path)
        without = [test for test in self.tree.tests if not is_of_page(test) and "/test_page" in test]
        yield from self._cheapest(without, "tests the page without a browser")
        screens = self._screens(path)
        visits = {test: set(_visited(source)) for test, source in self.tree.tests.items() if is_of_page(test)}
        few = sorted(visits, key=lambda test: (len(visits[test]), self.table.cost(test)))
        for screen in sorted(screens):
            reason = f"visits {screen}, which loads {path}"
            yield from (Candidate(test, reason) for test in few if screen in visits[test])

    def _guarding(self, path: str) -> Candidates:
        yield from self._cheapest(self.tree.guarding(path), f"guards {path}")

    def _naming(self, path: str) -> Candidates:
        yield from self._cheapest(self.tree.naming(path), f"contains {PurePosixPath(path).name}")

    def _screens(self, path: str) -> set[str]:
        scripts = {name: self.tree.source(name) for name in self.tree.files if name.startswith("api/web/")}
        users, waiting = {path}, [path]
        while waiting:
            loaded = waiting.pop()
            others = {name for name, source in scripts.items() if loaded in _js_imported(name, source)} - users
            users |= others
            waiting += others
        screens = {PurePosixPath(user).stem for user in users if user.startswith("api/web/routes/")}
        return screens or {PurePosixPath(name).stem for name in scripts if name.startswith("api/web/routes/")}

    def _cheapest(self, tests: Iterable[str], reason: str, *, further: bool = False) -> Candidates:
        yield from (Candidate(test, reason, further) for test in sorted(tests, key=self.table.cost))

    def choose(self, paths: Iterable[str]) -> Choice:
        """Choose the changed tests, and others in turn from each changed file until the time is used up."""
        choice = Choice()
        queues = [iter(list(self.candidates(path))) for path in sorted(paths, key=lambda path: not is_test(path))]
        while queues:
            for queue in tuple(queues):
                if (candidate := next(queue, None)) is None:
                    queues.remove(queue)
                else:
                    self._add(choice, *candidate)
        choice.left_out -= choice.reasons.keys()
        return choice

    def _add(self, choice: Choice, test: str, reason: str, further: bool) -> None:
        file = test.partition("::")[0]
        if not self._is_fast(test) or file in choice.reasons or test in choice.reasons:
            return
        cost = self.table.cost(test)
        most = _MOST_FURTHER_SECONDS if further else MOST_SECONDS
        if reason != "changed" and choice.seconds + cost > most:
            choice.left_out.add(test)
            return
        if test == file:
            for single in [other for other in choice.reasons if other.startswith(f"{file}::")]:
                choice.seconds -= self.table.cost(single)
                del choice.reasons[single]
        choice.reasons[test] = reason
        choice.seconds += cost

    def _is_fast(self, test: str) -> bool:
        """Return whether a test exists and `make test` runs it, or some of its cases."""
        file = test.partition("::")[0]
        recorded = not file.startswith("tests/faults/") or file in self.table.tests  # most of that folder are slow
        return self.tree.has(test) and recorded and not {file, test} & self.tree.slow


_EXISTING = ("ls-files", "--cached", "--others", "--exclude-standard")


def changed_files(root: Path, reference: str) -> list[str]:
    """Return the files that differ from the common ancestor with a reference, and files that git does not track yet."""
    changed = _git(root, "diff", "--name-only", "--no-renames", "--merge-base", reference)
    return sorted({*changed, *_git(root, "ls-files", "--others", "--exclude-standard")})


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(root), *arguments, "-z"], capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split("\0") if path]


def is_test(path: str) -> bool:
    return path.startswith("tests/") and re.fullmatch(r"test_\w+\.py", PurePosixPath(path).name) is not None


def is_of_page(path: str) -> bool:
    return path.startswith("tests/page/")


def _module(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[2:] if parts[0] == "clients" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(source: str, modules: Mapping[str, str]) -> Iterator[str]:
    """Yield the files of modules that a source imports, also of a package's modules: `from shared import retry`."""
    for module, names, direct in _IMPORTS.findall(source):
        for one in (module, *re.split(r"[,\s]+", direct)):
            if one in modules:
                yield modules[one]
        for name in re.findall(r"\w+", names):
            if (inner := f"{module}.{name}") in modules:
                yield modules[inner]


def _js_imported(path: str, source: str) -> set[str]:
    folder = str(PurePosixPath(path).parent)
    return {os.path.normpath(f"{folder}/{name}") for name in _JS_IMPORTS.findall(source)}


def _visited(source: str) -> Iterator[str]:
    for address in _VISITS.findall(source):
        name = address.removeprefix("lab/")
        yield _SCREENS.get(name, name)
        if address == "documents":
            yield "document"


def run(choice: Choice, options: Sequence[str]) -> int:
    """Run the chosen tests, and the page's tests in a second run with a browser."""
    page = [test for test in choice.reasons if is_of_page(test)]
    others = [test for test in choice.reasons if not is_of_page(test)]
    codes = []
    if others:
        processes = 2 if choice.seconds > _PARALLEL_SECONDS and (os.cpu_count() or 1) > 1 else 0
        parallel = ["--numprocesses", str(processes), "--dist", "loadscope", "--no-loadscope-reorder"]
        codes.append(_pytest([*others, *parallel, *options]))
    if page and find_spec("playwright") and shutil.which("chromium"):
        codes.append(_pytest([*page, *options]))
    elif page:
        print(f"NOT RUN: {len(page)} test files of the page need a browser: make page-test")
        codes.append(1)
    return max((code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED), default=0)


def _pytest(arguments: Sequence[str]) -> int:
    return subprocess.call(
        [sys.executable, "-m", "pytest", "-m", "not slow", "--histories", "10", "--timeout", "900", *arguments],
        cwd=ROOT,
    )


def show(paths: Sequence[str], choice: Choice, table: Table) -> None:
    print(f"{len(paths)} changed files:", *paths, sep="\n  ")
    print("Tests:")
    for test, reason in sorted(choice.reasons.items()):
        print(f"  {test}  ({reason})")
    chosen, complete = sum(map(table.number, choice.reasons)), sum(table.tests.values())
    print(f"About {chosen} tests of {complete}, {choice.seconds:.0f} s one after the other.", end=" ")
    left_out = sum(map(table.number, choice.left_out))
    print(f"{left_out} more that use these files are left out: `make test` runs them." if left_out else "", flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make test CHANGED=", description=__doc__)
    parser.add_argument("reference", nargs="?", default="HEAD", help="git reference; 1 means HEAD")
    parser.add_argument("--list", action="store_true", help="print the tests without running them")
    known, options = parser.parse_known_args(arguments)
    started = time.monotonic()
    reference = "HEAD" if known.reference == "1" else known.reference
    paths, table = changed_files(ROOT, reference), Table.read(ROOT)
    choice = Chooser(Tree(ROOT), table).choose(paths)
    show(paths, choice, table)
    if known.list:
        return 0
    code = run(choice, options)
    print(f"{time.monotonic() - started:.0f} s. The complete run is `make test`.")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
