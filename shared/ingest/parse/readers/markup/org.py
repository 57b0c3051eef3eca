"""Reader of Org (Org Syntax of orgmode.org): a scanner over lines.

Read: headings, lists, tables, notes and blocks. Not read: comments, drawers of properties and logs, and keywords
without text. It runs nothing and includes no file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from shared.ingest.parse.readers.markdown import as_paragraph, as_table, one_line
from shared.ingest.parse.readers.reading import FileReading, Part

_HEADING = re.compile(r"(\*{1,50})\s+(.*)\Z")
_TAGS = re.compile(r"\s+:[\w@#%:]{1,200}:\Z")
_KEYWORD = re.compile(r"\s*#\+([\w-]{1,60})(?:\[[^\]]{0,200}\])?:\s*(.*)\Z")
_BEGIN = re.compile(r"\s*#\+begin_([\w-]{1,60})\s*(.*)\Z", re.IGNORECASE)
_DRAWER = re.compile(r"\s*:([\w-]{1,60}):\s*\Z")
_ITEM = re.compile(
    r"(\s*)(?:([-+])|(\*)(?<=\s\*)|(\d{1,9}|[A-Za-z])[.)])(?:\s+|\Z)(?:\[@\d{1,9}\]\s+)?(\[[ Xx-]\]\s+)?(.*)\Z"
)
_RULE = re.compile(r"\s*(?:\|[-+]{1,2000}+\|?|-{5,2000}+)\s*\Z")
_COLUMN_CODE = re.compile(r"<[lrc]?\d{0,4}>|\s*\Z")
_PLANNING = re.compile(r"\s*(?:CLOSED|DEADLINE|SCHEDULED|CLOCK):\s")
_SHOWN_KEYWORDS = frozenset(("title", "subtitle", "author", "date", "caption", "description", "keywords", "email"))
_CODE = frozenset(("src", "example", "export_example", "verbatim", "fixed"))
_UNREAD = frozenset(("comment", "export"))
_INLINE = re.compile(
    r"\[\[(?P<target>[^\[\]]{1,2000}+)\](?:\[(?P<shown>(?:[^\]]|\](?!\])){1,2000})\])?\]"
    r"|(?<![\w*/=~+_])(?P<mark>[*/=~+_])(?P<text>(?=\S)[^\n*/=~+_]{1,500}+(?<=\S))(?P=mark)(?![\w*/=~+_])"
    r"|(?<![\w=~])(?P<code>[=~])(?P<inside>(?=\S)(?:(?!(?P=code))[^\n]){1,300})(?P=code)(?![\w=~])"
    r"|\[fn:(?P<note>[\w-]{0,60})(?::(?P<inline>[^\[\]]{1,2000}+))?\]"
    r"|<<(?P<anchor>[^<>\n]{1,200}+)>>>?|\\(?P<entity>[A-Za-z]{2,20})(?:\{\})"
)
_MARKS = {"*": "**", "/": "*", "=": "`", "~": "`", "+": "~~", "_": "*"}
_ADDRESS = re.compile(r"(?:https?|ftp|mailto):[^\s()<>]{1,2000}\Z")


def read(text: str) -> FileReading:
    """Return the text of a file; comments, properties and settings are left out."""
    lines = [line.rstrip().expandtabs(8) for line in text.split("\n")]
    reader = _OrgReader(lines)
    return FileReading((Part("\n\n".join(filter(None, reader.blocks())), _plain(lines)),), reader.title)


class _OrgReader:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0
        self.title: str | None = None
        self._ends = defaultdict[str, list[int]](list)
        for at, line in enumerate(lines):
            bare = line.strip().lower()
            if bare == ":end:" or bare.startswith("#+end_"):
                self._ends[bare].append(at)
            elif line.startswith("*") and _HEADING.match(line):
                self._ends["*"].append(at)

    def _next(self, mark: str) -> int | None:
        """Return the next line that is an end of this kind."""
        ends = self._ends.get(mark, [])
        at = bisect_left(ends, self._at + 1)
        return ends[at] if at < len(ends) else None

    def blocks(self) -> Iterator[str]:
        """Yield the blocks of the file."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.strip()
            if not bare or _is_unread(line):
                self._at += 1
            elif heading := _HEADING.match(line):
                self._at += 1
                yield f"{'#' * min(6, len(heading[1]))} {_inline(_TAGS.sub('', heading[2]))}"
            elif bare.startswith("#+"):
                yield from self._marked(line)
            elif _DRAWER.match(line):
                self._drawer(bare)
            elif bare.startswith("|"):
                yield self._table()
            elif bare == ":" or bare.startswith(": "):
                yield _fenced([each.strip()[2:] for each in self._run(lambda each: each.startswith(":"))])
            elif _ITEM.match(line):
                yield self._list()
            else:
                yield self._paragraph()

    def _marked(self, line: str) -> Iterator[str]:
        if begin := _BEGIN.match(line):
            yield from self._block(begin[1].lower(), begin[2])
            return
        self._at += 1
        keyword = _KEYWORD.match(line)
        name = keyword[1].lower() if keyword else ""
        if not keyword or name not in _SHOWN_KEYWORDS or not keyword[2]:
            return
        if name == "title":
            self.title = self.title or one_line(keyword[2])
            yield f"# {_inline(keyword[2])}"
        else:
            yield as_paragraph(_inline(keyword[2]))

    def _block(self, name: str, argument: str) -> Iterator[str]:
        last = self._next(f"#+end_{name}")
        if last is None:  # not closed: the line alone is left out
            self._at += 1
            return
        body = self._lines[self._at + 1 : last]
        if name in _CODE:
            language = argument.split(" ", 1)[0] if name == "src" else ""
            self._at = last + 1
            yield _fenced(body, language if re.fullmatch(r"[\w+#.-]{1,30}", language) else "")
        elif name in _UNREAD:
            self._at = last + 1
        else:
            self._at += 1  # the lines in it are read as usual; the line at its end is left out

    def _drawer(self, name: str) -> None:
        """Skip a drawer of properties or of a log; the lines of another one are text."""
        end, heading = self._next(":end:"), self._next("*")
        is_data = name.upper() in (":PROPERTIES:", ":LOGBOOK:")
        self._at = end + 1 if is_data and end is not None and (heading is None or end < heading) else self._at + 1

    def _run(self, belongs: Callable[[str], bool]) -> list[str]:
        start = self._at
        while self._at < len(self._lines) and belongs(self._lines[self._at].strip()):
            self._at += 1
        return list(self._lines[start : self._at])

    def _table(self) -> str:
        rows = list[list[str]]()
        for line in self._run(lambda each: each.startswith("|")):
            if not _RULE.match(line):
                cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
                if not all(map(_COLUMN_CODE.fullmatch, cells)):
                    rows.append([_inline(cell).replace("\\vert", "|") for cell in cells])
        return as_table(rows)

    def _list(self) -> str:
        out, margins = list[str](), list[int]()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            indent = len(line) - len(line.lstrip())
            item = _ITEM.match(line)
            if item:
                while margins and margins[-1] >= indent:
                    margins.pop()
                margins.append(indent)
                label = f"{item[4]}." if item[4] and item[4].isdigit() else "-"
                term, _, text = item[6].partition(" :: ") if " :: " in item[6] else ("", "", item[6])
                shown = f"{_inline(term)}: {_inline(text)}" if term else _inline(text)
                words = (f"{'  ' * min(8, len(margins) - 1)}{label}", (item[5] or "").strip(), shown)
                out.append(" ".join(filter(None, words)))
            elif line and indent > margins[0] and not self._is_special(line):
                out.append(f"{'  ' * min(8, len(margins))}{as_paragraph(_inline(line.strip()))}")
            elif line or not self._continues(margins[0]):
                break
            self._at += 1
        return "\n".join(line.rstrip() for line in out)

    def _is_special(self, line: str) -> bool:
        bare = line.strip()
        return bare.startswith(("#+", "|", ": ")) or _DRAWER.match(line) is not None

    def _continues(self, margin: int) -> bool:
        """Return whether the list continues after one blank line."""
        following = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
        indent = len(following) - len(following.lstrip())
        return bool(following) and (indent > margin or (indent == margin and _ITEM.match(following) is not None))

    def _paragraph(self) -> str:
        start = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.strip()
            starts = bare.startswith(("#+", "|", "# ")) or _HEADING.match(line) or _ITEM.match(line)
            if not bare or (self._at > start and (starts or _is_unread(line))):
                break
            self._at += 1
        return as_paragraph(_inline("\n".join(line.strip() for line in self._lines[start : self._at])))


def _is_unread(line: str) -> bool:
    bare = line.strip()
    is_rule = bare.startswith("-----") and not bare.strip("-")
    return bare == "#" or bare.startswith("# ") or is_rule or _PLANNING.match(line) is not None


def _fenced(lines: Sequence[str], language: str = "") -> str:
    text = "\n".join(lines).strip("\n")
    fence = "~~~" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}" if text else ""


def _inline(text: str) -> str:
    return _INLINE.sub(_converted, text)


def _converted(found: re.Match[str]) -> str:
    if target := found["target"]:
        shown = found["shown"] or target.removeprefix("file:")
        return f"[{shown}]({target})" if found["shown"] and _ADDRESS.match(target) else shown
    if mark := found["mark"]:
        return f"{_MARKS[mark]}{found['text']}{_MARKS[mark]}"
    if found["code"]:
        return f"`{found['inside']}`"
    if found["anchor"]:
        return found["anchor"]
    if found["entity"]:
        return found[0]
    note = f"[{found['note']}]" if found["note"] else ""
    return f"{note} ({found['inline']})" if found["inline"] else note


_PLAIN_LINK = re.compile(r"\[\[[^\[\]]{1,2000}+\]\[|\[fn:|\[\[(?:file:)?|\[@\d{1,9}\]|\|\s*<[lrc]?\d{0,4}>")
_PLAIN_KEYWORD = re.compile(
    r"#\+(?:title|subtitle|author|date|caption|description|keywords|email)(?:\[[^\]]{0,200}\])?:", re.IGNORECASE
)
_PLAIN_DATA = re.compile(r"#\s|#\Z|#\+|:[\w-]{1,60}:\Z|(?:deadline|scheduled|closed|clock):\s", re.IGNORECASE)


def _plain(lines: Sequence[str]) -> str:
    """Return the words of a file by its lines alone."""
    kept, until, code = list[str](), "", ""
    for line in lines:
        bare = line.strip()
        lower = bare.lower()
        if until or code:
            if lower == (until or code) or (until and line.startswith("* ")):
                until = code = ""
            elif code:
                kept.append(line)
        elif lower in (":properties:", ":logbook:"):
            until = ":end:"
        elif lower.startswith(("#+begin_comment", "#+begin_export")):
            until = "#+end_" + lower[8:].split(" ")[0]
        elif lower.startswith(("#+begin_src", "#+begin_example")):
            code = "#+end_" + lower[8:].split(" ")[0]
        elif keyword := _PLAIN_KEYWORD.match(bare):
            kept.append(bare[keyword.end() :])
        elif not _PLAIN_DATA.match(bare):
            kept.append(_TAGS.sub("", line) if line.startswith("*") else line)
    return _PLAIN_LINK.sub(" ", "\n".join(kept))
