"""Regular expressions work in each supported release of Python."""

import ast
import re

import pytest

from tests.support.planted import guards
from tests.support.planted.bugs import ROOT

_FOLDERS = ("api", "cli", "clients", "embedded", "shared", "workers")
_POSSESSIVE_GROUP = re.compile(r"(?<![\\(])\)(?:[*+?]|\{\d*,?\d*\})\+")


def patterns():
    """Yield the texts of the product that are regular expressions with a possessive quantifier of a group."""
    for path in sorted(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and _POSSESSIVE_GROUP.search(text):
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


@guards(
    "shared/ingest/parse/readers/json.py",
    r'"((?:[^"\\]|\\.)*)"(\s*+:)?',
    r'"((?:[^"\\]|\\.)*+)"(\s*+:)?',
    means="a pattern does not match in Python 3.11.2",
)
def test_no_quantifier_of_a_group_is_possessive():
    """Until Python 3.11.5 such a quantifier loses its position if an alternative in the group fails."""
    assert list(patterns()) == []


@pytest.mark.parametrize("pattern", [r"(?:ab|a\.)*+", r"(a|b){2,9}+x", r"(?:a)?+"])
def test_possessive_quantifiers_of_groups_are_found(pattern):
    assert _POSSESSIVE_GROUP.search(pattern)


@pytest.mark.parametrize("pattern", [r"(a)+", r"[()]*+", r"\)*+", r"(a*+)b"])
def test_other_possessive_quantifiers_are_allowed(pattern):
    assert not _POSSESSIVE_GROUP.search(pattern)
