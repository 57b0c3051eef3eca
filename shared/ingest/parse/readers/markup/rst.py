"""Reader of reStructuredText (Docutils' specification): a scanner over lines, within limits.

Read: sections, lists, tables, notes, code and the text of directives. Not read: comments, targets, and options of
directives. It runs nothing and includes no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from shared.ingest.parse.readers.markdown import as_paragraph, as_table, one_line
from shared.ingest.parse.readers.markup.rst_inline import UNREAD, Inline, plain_text
from shared.ingest.parse.readers.markup.rst_tables import grid_table, is_grid, is_simple, simple_table, simple_table_end
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.sheets.delimited import rows as delimited_rows

_DEEPEST = 16
"""Text that is nested deeper has no structure."""

_TITLE_CHARS = 300
_LEAST_RULE = 4
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{1,}\s*\Z")
_BULLET = re.compile(r"[-*+\u2022\u2023\u2043]\s+(?=\S)|[-*+\u2022]\Z")
_NUMBERED = re.compile(r"\(?(?:\d{1,9}|#|[A-Za-z]|[ivxlcdmIVXLCDM]{2,9})[.)]\s+(?=\S)")
_FIELD = re.compile(r":((?![:\s`])(?:[^:\n\\]|\\.|:(?![\s`])){1,200}):(?:\s+|\Z)")
_OPTION = re.compile(r"(?:-{1,2}|/)[A-Za-z0-9?].{0,100}?\s{2,}(?=\S)")
_DIRECTIVE = re.compile(r"\.\.\s+(?:\|[^|]{1,200}\|\s+)?([A-Za-z][\w:+.-]{0,60}?)\s?::(?:\s+(.*))?\Z")
_SUBSTITUTION = re.compile(r"\.\.\s+\|([^|]{1,200})\|\s+([\w-]{1,40})::\s*(.*)\Z")
_FOOTNOTE = re.compile(r"\.\.\s+\[([^\]]{1,100})\](?:\s+(.*))?\Z")
_TARGET = re.compile(r"\.\.\s+_(`[^`]{1,300}`|(?:[^:\\]|\\.|:(?=\S)){0,300}):(?:\s+(.*))?\Z")
_OPTION_LINE = re.compile(r":([\w-]{1,40}):(?:\s+(.*))?\Z")
_CODE = frozenset(
    [
        "code",
        "code-block",
        "sourcecode",
        "parsed-literal",
        "prompt",
        "testcode",
        "doctest",
        "productionlist",
        "graphviz",
        "mermaid",
    ]
)
_LABELLED = frozenset(
    [
        "note",
        "warning",
        "tip",
        "important",
        "caution",
        "danger",
        "error",
        "hint",
        "attention",
        "seealso",
        "todo",
        "deprecated",
        "versionadded",
        "versionchanged",
    ]
)
_TITLED = frozenset(["admonition", "topic", "sidebar", "rubric", "table", "option"])


def read(text: str) -> FileReading:
    """Return the text of a file; comments, targets and the options of directives are left out."""
    lines = [line.rstrip().expandtabs(8) for line in text.split("\n")]
    reader = _RstReader(Inline(*_definitions(lines)))
    markdown = "\n\n".join(reader.blocks(lines, 0))
    return FileReading((Part(markdown, plain_text(lines)),))


def _definitions(lines: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the addresses of targets, and the texts of substitutions, by name."""
    targets, substitutions = dict[str, str](), dict[str, str]()
    for line in lines:
        bare = line.lstrip()
        if not bare.startswith(".. "):
            continue
        if target := _TARGET.match(bare):
            targets[_normal(target[1].strip("`"))] = target[2] or ""
        elif (found := _SUBSTITUTION.match(bare)) and found[2] in ("replace", "unicode"):
            substitutions[found[1]] = found[3] if found[2] == "replace" else ""
    return targets, substitutions


def _normal(name: str) -> str:
    return one_line(name.replace("\\", "")).lower()


class _RstReader:
    def __init__(self, inline: Inline) -> None:
        self._inline = inline
        self._styles: list[str] = []

    def blocks(self, lines: Sequence[str], depth: int) -> list[str]:
        """Return the blocks of lines without common indentation."""
        if depth > _DEEPEST:
            return [as_paragraph("\n".join(line.strip() for line in lines if line))]
        out, at = list[str](), 0
        while at < len(lines):
            if not lines[at]:
                at += 1
                continue
            found, at = self._block(lines, at, depth)
            out += (block for block in found if block.strip())
        return out

    def _block(self, lines: Sequence[str], at: int, depth: int) -> tuple[Sequence[str], int]:
        line = lines[at]
        if line[0] == " ":
            end = _indented_end(lines, at)
            return self.blocks(_dedented(lines[at:end]), depth + 1), end
        if depth == 0 and (heading := self._heading(lines, at)):
            return heading
        if line == ".." or line.startswith(".. "):
            return self._explicit(lines, at, depth)
        if line.startswith("__ ") or (_ADORNMENT.match(line) and len(line) >= _LEAST_RULE and _blank(lines, at + 1)):
            return (), at + 1
        if table := _table_end(lines, at):
            rows = (grid_table if is_grid(line) else simple_table)(lines[at:table])
            return [as_table([self._inline.text(cell) for cell in row] for row in rows)], table
        return self._body(lines, at, depth)

    def _heading(self, lines: Sequence[str], at: int) -> tuple[Sequence[str], int] | None:
        """Return a section's title and the line after it, if there is one."""
        over = _ADORNMENT.match(lines[at])
        title = _line(lines, at + 1 if over else at).strip()
        under = _line(lines, at + 2 if over else at + 1)
        style = _ADORNMENT.match(under)
        if not style or not title or len(title) > _TITLE_CHARS or (over and under != lines[at]):
            return None
        if len(under) < min(len(title), 4) or (not over and _ADORNMENT.match(title)):
            return None
        key = style[1] * (2 if over else 1)
        if key not in self._styles:
            self._styles.append(key)
        level = min(6, self._styles.index(key) + 1)
        return [f"{'#' * level} {one_line(self._inline.text(title))}"], at + (3 if over else 2)

    def _body(self, lines: Sequence[str], at: int, depth: int) -> tuple[Sequence[str], int]:
        line = lines[at]
        if mark := _BULLET.match(line) or self._number(lines, at):
            return self._list(lines, at, mark, depth)
        if field := _FIELD.match(line):
            return self._named(lines, at, field.end(), f"{self._inline.text(field[1])}: ", depth)
        if line.startswith(("-", "/")) and (option := _OPTION.match(line)):
            return self._named(lines, at, option.end(), f"`{option[0].strip()}` ", depth)
        if line == "|" or line.startswith("| "):
            end = at
            while end < len(lines) and (lines[end] == "|" or lines[end].startswith(("| ", " "))):
                end += 1
            text = (each.removeprefix("|") for each in lines[at:end])
            return [as_paragraph("\n".join(self._inline.text(each.strip()) for each in text))], end
        if line.startswith(">>> "):
            end = _paragraph_end(lines, at)
            return [_fenced(lines[at:end], "pycon")], end
        return self._paragraph(lines, at, depth)

    def _number(self, lines: Sequence[str], at: int) -> re.Match[str] | None:
        """Return the number of an item; a line that continues without indentation is a paragraph."""
        number = _NUMBERED.match(lines[at])
        if not number:
            return None
        following = _line(lines, at + 1)
        if following and following[0] != " " and not _NUMBERED.match(following):
            return None
        if number[0].strip("().# \t").isdigit() or "#" in number[0]:
            return number
        # One letter with a full stop may be the initial of a name.
        after = next((line for line in lines[_indented_end(lines, at + 1) :] if line), "")
        return number if _NUMBERED.match(after) else None

    def _list(self, lines: Sequence[str], at: int, mark: re.Match[str], depth: int) -> tuple[Sequence[str], int]:
        items, count = list[str](), 0
        while mark:
            count += 1
            end = _indented_end(lines, at + 1)
            inner = _dedented([" " * mark.end() + lines[at][mark.end() :], *lines[at + 1 : end]])
            label = mark[0].strip()
            label = (
                "-" if label[-1:] not in ".)" else f"{count}." if "#" in label else label.strip("()").rstrip(".") + "."
            )
            items.append(
                _item(self.blocks(inner, depth + 1), label if label[:-1].isdigit() or label == "-" else f"- {label}")
            )
            at = next((index for index in range(end, len(lines)) if lines[index]), len(lines))
            following = _line(lines, at)
            found = _BULLET.match(following) if label == "-" else _NUMBERED.match(following)
            if not found or _ADORNMENT.match(following):
                break
            mark = found
        return ["\n".join(items)], at

    def _named(self, lines: Sequence[str], at: int, start: int, name: str, depth: int) -> tuple[Sequence[str], int]:
        end = _indented_end(lines, at + 1)
        blocks = self.blocks([lines[at][start:], *_dedented(lines[at + 1 : end])], depth + 1)
        blocks = blocks or [""]
        return [(name + blocks[0]).strip(), *blocks[1:]], end

    def _paragraph(self, lines: Sequence[str], at: int, depth: int) -> tuple[Sequence[str], int]:
        end = _paragraph_end(lines, at)
        if end == at + 1 and end < len(lines) and lines[end].startswith(" "):  # a term and its definition
            after = _indented_end(lines, end)
            return [self._prose(lines[at:end]), *self.blocks(_dedented(lines[end:after]), depth + 1)], after
        text = lines[at:end]
        if not text[-1].endswith("::"):
            return [self._prose(text)], end
        last = text[-1][:-2].rstrip() if text[-1].endswith(" ::") or text[-1] == "::" else text[-1][:-1]
        prose = self._prose([*text[:-1], last])
        following = next((index for index in range(end, len(lines)) if lines[index]), len(lines))
        if following == len(lines):
            return [prose], end
        if lines[following][0] == " ":
            after = _indented_end(lines, following)
            return [prose, _fenced(_dedented(lines[following:after]))], after
        if _ADORNMENT.match(lines[following][0] * 2) and following < len(lines):  # quoted, each line with the same mark
            after = following
            while after < len(lines) and lines[after].startswith(lines[following][0]):
                after += 1
            return [prose, _fenced(lines[following:after])], after
        return [prose], end

    def _prose(self, lines: Sequence[str]) -> str:
        return as_paragraph(self._inline.text("\n".join(line.strip() for line in lines)))

    def _explicit(self, lines: Sequence[str], at: int, depth: int) -> tuple[Sequence[str], int]:
        line, end = lines[at], _indented_end(lines, at + 1)
        if line == ".." and _blank(lines, at + 1):
            return (), at + 1
        if note := _FOOTNOTE.match(line):
            blocks = self.blocks([note[2] or "", *_dedented(lines[at + 1 : end])], depth + 1)
            return [f"[{note[1].lstrip('#') or '*'}] {blocks[0] if blocks else ''}", *blocks[1:]], end
        directive = _DIRECTIVE.match(line)
        if directive and not _SUBSTITUTION.match(line):
            return self._directive(directive[1].lower(), directive[2] or "", lines[at + 1 : end], depth), end
        return (), end

    def _directive(self, name: str, argument: str, lines: Sequence[str], depth: int) -> Sequence[str]:
        options, body = _options(_dedented(lines))
        short = name.rpartition(":")[2]
        caption = [self._prose([options["caption"]])] if options.get("caption") else []
        if short in UNREAD:
            return caption
        if short in _CODE or short.startswith("ipython"):
            language = argument if re.fullmatch(r"[\w+#.-]{1,30}", argument) else ""
            return [*caption, _fenced([argument, *body] if argument != language else body, language)]
        if short == "math":
            return ["\n".join(("$$", *filter(None, (argument, *body)), "$$"))]
        if short in ("csv-table", "list-table"):
            return [self._prose([argument]), self._listed(short, options, body, depth)]
        return self._admonition(name, argument, options, body, depth)

    def _admonition(
        self, name: str, argument: str, options: Mapping[str, str], body: Sequence[str], depth: int
    ) -> Sequence[str]:
        short = name.rpartition(":")[2]
        if short in _LABELLED:
            blocks = self.blocks([argument, *body], depth + 1)
            return [f"{short.capitalize()}: {blocks[0]}", *blocks[1:]] if blocks else ()
        blocks = self.blocks(body, depth + 1)
        if short in ("image", "figure"):
            return [self._prose([options.get("alt", "")]), *blocks]
        is_signature = short not in _TITLED and (":" in name or "(" in argument)
        return [f"`{argument}`" if is_signature and argument else self._prose([argument]), *blocks]

    def _listed(self, name: str, options: Mapping[str, str], body: Sequence[str], depth: int) -> str:
        if name == "list-table":
            rows = list(_list_rows(body))
            return as_table([[one_line(" ".join(self.blocks(cell, depth + 1))) for cell in row] for row in rows])
        delimiter = {"tab": "\t", "space": " "}.get(options.get("delim", ","), options.get("delim", ","))[:1] or ","
        header = [list(row) for row in delimited_rows(options.get("header", ""), delimiter)]
        table = [
            [self._inline.text(cell.strip()) for cell in row]
            for row in delimited_rows("\n".join(filter(None, body)), delimiter)
        ]
        return as_table([*([cell.strip().strip('"') for cell in row] for row in header), *table])


def _list_rows(body: Sequence[str]) -> Iterator[list[list[str]]]:
    """Yield the cells of each row of a list of lists, each cell as its lines."""
    row = list[list[str]]()
    for line in body:
        if line.startswith(("* -", "- *", "* *", "- -")):
            if row:
                yield row
            row = [[line[3:].strip()]]
        elif re.match(r" {1,4}[-*](?: |\Z)", line) and row:
            row.append([line.lstrip()[1:].strip()])
        elif row:
            row[-1].append(line.strip())
    if row:
        yield row


def _options(lines: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options of a directive, and the lines of its body."""
    options, at, name = dict[str, str](), 0, ""
    while at < len(lines) and lines[at]:
        if found := _OPTION_LINE.match(lines[at]):
            name = found[1]
            options[name] = found[2] or ""
        elif name and lines[at].startswith(" "):
            options[name] += " " + lines[at].strip()
        else:
            break
        at += 1
    return options, list(lines[at:])


def _item(blocks: Sequence[str], label: str) -> str:
    text = "\n".join(chain.from_iterable(block.split("\n") for block in blocks))
    return f"{label} " + text.replace("\n", "\n  ")


def _fenced(lines: Sequence[str], language: str = "") -> str:
    text = "\n".join(lines).strip("\n")
    fence = "~~~" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}" if text else ""


def _table_end(lines: Sequence[str], at: int) -> int:
    """Return the line after the table that starts here; 0 if none does."""
    if is_grid(lines[at]):
        end = at + 1
        while end < len(lines) and lines[end].startswith(("+", "|")):
            end += 1
        return end if end > at + 2 else 0
    return simple_table_end(lines, at) if is_simple(lines[at]) else 0


def _indented_end(lines: Sequence[str], at: int) -> int:
    """Return the line after the indented lines from here; blank lines at their end do not belong to them."""
    end = last = at
    while end < len(lines) and (not lines[end] or lines[end][0] == " "):
        end += 1
        if lines[end - 1]:
            last = end
    return last


def _paragraph_end(lines: Sequence[str], at: int) -> int:
    end = at + 1
    while end < len(lines) and lines[end] and lines[end][0] != " ":
        end += 1
    return end if end == len(lines) or not lines[end] or end == at + 1 else _continued(lines, end)


def _continued(lines: Sequence[str], end: int) -> int:
    while end < len(lines) and lines[end]:
        end += 1
    return end


def _dedented(lines: Sequence[str]) -> list[str]:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    return [line[margin:] for line in lines]


def _line(lines: Sequence[str], at: int) -> str:
    return lines[at] if at < len(lines) else ""


def _blank(lines: Sequence[str], at: int) -> bool:
    return not _line(lines, at)
