"""Org: headings, lists, tables, blocks, links; comments, properties and settings are left out."""

import time

import pytest

from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.markup import org
from tests.support.planted import guards


def text_of(source):
    reading = org.read(source)
    assert guarded(reading.parts).coverage in (1, None)
    return reading.parts[0].markdown


@guards(
    "shared/ingest/parse/readers/markup/org.py",
    'is_data = name.upper() in (":PROPERTIES:", ":LOGBOOK:")',
    "is_data = False",
    means="properties are text",
)
def test_headings_have_no_tags_dates_or_properties():
    source = (
        "#+TITLE: Manual\n#+OPTIONS: toc:nil\n* TODO First :a:b:\n  SCHEDULED: <2024-01-01 Mon>\n"
        "  :PROPERTIES:\n  :ID: abc\n  :END:\n  Body.\n*** Deep\n# comment\n-----\nEnd."
    )
    assert text_of(source) == "# Manual\n\n# TODO First\n\nBody.\n\n### Deep\n\nEnd."
    assert org.read(source).title == "Manual"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("- one\n- two\n  more\n  - [X] in\n\n- three", "- one\n- two\n  more\n  - [X] in\n- three"),
        ("1. one\n2) two", "1. one\n2. two"),
        ("- term :: meaning", "- term: meaning"),
        ("| a | b |\n|---+---|\n| <l> | <4> |\n| 1 | 2 |", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        ("#+begin_src sh :results output\n# x\nls *a*\n#+end_src", "```sh\n# x\nls *a*\n```"),
        ("#+BEGIN_QUOTE\nA *word*.\n#+END_QUOTE", "A **word**."),
        ("#+begin_comment\nhidden\n#+end_comment\nshown", "shown"),
        ("#+begin_src sh\nnever closed", "never closed"),
        (": fixed\n: text", "```\nfixed\ntext\n```"),
        ("#+CAPTION: A map\n[[file:map.png]]", "A map\n\nmap.png"),
        ("[fn:1] A note.", "[1] A note."),
    ],
)
def test_bodies_are_blocks(source, text):
    assert text_of(source) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("*b* /i/ =c= ~d~ a_b_c 2*3*4", "**b** *i* `c` `d` a_b_c 2*3*4"),
        ("[[https://a.example][the site]] [[#inner][part]]", "[the site](https://a.example) part"),
        ("https://a.example/b/c/ path/to/file", "https://a.example/b/c/ path/to/file"),
        ("text[fn:1] and[fn:: inline note]", "text[1] and ( inline note)"),
        (r"\(x^2\) and $y$", r"\(x^2\) and $y$"),
    ],
)
def test_inline_markup_is_converted(source, text):
    assert text_of(source) == text


@pytest.mark.parametrize(
    "line",
    ["#+begin_src x", ":PROPERTIES:", "* ", "- ", "|", "[[", "*a", "=a b", "[fn:", "<<", "#+a[", "* a :b:", "|-"],
)
def test_hostile_lines_take_linear_time(line):
    start = time.process_time()

    org.read(line * 20_000)
    org.read((line + "\n") * 20_000)
    org.read("".join(" " * depth + line + "\n" for depth in range(300)))

    assert time.process_time() - start < 10
