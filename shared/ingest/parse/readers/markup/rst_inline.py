"""Inline markup of reStructuredText, and the words of a file by their lines alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from shared.ingest.parse.readers.markdown import one_line

_MARKUP = re.compile(
    r"``(?P<code>(?:[^`]|`(?!`)){1,2000})``"
    r"|:(?P<role>[\w:+.-]{1,60}):`(?P<text>(?:[^`\\]|\\.){1,2000})`(?:__?)?"
    r"|_?`(?P<quoted>(?:[^`\\]|\\.){1,2000})`(?::(?P<after>[\w:+.-]{1,60}):|__?)?"
    r"|\[(?P<note>#?[\w.:+-]{0,60}|\*)\]_"
    r"|\|(?P<name>[^|\s](?:[^|\n]{0,100}[^|\s])?)\|(?:__?)?"
    r"|(?<![\w_])(?P<word>\w[\w.+-]{0,60}?)__?(?![\w_])"
    r"|\\(?P<escaped>[\s\S])",
)
_AIMED = re.compile(r"(.{0,2000}?)(?<!\\)\s{0,9}(?<!\\)<([^<>]{1,2000})>\Z", re.DOTALL)
_CODE_ROLES = frozenset(
    [
        "func",
        "function",
        "class",
        "meth",
        "method",
        "mod",
        "module",
        "attr",
        "data",
        "exc",
        "obj",
        "const",
        "file",
        "code",
        "command",
        "option",
        "envvar",
        "program",
        "kbd",
        "samp",
        "literal",
        "any",
        "term",
        "token",
        "keyword",
        "py",
        "c",
        "cpp",
        "js",
        "macro",
        "member",
        "type",
        "makevar",
        "regexp",
        "dfn",
        "confval",
        "setting",
    ]
)
_EXPLICIT = re.compile(
    r"\.\.(?:\s+(?:\|[^|]{1,200}\|\s+)?(?P<name>[A-Za-z][\w:+.-]{0,60}?)\s?::|\s+\[(?P<note>[^\]]{1,100})\]|\s|\Z)"
)
_OPTION = re.compile(r":[\w-]{1,40}:(?:\s|\Z)")
_SHOWN_OPTION = re.compile(r":(?:caption|alt|header):")
UNREAD = frozenset(
    [
        "contents",
        "toctree",
        "include",
        "index",
        "raw",
        "meta",
        "class",
        "role",
        "default-role",
        "highlight",
        "currentmodule",
        "sectnum",
        "target-notes",
        "testsetup",
        "testcleanup",
        "tabularcolumns",
        "literalinclude",
        "restructuredtext-test-directive",
    ]
)
"""Directives whose content is for programs."""

_DATA = UNREAD | {"image", "figure"}
_CODE = frozenset(["code", "code-block", "sourcecode"])
_ROLE = re.compile(r":[\w:+.-]{1,60}:(?=`)|(?<=`):[\w:+.-]{1,60}:")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PLAIN_TARGET = re.compile(r"(?<=[^\s`<])\s{1,9}<[^<>`\n]{1,2000}>(?=`)")


class Inline:
    """Converts inline markup.

    Args:
        targets: addresses by the names of links.
        substitutions: texts by name.
    """

    def __init__(self, targets: Mapping[str, str], substitutions: Mapping[str, str]) -> None:
        self._targets = targets
        self._substitutions = substitutions

    def text(self, source: str) -> str:
        """Return a text as Markdown."""
        return _MARKUP.sub(self._converted, source) if source else source

    def _converted(self, found: re.Match[str]) -> str:  # noqa: PLR0911 - one for each kind of markup
        if found["code"]:
            return _code(found["code"])
        if found["role"]:
            return self._role(found["role"], found["text"])
        if found["quoted"]:
            return self._role(found["after"], found["quoted"]) if found["after"] else self._link(found["quoted"])
        if found["note"] is not None:
            return f"[{found['note'].lstrip('#') or '*'}]"
        if found["name"]:
            return self._substitutions.get(found["name"], found["name"])
        if found["word"]:
            word = found["word"]
            return self._linked(word, word) if word.lower() in self._targets else found[0]
        escaped = found["escaped"] or ""
        return "" if escaped.isspace() else found[0] if not escaped.isalnum() else escaped

    def _role(self, role: str, text: str) -> str:
        name = role.lower().rpartition(":")[2]
        aimed = _AIMED.match(text)
        shown = _bare(aimed[1] if aimed and aimed[1] else text).lstrip("~!")
        if name == "math":
            return f"${one_line(text)}$"
        if name in ("pep", "rfc") and not aimed:
            return f"{name.upper()} {shown}"
        return _code(shown) if name in _CODE_ROLES or ":" in role else shown

    def _link(self, text: str) -> str:
        if aimed := _AIMED.match(text):
            address = aimed[2].strip()
            return self._linked(_bare(aimed[1]) or address, address)
        return self._linked(_bare(text), text)

    def _linked(self, shown: str, name: str) -> str:
        address = self._targets.get(one_line(name).lower(), name)
        return f"[{shown}]({address})" if "://" in address and not set(address) & set(" ()<>") else shown


def _bare(text: str) -> str:
    return one_line(_ESCAPED.sub(r"\1", text))


def _code(text: str) -> str:
    text = one_line(text)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def plain_text(lines: Sequence[str]) -> str:
    """Return the words of a file by its lines alone, without names of directives, options, comments and targets."""
    kept, skipped, options = list[str](), -1, False
    for line in lines:
        bare = line.lstrip()
        indent = len(line) - len(bare)
        if skipped >= 0 and (not bare or indent > skipped):
            continue
        skipped = -1
        options = options and bool(bare)
        if bare.startswith("..") and (explicit := _EXPLICIT.match(bare)):
            name = (explicit["name"] or "").lower().rpartition(":")[2]
            options = True
            shown = explicit["name"] or explicit["note"]
            if not shown or bare.startswith(".. |") or (name in _DATA and name not in ("image", "figure")):
                skipped = indent
            elif name not in _DATA and name not in _CODE:
                kept.append((explicit["note"] or "") + " " + bare[explicit.end() :])
        elif options and _OPTION.match(bare):
            if _SHOWN_OPTION.match(bare):
                kept.append(bare.partition(": ")[2])
        elif not bare.startswith("__ "):
            kept.append(bare)
    text = _PLAIN_TARGET.sub("", _ROLE.sub("", "\n".join(kept)))
    return text.replace("\\ ", "")
