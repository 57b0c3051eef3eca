"""Planted bugs: `guards` declares a bug above the test that must catch it, and `make planted` plants each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


def guards(
    file: str,
    old: str,
    new: str,
    *more: str,
    means: str,
    case: str | None = None,
    histories: int | None = None,
) -> Callable[[Test], Test]:
    """Declare that this test must fail if a text of a file is replaced; the test itself stays as it is.

    The declaration is read without importing the test (`tests.support.planted.bugs`), so each argument is a literal.
    Choose short texts on one line, so that a change of the surrounding code does not affect them.

    Args:
        file: file with the bug, relative to the root of the tree.
        old: text that occurs exactly once in the file.
        new: text that replaces it.
        more: further texts of the same file with their replacements, in turn.
        means: the bug in words.
        case: id of the parameters that catch the bug; by default all cases of the test run, and one must fail.
        histories: value of pytest's option `--histories`, if the default number of random histories misses the bug.
    """
    return lambda test: test
