"""reStructuredText: structure by adornment and indentation, tables, directives, inline markup."""

import time

import pytest

from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.markup import rst
from tests.support.planted import guards


def text_of(source):
    reading = rst.read(source)
    assert guarded(reading.parts).coverage in (1, None)
    return reading.parts[0].markdown


def test_titles_have_levels_by_order_of_styles():
    source = "======\nManual\n======\n\nFirst\n=====\n\nText.\n\nInner\n-----\n\nSecond\n======\n\n----\n\nEnd."

    assert text_of(source) == "# Manual\n\n## First\n\nText.\n\n### Inner\n\n## Second\n\nEnd."


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("- one\n\n- two\n  more\n\n  - inner", "- one\n- two\n  more\n  - inner"),
        ("#. one\n#. two", "1. one\n2. two"),
        ("3) three\n4) four", "3. three\n4. four"),
        ("term\n  its meaning", "term\n\nits meaning"),
        (":Author: A. Person\n:Date: today", "Author: A. Person\n\nDate: today"),
        ("-v, --verbose  say more", "`-v, --verbose` say more"),
        ("| one\n| two", "one\ntwo"),
        ("Run::\n\n    make *all*\n\nThen rest.", "Run:\n\n```\nmake *all*\n```\n\nThen rest."),
        (">>> 1 + 1\n2", "```pycon\n>>> 1 + 1\n2\n```"),
        ("1990. was a year\nof rain", "1990. was a year\nof rain"),
    ],
)
def test_bodies_are_blocks(source, text):
    assert text_of(source) == text


@guards(
    "shared/ingest/parse/readers/markup/rst.py",
    "if short in _LABELLED:",
    "if False:",
    means="a warning is not recognisable",
)
@pytest.mark.parametrize(
    ("source", "text"),
    [
        (".. warning:: Hot.\n   Do not touch.", "Warning: Hot.\nDo not touch."),
        (".. code-block:: python\n   :linenos:\n\n   x = 1", "```python\nx = 1\n```"),
        (".. figure:: a.png\n   :alt: A map\n\n   The caption.", "A map\n\nThe caption."),
        (".. math:: x^2", "$$\nx^2\n$$"),
        (".. py:function:: f(x)\n   :module: m\n\n   Return *x*.", "`f(x)`\n\nReturn *x*."),
        (".. toctree::\n   :maxdepth: 2\n\n   intro", ""),
        (".. a comment\n   of two lines\n\nText.", "Text."),
        (".. [1] A note.", "[1] A note."),
        (
            ".. csv-table:: Ages\n   :header: name, age\n\n   Ann, 5",
            "Ages\n\n| name | age |\n| --- | --- |\n| Ann | 5 |",
        ),
        (".. list-table::\n\n   * - a\n     - b\n   * - c\n     - d", "| a | b |\n| --- | --- |\n| c | d |"),
    ],
)
def test_directives_keep_their_text(source, text):
    assert text_of(source) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("``a_b``", "`a_b`"),
        ("`Site <https://a.example>`_", "[Site](https://a.example)"),
        ("Python_ it is\n\n.. _Python: https://p.example", "[Python](https://p.example) it is"),
        (":func:`len` and :ref:`text <label>`", "`len` and text"),
        (":math:`x^2`, :pep:`8`", "$x^2$, PEP 8"),
        ("|name| here\n\n.. |name| replace:: foreask", "foreask here"),
        ("As in [1]_ and [#]_", "As in [1] and [*]"),
        ("re\\ **bold**\\ ing", "re**bold**ing"),
        ("snake_case_ and self_", "snake_case_ and self_"),
    ],
)
def test_inline_markup_is_converted(source, text):
    assert text_of(source) == text


@guards(
    "shared/ingest/parse/readers/markup/rst_tables.py",
    "if not is_grid(line):",
    'if not line.startswith("+"):',
    means="text next to the rule of another column is lost",
)
def test_grid_table_keeps_text_of_spans():
    source = """
+-----+-----+-----+
| a   | b   | c   |
+=====+=====+=====+
| 1   | span both |
+-----+-----+-----+
| 2   | two | x   |
+-----+ rows+-----+
| 3   |     | y   |
+-----+-----+-----+
"""
    assert text_of(source) == (
        "| a | b | c |\n| --- | --- | --- |\n| 1 | span both |  |\n| 2 | two | x |\n| 3 | rows | y |"
    )


def test_simple_table_joins_lines_of_row():
    source = "=====  ======\nname   text\n=====  ======\nA      one\n       more\n表     two\n=====  ======\n"

    assert text_of(source) == "| name | text |\n| --- | --- |\n| A | one more |\n| 表 | two |"


@pytest.mark.parametrize(
    "line",
    [
        "`" * 99,
        "``a",
        "`a <",
        ":x:`",
        "|a ",
        "[",
        "*" * 50,
        "- ",
        "1. ",
        "+-+",
        "== ==",
        ".. ",
        ".. a::",
        "a_",
        "\\",
        ": ",
    ],
)
def test_hostile_lines_take_linear_time(line):
    start = time.process_time()

    rst.read(line * 20_000)
    rst.read((line + "\n") * 20_000)
    rst.read("".join(" " * depth + line + "\n" for depth in range(300)))

    assert time.process_time() - start < 10
