"""Check prose and test names: `python -m tests.support.prose [--root DIR] [--all] [--new] [--count] [FILE ...]`.

Docstrings, comments, messages, descriptions of fields and options, documentation, UI texts, and texts in SQL and Lua
must not contain the phrases in `PHRASES`; each has a plain replacement. Test names have at most eight words and start
with a subject. `prose.toml` next to this file lists the files that are checked by default, and the exceptions with
their reasons. The exit code is 1 if anything is reported.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.support.passed import Passed

RULES = Path(__file__).with_name("prose.toml")
MOST_WORDS = 8  # in a test name after `test_`

_PARTICIPLES = "asked|kept|known|found|held|wanted|told"
# After a participle, these words or the end of the clause show that it is used as a noun: "the kept are deleted".
_CLAUSE = r"(?=$|[.,;:)]| (?:is|are|was|were|has|have|of|in|by|for|and|or|to|from|with|that|which)\b)"

# Regular expression that ignores case: plain replacement.
PHRASES: Mapping[str, str] = {
    r"\bwhat\b(?! to\b)(?![^.]*\?)": "a noun for the thing",
    r"\bwhoever\b|\bwhomever\b": "the client, the caller",
    r"\b(?:nobody|somebody|everybody|anybody|no one|someone|everyone|anyone)\b": "no worker, a client, every tenant",
    r"\bstrangers?\b": "another user, untrusted input",
    r"(?:^|[.;:] |\b(?:those|one|ones|for|of|to|by|from|with|than) )who\b": "the client, the caller",
    r"\b(?:that|those) (?:of|that|whose|which)\b|\bones? that\b": "repeat the noun",
    rf"\bthose (?:{_PARTICIPLES})\b|\bthe (?:{_PARTICIPLES}){_CLAUSE}": "requests, retained rows, hits, targets",
    r"\bhas it that\b": "states that",
    r"\bhand(?:s|ed|ing)? (?:in|it in|them in|over)\b|\bhand(?:s|ed|ing) (?:\w+ )?to\b": "upload, submit, pass",
    r"\b(?:comes?|came|coming) in\b": "arrive",
    r"\b(?:is|are|was|were|be|been|being|stays?|took|tak(?:e|es|en|ing)) away\b": "unavailable, remove",
    r"\bgone\b": "deleted, missing",
    r"(?<!\bthat )\b(?:is|are|was|were|be) (?:not |no longer |already |still )?there\b": "exists, is stored",
    r"\b(?:stands?|stood)\b(?! for\b)": "exists, is stored",
    r"\blies\b": "is stored",
    r"(?<!\bthere )(?<!\bhere )\b(?:is|are|was|were) (?:no|none)\b(?! longer\b)": "is not a(n), does not exist",
    r"\b(?:tells?|told|telling)\b": "report, notify",
    r"\b(?:hears?|heard)\b": "receive an event",
    r"\b(?:goes|went)\b|\bgo (?:on|away)\b": "is deleted, is sent, continue",
    r"\b(?:begins?|began|begun)\b": "start",
    r"\b(?:beside|besides|behind)\b": "next to, after, concurrently",
    r"\b(?:anew|all the same|once more)\b": "again, anyway",
    r"\b(?:patience|verdicts?)\b|\bjudge[ds]?\b": "timeout, result, rating",
    r"\ba (?:look|turn)\b": "a poll, an iteration",
    r"\b(?:give|gives|given|gave|giving) (?:\w+ ){0,2}up\b": "abandon, release",
    r"\b(?:put|puts|putting) off\b": "defer",
    r"\blets? (?:\w+ )?go\b": "release",
    r"\b(?:take|takes|taken|took|taking) (?:\w+ )?back\b": "retract",
    r"\b(?:take|takes|taken|took|taking) (?:\w+ ){1,3}along\b": "also cancel, also delete",
    r"\bunder way\b|\bin work\b": "running, claimed",
    r"\bin (?:the )?place of\b": "instead of",
    r"\b(?:a|the|its|this|that|no|one|two|each|every|all|these|another|other|same|free|of) places?\b": (
        "location, slot, position, rank, index"
    ),
    r"\bwhere (?:there|it|they|this|none|nothing|no|neither|not|one)\b": "if, when",
    r", for (?:it|they|there|this|that|he) ": "because",
    r"^(?:have|let|say) ": "the verb itself",
    r"\bthe way of\b": "the path of",
    r"\bcrowds?\b": "the exact noun",
}
# Words that a test name must not contain, and words with which it must not start.
NAME_WORDS = re.compile(
    r"_(?:what|who|whom|whose|whoever|nobody|somebody|everybody|anybody|strangers?|away|gone|anew|told|tells?|hears?|stands"
    r"|stood|behind|beside|goes|went|begins?|began|begun|patience|verdicts?|judged?|places?|gives?_up|given_up|put_off|lets?_go"
    r"|taken?_back|takes_back|handed_in|hands_in|comes?_in|once_more|all_the_same|under_way|is_no|are_no)(?=_|$)"
    r"|(?<=^test)_(?:its?|they|their|ones?|those|that|where|of|for|with)(?=_)"
)
ARGS_STARTS = re.compile(r"(?i)^(?:of|those|what|that|whose|where|who|how|which)\b")

_COMPILED = [(re.compile(phrase, re.IGNORECASE), plain) for phrase, plain in PHRASES.items()]
_CODE = re.compile(r"``.*?``|`[^`]*`|https?://\S+|\]\([^)]*\)|<[^>]+>|\{[^{}]*\}|\"[^\"\n]{0,80}\"|“[^”]*”")
_SQL = re.compile(r"\b(?:SELECT|UPDATE|INSERT|DELETE|CREATE|WHERE|FROM|EXISTS|GRANT)\b")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_MESSAGE_WORDS = 3  # shorter strings are names, not messages
_PROSE_ARGUMENTS = {"description", "help", "summary"}  # texts of any length, of options, fields and routes
_QUOTED = r"'[^']*'|\"[^\"]*\""
# The comment of a line by its mark, which does not count within quotes.
_COMMENTS = {
    "--": re.compile(rf"^(?:[^'\"-]|-(?!-)|{_QUOTED})*--+ ?(.*)$"),
    "#": re.compile(rf"^(?:[^'\"#]|{_QUOTED})*#+ ?(.*)$"),
}


class Text(NamedTuple):
    line: int
    words: str


class PhraseHit(NamedTuple):
    path: str
    line: int
    words: str
    plain: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Files that are checked, and exceptions.

    Args:
        checked: patterns of paths.
        allowed: allowed phrases by pattern of paths.
    """

    checked: tuple[str, ...]
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path = RULES) -> Self:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        allowed = {one["path"]: tuple(one["phrases"]) for one in values.get("exception", ()) if one["reason"]}
        return cls(tuple(values["checked"]), allowed)

    def allows(self, path: str, line: str) -> bool:
        return any(fnmatch(path, at) and any(p in line for p in phrases) for at, phrases in self.allowed.items())


def hits(path: str, source: str, rules: Rules) -> Iterator[PhraseHit]:
    """Yield the hits in a file.

    Args:
        path: path in the repository; its suffix decides how prose is found.
        source: content of the file.
        rules: exceptions.
    """
    for line, words in _texts(path, source):
        plain_text = _CODE.sub("\u2026", words)
        for phrase, plain in _COMPILED:
            if (match := phrase.search(plain_text)) and not rules.allows(path, words):
                yield PhraseHit(path, line, match[0].strip(), plain)
    for hit in (*_names(path, source), *_entries(path, source)):
        if not rules.allows(path, hit.words):
            yield hit


def _texts(path: str, source: str) -> Iterator[Text]:
    suffix = path.rpartition(".")[2]
    if suffix == "py":
        yield from _python(source, messages=not path.startswith("tests/"))
    elif suffix == "md":
        yield from _markdown(source)
    elif suffix in {"js", "ts", "html", "css"}:
        yield from _page(source)
    elif suffix in {"sql", "lua"}:
        yield from _commented(source, "--")
    elif suffix in {"yml", "yaml", "toml"} or path.endswith(("Makefile", "Dockerfile")):
        yield from _commented(source, "#")


def _python(source: str, *, messages: bool) -> Iterator[Text]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], re.sub(r"^#+ ?(?:noqa\S*(?: \w\d+,?)*)?", "", token.string))
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            value = node.body[0].value  # type: ignore[attr-defined]
            docstrings.add(value)
            yield from _docstring(value)
    if messages:
        yield from _messages(tree, docstrings)


def _messages(tree: ast.AST, docstrings: Collection[ast.AST]) -> Iterator[Text]:
    """Yield the texts of options, fields and routes, and other string constants with enough words."""
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in _PROSE_ARGUMENTS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in docstrings and (node in prose or _is_message(node.value)):
            yield Text(node.lineno, str(node.value))


def _is_message(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) > _MESSAGE_WORDS and not _SQL.search(value)


def _docstring(value: ast.Constant) -> Iterator[Text]:
    for number, line in enumerate(str(value.value).splitlines(), value.lineno):
        yield Text(number, line.strip())


def _markdown(source: str) -> Iterator[Text]:
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield Text(number, line.lstrip("#->|* "))


def _page(source: str) -> Iterator[Text]:
    """Yield comments, texts between tags, and strings of at least two words."""
    for number, line in enumerate(source.splitlines(), 1):
        for comment in re.findall(r"(?:^|\s)//(.*)$|^\s*/?\*+(.*?)(?:\*/)?$|/\*+(.*?)\*/\s*$|<!--(.*?)-->", line):
            yield Text(number, "".join(comment).strip())
        for text in re.findall(r">([^<>${}`]+)<|\"([^\"]+ [^\"]+)\"|`([^`$<>]+ [^`$<>]+)`", line):
            yield Text(number, "".join(text).strip())


def _commented(source: str, mark: str) -> Iterator[Text]:
    """Yield the comments of lines, and in SQL and Lua also their messages."""
    for number, line in enumerate(source.splitlines(), 1):
        comment = _COMMENTS[mark].match(line)
        if comment:
            yield Text(number, comment[1])
        if mark == "--":
            for quoted in re.findall(_QUOTED, line[: comment.start(1)] if comment else line):
                if _is_message(quoted):
                    yield Text(number, quoted.strip("'\""))


def _names(path: str, source: str) -> Iterator[PhraseHit]:
    """Yield the test names that are too long or unclear."""
    if not path.rpartition("/")[2].startswith("test_"):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            if len(node.name.split("_")) > 1 + MOST_WORDS:
                yield PhraseHit(path, node.lineno, node.name, f"at most {MOST_WORDS} words")
            elif NAME_WORDS.search(node.name):
                yield PhraseHit(path, node.lineno, node.name, "subject, condition, result")


def _entries(path: str, source: str) -> Iterator[PhraseHit]:
    """Yield the entries of `Args:` sections that do not start with a noun phrase."""
    if path.endswith(".py"):
        section = False
        for number, line in enumerate(source.splitlines(), 1):
            section = line.strip() == "Args:" or (section and bool(line.strip()) and line.strip() != "Returns:")
            match = re.match(r" +\*{0,2}\w+(?:, \w+)*: (.*)$", line) if section else None
            if match and ARGS_STARTS.match(match[1]):
                yield PhraseHit(path, number, match[1][:40], "a noun phrase with units and shapes")


def tracked(root: Path) -> list[str]:
    """Return the paths of files under version control, and of new files that git does not ignore."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="paths in the repository; by default those that prose.toml lists")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="repository")
    parser.add_argument("--all", action="store_true", help="check every file, also those that are not listed yet")
    parser.add_argument("--new", action="store_true", help="skip files that have passed with their present content")
    parser.add_argument("--count", action="store_true", help="print numbers by folder only")
    options: Any = parser.parse_args(arguments)
    rules = Rules.read()
    passed = Passed("prose", [Path(__file__).read_text(), RULES.read_text(), sys.version], options.root)
    found: list[PhraseHit] = []
    for path in options.files or tracked(options.root):
        listed = options.all or options.files or any(fnmatch(path, at) for at in rules.checked)
        file = options.root / path
        if listed and file.is_file() and not _generated(path):
            source = file.read_text(encoding="utf-8", errors="replace")
            if options.new and passed.has([path, source]):
                continue
            if reported := list(hits(path, source, rules)):
                found += reported
            else:
                passed.add([path, source])
    if options.new:
        passed.save()
    if not options.count:
        for hit in found:
            print(f"{hit.path}:{hit.line}: {hit.words} → {hit.plain}")
    for folder, number in sorted(Counter(_folder(hit.path) for hit in found).items()):
        print(f"{number:6}  {folder}")
    print(f"{len(found):6}  hits")
    return 1 if found else 0


def _generated(path: str) -> bool:
    return path.startswith(("tests/files/", "api/web/vendor/")) or path.endswith((".svg", ".lock"))


def _folder(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


if __name__ == "__main__":
    sys.exit(main())
