"""The bugs that tests declare with `guards`, read from the source of the tests."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.planted import guards

ROOT = Path(__file__).resolve().parents[3]
_SIGNATURE = inspect.signature(guards)


@dataclass(frozen=True)
class Bug:
    """A deliberate bug: the first text of each edit is replaced by the second.

    Args:
        test: node id of the test that must fail.
        file: the file with the bug.
        edits: the replaced texts and their replacements.
        means: the bug in words.
        histories: number of random histories, if the test needs more than its default.
    """

    test: str
    file: str
    edits: tuple[tuple[str, str], ...]
    means: str
    histories: int | None = None

    @property
    def test_file(self) -> str:
        return self.test.partition("::")[0]

    def planted(self, text: str) -> str:
        """Return the file's text with the bug."""
        for old, new in self.edits:
            text = text.replace(old, new)
        return text

    def misfits(self) -> list[str]:
        """Return the reasons why the bug does not fit the tree; none if it can be planted."""
        path = ROOT / self.file
        if not path.exists():
            return [f"{self.file} does not exist"]
        text = path.read_text()
        counts = {old: text.count(old) for old, _ in self.edits}
        wrong = [f"{self.file} contains {old!r} {count} times instead of once" for old, count in counts.items()]
        wrong = [reason for reason, count in zip(wrong, counts.values(), strict=True) if count != 1]
        if not wrong and path.suffix == ".py":
            try:
                ast.parse(self.planted(text))
            except SyntaxError as error:
                wrong.append(f"{self.file} is not valid with the bug: {error.msg}")
        return wrong


def declared(folder: Path = ROOT / "tests") -> list[Bug]:
    """Return the bugs that the tests of a folder declare.

    Raises:
        ValueError: an argument of a declaration is not a literal, is missing or is not known.
    """
    sources = ((path, path.read_text()) for path in sorted(folder.rglob("test_*.py")))
    return [
        bug
        for path, source in sources
        if "@guards(" in source  # the others need not be parsed
        for bug in declared_in(source, path.relative_to(folder.parent).as_posix())
    ]


def declared_in(source: str, file: str) -> Iterator[Bug]:
    """Yield the bugs that the tests of a file declare."""
    module = ast.parse(source)
    for parent in (module, *(node for node in module.body if isinstance(node, ast.ClassDef))):
        for test in parent.body:
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                name = "::".join([file, *([parent.name] if isinstance(parent, ast.ClassDef) else []), test.name])
                yield from (_bug(name, decorator) for decorator in test.decorator_list if _is_guard(decorator))


def _is_guard(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == guards.__name__


def _bug(test: str, call: ast.expr) -> Bug:
    assert isinstance(call, ast.Call)
    try:
        texts = [ast.literal_eval(argument) for argument in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        file, *edits = _SIGNATURE.bind(*texts, **named).args
        case = f"[{named['case']}]" if named.get("case") else ""
        return Bug(
            test + case,
            file,
            tuple(zip(edits[::2], edits[1::2], strict=True)),
            named["means"],
            named.get("histories"),
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{test}, line {call.lineno}: {error}") from error
