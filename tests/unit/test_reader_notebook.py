"""Notebooks: cells in any format, with their letters, code and the text of outputs."""

import json

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers import notebook
from tests.support.planted import guards


def text_of(cells, **metadata):
    content = {"nbformat": 4, "metadata": metadata, "cells": cells}
    return notebook.read(json.dumps(content, ensure_ascii=False).encode()).parts[0].markdown


def code(source="", *outputs):
    return {"cell_type": "code", "source": source, "outputs": list(outputs)}


def result(**data):
    return {"output_type": "execute_result", "data": {key.replace("_", "/"): value for key, value in data.items()}}


def test_cells_keep_letters_tables_and_language():
    table = "| a | b |\n|---|---|\n| 1 | ü |"
    cells = [{"cell_type": "markdown", "source": ["# Gebühr\n", "\n", "5 € 数据"]}, code("x = 'größer'")]

    text = text_of([*cells, {"cell_type": "markdown", "source": table}], kernelspec={"language": "python"})

    assert text == f"# Gebühr\n\n5 € 数据\n\n```python\nx = 'größer'\n```\n\n{table}"


@guards(
    "shared/ingest/parse/readers/notebook.py",
    'return _bounded(html.markdown_of(text)) if "<table" in text else ""',
    'return ""',
    means="no columns",
)
@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"output_type": "stream", "text": ["10 %\r", "99 %\n"]}, "```\n99 %\n```"),
        (
            result(text_plain="   a\n0  1", text_html="<table><tr><th>a<th>b<tr><td>1<td>2</table>"),
            "| a | b |\n| --- | --- |\n| 1 | 2 |",
        ),
        (result(text_plain="5", image_png="iVBORw0KGgo="), "```\n5\n```"),
        (result(text_plain="<Figure at 0x7f>", image_png="iVBORw0KGgo="), ""),
        (result(text_markdown="**x**"), "**x**"),
        (
            {"output_type": "error", "ename": "KeyError", "evalue": "'\x1b[31ma\x1b[0m'", "traceback": ["long"]},
            "```\nKeyError: 'a'\n```",
        ),
    ],
)
def test_outputs_are_text(output, text):
    assert text_of([code("", output)]) == text


@guards(
    "shared/ingest/parse/readers/notebook.py",
    "if len(text) <= MAX_OUTPUT_CHARS:",
    "if True:",
    means="a log becomes chunks",
)
def test_long_outputs_are_cut():
    log = {"output_type": "stream", "text": "a line of a log\n" * 10_000}

    assert len(text_of([code("", *[log] * 10)])) < notebook.MAX_OUTPUTS_CHARS + 2 * notebook.MAX_OUTPUT_CHARS


@guards(
    "shared/ingest/parse/readers/notebook.py",
    '*_list(notebook.get("worksheets"))',
    "",
    means="old notebooks have no text",
)
def test_format_3_is_read():
    old = {
        "cell_type": "code",
        "input": ["1 + 1"],
        "language": "python",
        "outputs": [{"output_type": "pyout", "text": "2"}],
    }
    content = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Sum"}, old]}]}

    (part,) = notebook.read(json.dumps(content).encode()).parts

    assert part.markdown == "## Sum\n\n```python\n1 + 1\n```\n\n```\n2\n```"


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "[]", '{"nbformat": 4}', "5"])
def test_other_json_is_refused(content):
    with pytest.raises(Unreadable, match="the notebook file"):
        notebook.read(content.encode())


@pytest.mark.parametrize(
    "cell", [5, {}, {"cell_type": "code", "source": 5, "outputs": [5, {"data": {"text/plain": 5}}]}]
)
def test_odd_cells_have_no_text(cell):
    assert text_of([cell]) == ""
