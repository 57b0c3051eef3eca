"""Reader of LaTeX: sections, lists, tables, notes and text; formulas are kept as source.

Not read: comments, and commands and environments without text (`latex_commands`). Nothing is run, expanded or included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.ingest.parse.readers.markdown import as_paragraph, as_table, one_line
from shared.ingest.parse.readers.markup.latex_commands import (
    CITATION,
    EMPHASIS,
    ENVIRONMENT_ARGUMENTS,
    REFERENCES,
    SECTIONS,
    SYMBOLS,
    UNREAD,
    plain_words,
    with_letters,
    without_comments,
)
from shared.ingest.parse.readers.markup.latex_macros import Expansion, without_definitions
from shared.ingest.parse.readers.reading import FileReading, Part

_START, _STOP = "\\begin{document}", "\\end{document}"
_CODE = ("verbatim", "verbatim*", "lstlisting", "minted", "Verbatim", "alltt", "BVerbatim", "LVerbatim")
_MATH = frozenset(
    name + star
    for name in (
        "equation",
        "align",
        "gather",
        "math",
        "displaymath",
        "eqnarray",
        "multline",
        "flalign",
        "alignat",
        "dmath",
    )
    for star in ("", "*")
)
_TABLES = frozenset(
    ("tabular", "tabular*", "tabularx", "tabulary", "longtable", "longtable*", "supertabular", "xltabular", "tblr")
)
_LISTS = frozenset(("itemize", "enumerate", "description", "compactitem", "compactenum", "thebibliography"))
_UNREAD_ENVIRONMENTS = frozenset(("comment", "filecontents", "filecontents*", "tikzpicture", "picture", "pspicture"))
_STATEMENTS = frozenset(
    ("theorem", "lemma", "proof", "definition", "corollary", "proposition", "remark", "example", "abstract", "exercise")
)
_RAW = frozenset((*_CODE, *_MATH, *_UNREAD_ENVIRONMENTS))
_TOKEN = re.compile(
    r"\\begin\s{0,9}\{(?P<begin>[^{}\n]{1,60}+)\}|\\end\s{0,9}\{(?P<end>[^{}\n]{1,60}+)\}"
    r"|\\(?:verb|lstinline)\*?(?P<quote>[^\sA-Za-z*{])(?P<verbatim>[^\n]{0,1000}?)(?P=quote)"
    r"|\$\$(?P<display>[^$]{1,5000}+)\$\$|\\\[(?P<bracketed>(?:[^\\]|\\(?![\[\]])){1,5000})\\\]"
    r"|\$(?P<inline>(?:[^$\\]|\\.){1,2000})\$|\\\((?P<round>(?:[^\\]|\\(?![()])){1,2000})\\\)"
    r"|\\(?P<command>[A-Za-z@]{1,60}+)(?P<star>\*?)[ \t]*+|\\(?P<symbol>[\s\S])"
    r"|(?P<open>\{)|(?P<close>\})|(?P<cell>&)|(?P<blank>\n[ \t]*+\n\s*+)|(?P<dash>---?)|(?P<curly>``|'')|(?P<tie>~)",
    re.DOTALL,
)
_OPTIONAL = re.compile(r"\s{0,3}\[((?:[^\[\]{}]|\{[^{}]{0,300}+\}){0,500})\]")
_ARGUMENT = re.compile(r"\s{0,9}\{(?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.|\{[^{}]{0,300}+\}){0,1000}\}){0,5000}\}", re.DOTALL)
_NODE = re.compile(r"\bnode\b[^{};]{0,300}+\{([^{}]{1,500}+)\}")
_CODE_BEGIN = re.compile(r"\\begin\{(" + "|".join(map(re.escape, _CODE)) + r")\}")
_TITLE = re.compile(r"\\(?:title|subtitle|author|date)\b")
_ARGUMENT_IS_TEXT = ("footnote", "footnotetext", "caption", "author", "date")
_ADDRESSES = ("url", "path", "nolinkurl")
_ENDS_OF_PARAGRAPHS = ("par", "newpage", "clearpage", "maketitle", "bigskip", "medskip", "smallskip")
_KNOWN = frozenset((*SECTIONS, *EMPHASIS, *SYMBOLS, *UNREAD, *REFERENCES, *_ARGUMENT_IS_TEXT, *_ADDRESSES))
_KNOWN |= {*_ENDS_OF_PARAGRAPHS, "item", "bibitem", "href", "cite", "begin", "end", "verb"}
_DEEPEST = 6
_MOST_OPEN = 50
"""Environments that are nested deeper have no structure."""


def read(text: str) -> FileReading | None:
    """Return the text of a file; comments and the preamble are left out. None if it has no text."""
    source = _outside_code(text, lambda piece: with_letters(without_comments(piece)))
    source, macros = without_definitions(source, _KNOWN)
    source = _outside_code(source, Expansion(macros).written_out)
    preamble, start, body = source.partition(_START)
    body = "\n\n".join(_titles(preamble)) + "\n\n" + body.partition(_STOP)[0] if start else source
    reader = _LatexReader(body)
    markdown = reader.markdown()
    if not markdown.strip():
        return None
    return FileReading((Part(markdown, plain_words(_without_raw(body))),), reader.title)


def _outside_code(text: str, changed: Callable[[str], str]) -> str:
    """Return a file whose code is as it was, and whose other pieces are changed."""
    kept, start = list[str](), 0
    unclosed = set[str]()
    for begin in _CODE_BEGIN.finditer(text):
        if begin.start() < start or begin[1] in unclosed:
            continue
        end = text.find(f"\\end{{{begin[1]}}}", begin.end())
        if end < 0:
            unclosed.add(begin[1])
            continue
        kept += (changed(text[start : begin.start()]), text[begin.start() : end])
        start = end
    return "".join((*kept, changed(text[start:])))


def _titles(preamble: str) -> list[str]:
    """Return the commands of the preamble that state a title, an author or a date."""
    found = []
    for command in _TITLE.finditer(preamble):
        optional = _OPTIONAL.match(preamble, command.end())
        argument = _ARGUMENT.match(preamble, optional.end() if optional else command.end())
        if argument:
            found.append(command[0] + argument[0].strip())
    return found


def _without_raw(body: str) -> str:
    """Return a body without drawings and comments; the texts in drawings are kept."""
    for name in sorted(_UNREAD_ENVIRONMENTS):
        if f"\\begin{{{name}}}" in body:
            first, *rest = body.split(f"\\begin{{{name}}}")
            ends = (piece.partition(f"\\end{{{name}}}") for piece in rest)
            body = first + "".join(" ".join(_NODE.findall(inner)) + "\n" + after for inner, _, after in ends)
    return body


@dataclass(slots=True)
class _LatexGroup:
    """An open group: the command whose argument it is, and the text in front of it."""

    command: str
    before: list[str]


@dataclass(slots=True)
class _Environment:
    name: str
    rows: list[list[str]] = field(default_factory=list)
    item: int = 0


class _LatexReader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._out: list[str] = []
        self._buffer: list[str] = []
        self._groups: list[_LatexGroup] = []
        self._environments: list[_Environment] = []
        self._notes: list[str] = []
        self._unclosed: set[str] = set()
        self._note_count = 0
        self._lead = ""  # mark of a list's item that has no text yet
        self._in_list = False  # whether the last block is a list
        self.title: str | None = None

    def markdown(self) -> str:
        """Return the file as Markdown."""
        handlers: Mapping[str, Callable[[str], None]] = {
            "begin": self._begin,
            "end": self._end,
            "verbatim": lambda text: self._add(_code(text)),
            "display": self._formula,
            "bracketed": self._formula,
            "inline": lambda text: self._add(f"${one_line(text)}$"),
            "round": lambda text: self._add(f"${one_line(text)}$"),
            "command": self._command,
            "symbol": self._symbol,
            "open": lambda _: self._group(),
            "close": lambda _: self._close(),
            "cell": self._cell,
            "blank": lambda _: self._paragraph() if not self._groups else self._add("\n"),
            "dash": lambda text: self._add("\u2014" if text == "---" else "\u2013"),
            "curly": lambda text: self._add("\u201c" if text == "``" else "\u201d"),
            "tie": lambda _: self._add(" "),
        }
        while found := _TOKEN.search(self._source, self._at):
            self._add(self._source[self._at : found.start()])
            self._at = found.end()
            kind = found.lastgroup or ""
            if kind == "star":
                kind = "command"
            handlers["verbatim" if kind == "quote" else kind](found["command"] if kind == "command" else found[kind])
        self._add(self._source[self._at :])
        while self._groups:
            self._close()
        while self._environments:
            self._end(self._environments[-1].name)
        self._paragraph()
        return "".join(self._out)

    def _group(self) -> None:
        if self._source.startswith("}", self._at - 2):  # two arguments are two words
            self._add(" ")
        self._groups.append(_LatexGroup("", self._taken()))

    def _add(self, text: str) -> None:
        if text:
            self._buffer.append(text)

    def _taken(self) -> list[str]:
        buffer, self._buffer = self._buffer, []
        return buffer

    def _paragraph(self) -> None:
        """End the paragraph; in a table it is a part of its cell."""
        if self._table():
            self._add(" ")
            return
        text, lead = _tidy("".join(self._taken())), self._lead
        depth = sum(each.name in _LISTS for each in self._environments)
        if text and lead:
            lines = f"{lead}{text}".replace("\n", "\n" + "  " * min(depth, _DEEPEST))
            if self._in_list:
                self._out.append("\n" + lines)
            else:
                self._block(lines)
            self._lead, self._in_list = "", True
        elif text and self._in_list and depth:
            self._out.append(f"\n{'  ' * min(depth, _DEEPEST)}" + text.replace("\n", " "))
        elif text:
            self._block(as_paragraph(text))
        for note in self._notes if not depth else ():
            self._block(note)
        self._notes = self._notes if depth else []

    def _block(self, text: str) -> None:
        self._out += ("\n\n", text) if self._out else (text,)
        self._in_list = False

    def _table(self) -> _Environment | None:
        return next((each for each in reversed(self._environments) if each.name in _TABLES), None)

    def _optional(self) -> str:
        found = _OPTIONAL.match(self._source, self._at)
        self._at = found.end() if found else self._at
        return found[1] if found else ""

    def _skip(self, count: int) -> None:
        """Skip arguments that are not text."""
        self._optional()
        for _ in range(count):
            if argument := _ARGUMENT.match(self._source, self._at):
                self._at = argument.end()
            self._optional()

    def _argument(self) -> str:
        found = _ARGUMENT.match(self._source, self._at)
        self._at = found.end() if found else self._at
        return found[0].strip()[1:-1] if found else ""

    def _begin(self, name: str) -> None:
        if name in _RAW:
            self._raw(name)
            return
        note = self._optional()
        for _ in range(ENVIRONMENT_ARGUMENTS.get(name, 0)):
            self._argument()
        if not self._table():
            self._paragraph()
        if name in _STATEMENTS:
            self._add(f"{name.capitalize()}{f' ({note})' if note else ''}: ")
        elif name == "frame" and (title := self._argument()):
            self._block(f"### {one_line(title)}")
        if len(self._environments) < _MOST_OPEN:
            self._environments.append(_Environment(name, [[]] if name in _TABLES else []))

    def _raw(self, name: str) -> None:
        end = -1 if name in self._unclosed else self._source.find(f"\\end{{{name}}}", self._at)
        if end < 0:
            self._unclosed.add(name)
            return
        language = ""
        if name in ("minted", "lstlisting", "Verbatim"):
            stated = re.search(r"language=\{?(\w{1,30})", self._optional())
            language = self._argument() if name == "minted" else stated[1].lower() if stated else ""
        body = self._source[self._at : end]
        self._at = end + len(name) + 6
        if name in _CODE:
            self._paragraph()
            fence = "~~~" if "```" in body else "```"
            self._block(f"{fence}{language}\n{body.strip(chr(10))}\n{fence}")
        elif name in _MATH:
            self._formula(body)
        elif texts := _NODE.findall(body):
            self._add(" ".join(texts))

    def _formula(self, source: str) -> None:
        if self._groups or self._environments:
            self._add(f" ${one_line(source)}$ ")
            return
        self._paragraph()
        self._block("$$\n" + "\n".join(filter(None, map(str.strip, source.split("\n")))) + "\n$$")

    def _end(self, name: str) -> None:
        if not any(each.name == name for each in self._environments):
            return
        while True:
            closed = self._environments.pop()
            if closed.name in _TABLES:
                self._end_row(closed)
                self._finish_table(closed)
            elif not self._table():
                self._paragraph()
            if closed.name == name:
                return

    def _finish_table(self, table: _Environment) -> None:
        if self._table():  # a table in a cell is text
            self._add("; ".join(" ".join(row) for row in table.rows if any(row)))
        elif text := as_table(row for row in table.rows if any(row)):
            for block in (text, *self._notes):
                self._block(block)
            self._notes = []

    def _cell(self, char: str) -> None:
        table = self._table()
        if table and not self._groups:
            table.rows[-1].append(_tidy("".join(self._taken())))
        else:
            self._add("" if table is None else char)

    def _end_row(self, table: _Environment) -> None:
        table.rows[-1].append(_tidy("".join(self._taken())))
        table.rows.append([])

    def _symbol(self, char: str) -> None:
        if char == "\\":
            self._optional()
            table = self._table()
            if table and not self._groups:
                self._end_row(table)
            else:
                self._add(" " if table or self._groups else "\n")
        elif char in "%&#_${}":
            self._add(char)
        elif char.isspace() or char in ",;:/":
            self._add(" " if char.isspace() or char == ";" else "")
        elif char not in "-!()[]@":
            self._add(char)

    def _command(self, name: str) -> None:  # noqa: C901 - one case for each kind of command
        if name in SYMBOLS:
            self._add(SYMBOLS[name])
            if self._source.startswith("{}", self._at):
                self._at += 2
        elif name in UNREAD:
            self._unread(name)
        elif name in SECTIONS or name in EMPHASIS or name in _ARGUMENT_IS_TEXT:
            self._optional()
            self._open(name)
        elif name in ("item", "bibitem"):
            self._item(name)
        elif name == "href":
            address = self._argument()
            self._open("href:" + address.replace("\\", ""))
        elif name in _ADDRESSES:
            self._add(self._argument().replace("\\", ""))
        elif CITATION.match(name):
            notes = [self._optional(), self._optional()]
            self._add("[" + ", ".join(filter(None, (self._argument(), *notes))) + "]")
        elif name in REFERENCES:
            self._add(self._argument())
        elif name in _ENDS_OF_PARAGRAPHS:
            if not self._groups:
                self._paragraph()
        else:
            self._optional()

    def _unread(self, name: str) -> None:
        if name == "multicolumn":
            width = self._argument()
            self._argument()
            table = self._table()
            self._open(f"span:{min(int(width), 50) - 1 if width.isdigit() else 0}" if table else "")
        else:
            self._skip(UNREAD[name])

    def _open(self, command: str) -> None:
        """Open the argument of a command."""
        at = self._at
        while at < len(self._source) and self._source[at] in " \n\t":
            at += 1
        if not self._source.startswith("{", at):
            return
        self._at = at + 1
        self._groups.append(_LatexGroup(command, self._taken()))

    def _close(self) -> None:
        if not self._groups:
            return
        group, text = self._groups.pop(), "".join(self._buffer)
        self._buffer = group.before
        command = group.command
        if not command:
            self._add(text)
        elif command in SECTIONS:
            self._paragraph()
            self._heading(command, one_line(text))
        elif command in EMPHASIS:
            mark = EMPHASIS[command]
            self._add(f"{mark}{one_line(text)}{mark}" if text.strip() and mark not in text else text)
        elif command in ("footnote", "footnotetext"):
            self._note_count += 1
            self._add(f"[{self._note_count}]")
            self._notes.append(f"[{self._note_count}] {one_line(text)}")
        elif command in ("caption", "author", "date"):
            self._aside(one_line(text))
        elif command.startswith("href:"):
            address, shown = command[5:], one_line(text)
            self._add(f"[{shown}]({address})" if shown and not set(address) & set(" ()<>") else f"{shown} {address}")
        else:
            self._add(text)
            for _ in range(int(command.rpartition(":")[2])):
                self._cell("&")

    def _heading(self, command: str, text: str) -> None:
        if not text:
            return
        if command == "title":
            self.title = self.title or text
        self._block(f"{'#' * SECTIONS[command]} {text}")

    def _aside(self, text: str) -> None:
        """Add a paragraph without ending the current cell."""
        if text and not self._groups:
            if self._table():
                self._notes.append(as_paragraph(text))
            else:
                self._paragraph()
                self._block(as_paragraph(text))
        else:
            self._add(text)

    def _item(self, name: str) -> None:
        label = self._optional()
        key = self._argument() if name == "bibitem" else ""
        lists = [each for each in self._environments if each.name in _LISTS]
        if self._table() or self._groups or not lists:
            self._add(f" {label} ")
            return
        self._paragraph()
        lists[-1].item += 1
        mark = f"{lists[-1].item}." if "enum" in lists[-1].name else "-"
        lead = f"{label}: " if label and not key else f"[{label or key}] " if key else ""
        self._lead = f"{'  ' * min(_DEEPEST, len(lists) - 1)}{mark} {lead}"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _tidy(text: str) -> str:
    """Return a text with single spaces and without empty lines."""
    lines = (" ".join(line.split()).replace(" , ", ", ") for line in text.split("\n"))
    return "\n".join(filter(None, lines))
