"""LaTeX: sections, lists, tables and text; formulas as source; no preamble and no comments."""

import time

import pytest

from shared.ingest.parse.readers import latex
from shared.ingest.parse.readers.guard import guarded
from tests.support.planted import guards


def text_of(source):
    reading = latex.read(source)
    assert reading
    assert guarded(reading.parts).coverage in (1, None)
    return reading.parts[0].markdown


@guards(
    "shared/ingest/parse/readers/latex.py",
    "for command in _TITLE.finditer(preamble):",
    'for command in _TITLE.finditer(""):',
    means="the title is lost",
)
def test_preamble_is_left_out():
    source = (
        "\\documentclass{article}\n\\newcommand{\\product}{Widget}\n\\title{A \\emph{Manual}}\n\\author{Ann}\n"
        "\\begin{document}\\maketitle\n\\section{Use}\\label{sec:use} % comment\nThe \\product{} of 5\\%.\n"
        "\\subsection*{Inner}\nText.\n\\end{document}\nrest"
    )
    assert text_of(source) == "# A *Manual*\n\nAnn\n\n## Use\n\nThe Widget of 5%.\n\n### Inner\n\nText."


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            (
                "\\begin{itemize}\\item one\\item two"
                "\\begin{enumerate}\\item in\\end{enumerate}\\item[T] three\\end{itemize}"
            ),
            "- one\n- two\n  1. in\n- T: three",
        ),
        ("a\n\\begin{equation}\nx^2\n\\end{equation}\nb", "a\n\n$$\nx^2\n$$\n\nb"),
        ("\\begin{lstlisting}[language=C]\nx % 2\n\\end{lstlisting}", "```c\nx % 2\n```"),
        ("\\begin{quote}Said.\\end{quote}", "Said."),
        ("\\begin{theorem}[Main] True.\\end{theorem}", "Theorem (Main): True."),
        ("\\begin{comment}hidden\\end{comment}shown", "shown"),
        ("\\begin{tikzpicture}\\draw (0,0) node {Label};\\end{tikzpicture}", "Label"),
        ("Text.\\footnote{A \\emph{note}.} More.", "Text.[1] More.\n\n[1] A *note*."),
        ("\\begin{figure}[h]\\includegraphics[width=1cm]{a.png}\\caption{A map}\\end{figure}", "A map"),
        ("one\n\n\ntwo", "one\n\ntwo"),
    ],
)
def test_environments_are_blocks(source, text):
    assert text_of(source) == text


@guards(
    "shared/ingest/parse/readers/latex.py",
    "self._end_row(table)\n            else:",
    "pass\n            else:",
    means="a table has one row",
)
def test_tabular_is_table():
    source = (
        "\\begin{tabular}{l|p{3cm}}\\hline Name & Age \\\\ \\hline\nAnn & 5 \\\\[2pt]\n"
        "\\multicolumn{2}{c}{Both} \\\\ B \\& Co & \\textbf{7}\n\\end{tabular}"
    )
    assert text_of(source) == "| Name | Age |\n| --- | --- |\n| Ann | 5 |\n| Both |  |\n| B & Co | **7** |"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('K\\"oln, na\\"{\\i}ve, \\c{c}a, \\v Skoda, stra\\ss e, \\o{}l', "Köln, naïve, ça, Škoda, straße, øl"),
        ("\\textbf{b} \\emph{i} \\texttt{c} {\\bf d}", "**b** *i* `c` d"),
        ("\\cite[p. 5]{knuth} and \\ref{fig:a}", "[knuth, p. 5] and fig:a"),
        (
            "\\href{https://a.example}{Site}, \\url{https://b.example/x_y}",
            "[Site](https://a.example), https://b.example/x_y",
        ),
        ("``Yes'' --- 1--2~m", "\u201cYes\u201d \u2014 1\u20132 m"),
        ("$x^2$, \\(y\\), \\$5, \\verb|a_b|", "$x^2$, $y$, $5, `a_b`"),
        ("\\unknown[opt]{one}{two}", "one two"),
    ],
)
def test_commands_keep_their_text(source, text):
    assert text_of(source) == text


def test_file_without_text_is_not_converted():
    assert latex.read("% only\n\\usepackage{x}") is None


@pytest.mark.parametrize(
    "piece",
    [
        *("{", "}", "\\", "\\begin{a}", "\\begin{verbatim}", "\\begin{tabular}{l}", "\\end{a}", "\\item[", "$", "$$"),
        *(
            "\\[",
            "\\(",
            "\\textbf{",
            "\\newcommand{",
            "\\title{",
            "\\cite[",
            "%",
            "\\verb|",
            "\\footnote{",
            "&",
            "\\\\[",
        ),
        *("\\c", "\\begin{itemize}", "\\multicolumn{9}{c}{"),
    ],
)
def test_hostile_source_takes_linear_time(piece):
    start = time.process_time()

    latex.read(piece * 10_000)
    latex.read((piece + "a\n") * 10_000)

    assert time.process_time() - start < 10


@guards(
    "shared/ingest/parse/readers/latex_commands.py",
    "if found[0][1:] in _LETTERS:",
    "if False:",
    means="a word with a letter that is a command is lost, and the text loses its headings",
)
def test_letters_as_commands_stay_in_their_word():
    source = '\\section{Wege}Stra\\ss e, {\\o}re, \\oe uvre, na\\"{\\i}ve.'
    assert text_of(source) == "## Wege\n\nStra\u00dfe, \u00f8re, \u0153uvre, na\u00efve."
