r"""Commands that a LaTeX file defines itself: `\newcommand`, `\def` and their relatives, written out in its text.

Only replacement is done, as TeX does for such commands (The TeXbook, chapter 20); conditions and counters are not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_NAME = r"\\(?P<{}>[A-Za-z@]{{1,40}}+)"
_DEFINITION = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand|DeclareRobustCommand)\*?\s{0,9}"
    rf"(?:\{{\s{{0,9}}{_NAME.format('braced')}\s{{0,9}}\}}|{_NAME.format('bare')})\s{{0,9}}"
    r"(?:\[(?P<count>\d)\])?\s{0,9}(?:\[(?P<default>[^\]\n]{0,200}+)\])?\s{0,9}(?=\{)"
    rf"|\\(?:New|Renew|Provide|Declare)DocumentCommand\s{{0,9}}\{{?\s{{0,9}}{_NAME.format('document')}\s{{0,9}}\}}?\s{{0,9}}"
    r"\{(?P<signature>[mosO{} ]{0,40})\}\s{0,9}(?=\{)"
    rf"|\\[gex]?def\s{{0,9}}{_NAME.format('defined')}(?P<parameters>(?:#[1-9]){{0,9}})\s{{0,9}}(?=\{{)"
)
_COMMAND = re.compile(r"\\(?:([A-Za-z@]{1,40}+)|[\s\S])")
_OPTIONAL = re.compile(r"\s{0,9}\[([^\]]{0,500})\]")
_TOKEN = re.compile(r"\s{0,9}(\\[A-Za-z@]{1,40}+|\\?[^\\{}\s])")
_GROUP = re.compile(r"\s{0,9}(?=\{)")
_PARAMETER = re.compile(r"#([1-9])")
_BRACE = re.compile(r"\\[\s\S]|[{}]")
_MOST_BODY_CHARS = 5_000
_MOST_WRITTEN_CHARS = 4_000_000
_MOST_WRITTEN = 50_000
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class Macro:
    """A defined command.

    Args:
        body: its replacement, with `#1` to `#9` for arguments.
        count: number of its arguments.
        default: the first argument, if it is optional; None, if it is not.
    """

    body: str
    count: int
    default: str | None


def without_definitions(source: str, known: Iterable[str]) -> tuple[str, dict[str, Macro]]:
    """Return a source without its definitions, and the defined commands.

    Args:
        source: a file without comments.
        known: names that keep their usual meaning, such as `section`; their new definitions only change the look.
    """
    kept, macros, at = list[str](), dict[str, Macro](), 0
    known = frozenset(known)
    for found in _DEFINITION.finditer(source):
        end = _end_of_group(source, found.end())
        if found.start() < at or end < 0:
            continue
        kept.append(source[at : found.start()])
        at = end
        name = next(filter(None, found.group("braced", "bare", "document", "defined")))
        macro = _macro(found, source[found.end() + 1 : end - 1])
        if name not in known and "@" not in macro.body:
            macros[name] = macro
    return "".join((*kept, source[at:])), macros


def _macro(found: re.Match[str], body: str) -> Macro:
    if found["document"]:
        signature = re.sub(r"O\{[^{}]*\}", "o", found["signature"]).replace(" ", "")
        return Macro(body, len(signature), "" if signature.startswith("o") else None)
    if found["defined"]:
        return Macro(body, len(found["parameters"]) // 2, None)
    return Macro(body, int(found["count"] or 0), found["default"])


def _end_of_group(source: str, start: int) -> int:
    """Return the position after the group that starts there; -1 if it is too long or not closed."""
    depth = 0
    for brace in _BRACE.finditer(source, start, start + _MOST_BODY_CHARS):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0 and brace[0] == "}":
            return brace.end()
    return -1


class Expansion:
    """Writes out commands; an endless definition ends at a limit, and its command is left as it is.

    Args:
        macros: the defined commands.
    """

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self._macros = macros
        self._chars, self._count = _MOST_WRITTEN_CHARS, _MOST_WRITTEN

    def written_out(self, source: str, depth: int = 0) -> str:
        """Return a source with the bodies of its commands."""
        if not self._macros:
            return source
        kept, at = list[str](), 0
        for found in _COMMAND.finditer(source):
            macro = self._macros.get(found[1])
            if macro is None or found.start() < at:
                continue
            arguments, end = _arguments(source, found.end(), macro)
            body = _with_arguments(macro.body, arguments)
            self._chars -= len(body)
            self._count -= 1
            if self._chars < 0 or self._count < 0 or depth > _DEEPEST:
                break
            kept += (source[at : found.start()], self.written_out(body, depth + 1))
            at = end
        return "".join((*kept, source[at:]))


def _with_arguments(body: str, arguments: Mapping[int, str]) -> str:
    return _PARAMETER.sub(lambda number: arguments.get(int(number[1]), ""), body)


def _arguments(source: str, at: int, macro: Macro) -> tuple[dict[int, str], int]:
    """Return the arguments of a command, and the position after them."""
    arguments = dict[int, str]()
    if macro.default is not None:
        optional = _OPTIONAL.match(source, at)
        arguments[1], at = (optional[1], optional.end()) if optional else (macro.default, at)
    for number in range(len(arguments) + 1, macro.count + 1):
        group = _GROUP.match(source, at)
        end = _end_of_group(source, group.end()) if group else -1
        if group and end > 0:
            arguments[number], at = source[group.end() + 1 : end - 1], end
        elif token := _TOKEN.match(source, at):
            arguments[number], at = token[1], token.end()
    if not macro.count and source.startswith("{}", at):
        at += 2
    return arguments, at
