"""Reader of Jupyter notebooks (nbformat 3 and 4): cells of text, code, and the text of outputs.

Not read: pictures, widgets and other outputs without text, attachments of cells, and metadata except the title.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from shared.domain.errors import Unreadable
from shared.ingest.parse.payloads import without_comments, without_data
from shared.ingest.parse.readers import html
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.text import decode

MAX_OUTPUT_CHARS = 4000
"""More of an output is left out: it is a log or a large table, which its code explains."""

MAX_OUTPUTS_CHARS = 12_000
"""The same for all outputs of a cell."""

_DAMAGED = "the notebook file is damaged: it is not valid JSON; create or download it again"
_NOT_A_NOTEBOOK = "the notebook file has no list of cells; save it in Jupyter again"
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}\x07?|[\x08\x1b]")
_OBJECT = re.compile(r"<[\w.]{1,200}(?: \w{1,40})?(?: at 0x[0-9a-fA-F]{1,20}|:[^<>\n]{0,200})?>")
_FORMATS = ("text/markdown", "text/html", "text/plain", "text/latex")
_OLD_FORMATS = {"text/markdown": "markdown", "text/html": "html", "text/plain": "text", "text/latex": "latex"}


def read(content: bytes) -> FileReading:
    """Return the text of a notebook of format 2, 3 or 4.

    Raises:
        Unreadable: it is not a notebook.
    """
    try:
        notebook = json.loads(decode(content))
    except (ValueError, RecursionError) as error:
        raise Unreadable(_DAMAGED, detail=str(error)) from error
    cells = list(_cells(notebook))
    if not cells and not _has_cells(notebook):
        raise Unreadable(_NOT_A_NOTEBOOK)
    language = _language(notebook)
    texts = (text for cell in cells if (text := _cell(cell, language)).strip())
    plain = "\n\n".join(without_comments(without_data(_source(cell))) for cell in cells)
    title = _mapping(notebook.get("metadata")).get("title")
    return FileReading((Part("\n\n".join(texts), plain),), title if isinstance(title, str) else None)


def _has_cells(notebook: object) -> bool:
    return isinstance(notebook, dict) and (isinstance(notebook.get("cells"), list) or "worksheets" in notebook)


def _cells(notebook: object) -> Iterator[Mapping[str, Any]]:
    """Yield the cells; an old notebook has them in worksheets."""
    if not isinstance(notebook, dict):
        return
    sheets = [notebook, *_list(notebook.get("worksheets"))]
    for sheet in sheets:
        yield from (cell for cell in _list(_mapping(sheet).get("cells")) if isinstance(cell, dict))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _joined(value: object) -> str:
    """Return a text that may be divided into lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _source(cell: Mapping[str, Any]) -> str:
    return _joined(cell.get("source", cell.get("input")))


def _language(notebook: Mapping[str, Any]) -> str:
    metadata = _mapping(notebook.get("metadata"))
    stated = (
        _mapping(metadata.get("language_info")).get("name"),
        _mapping(metadata.get("kernelspec")).get("language"),
    )
    return next((name for name in stated if isinstance(name, str) and name.strip()), "")


def _cell(cell: Mapping[str, Any], language: str) -> str:
    source = _source(cell)
    kind = cell.get("cell_type")
    if kind == "code":
        language = str(cell.get("language") or language)
        blocks = [_fenced(without_data(source).strip("\n"), language)] if source.strip() else []
        return "\n\n".join((*blocks, *_outputs(_list(cell.get("outputs")))))
    if kind == "heading":
        level = cell.get("level")
        marks = "#" * (level if isinstance(level, int) and level in range(1, 7) else 1)
        return f"{marks} {' '.join(source.split())}"
    return without_comments(without_data(source)).strip("\n")


def _fenced(text: str, language: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{' '.join(language.split())[:40]}\n{text}\n{fence}"


def _outputs(outputs: list[Any]) -> Iterator[str]:
    left = MAX_OUTPUTS_CHARS
    for output in outputs:
        text = _output(_mapping(output))
        if text.strip() and left > 0:
            yield text
            left -= len(text)


def _output(output: Mapping[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        return _printed(_joined(output.get("text")))
    if kind in ("error", "pyerr"):
        return _printed(f"{output.get('ename') or 'Error'}: {output.get('evalue') or ''}")
    data = output["data"] if isinstance(output.get("data"), dict) else output
    for media_type in _FORMATS:
        text = _joined(data.get(media_type, data.get(_OLD_FORMATS[media_type])))
        if text.strip() and (shown := _shown(text, media_type)):
            return shown
    return ""


def _shown(text: str, media_type: str) -> str:
    if media_type == "text/markdown":
        return _bounded(without_comments(without_data(text)).strip("\n"))
    if media_type == "text/html":  # a plain text says the same, but has no columns
        return _bounded(html.markdown_of(text)) if "<table" in text else ""
    return _printed(text)


def _printed(text: str) -> str:
    """Return text of a terminal; of a line that was overwritten, the last version."""
    plain = _TERMINAL_CODE.sub("", text).replace("\r\n", "\n")
    lines = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in plain.split("\n"))
    shown = without_data("\n".join(lines)).strip("\n")
    if not shown.strip() or _OBJECT.fullmatch(shown):
        return ""
    return _fenced(_bounded(shown))


def _bounded(text: str) -> str:
    """Return the first lines of a text."""
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    end = text.rfind("\n", 0, MAX_OUTPUT_CHARS)
    return f"{text[: end if end > 0 else MAX_OUTPUT_CHARS]}\n\u2026"
