"""LaTeX: sections, lists, tables and text; formulas as source; no preamble and no comments."""

import time
from itertools import pairwise

import pytest

from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.markup import latex
from shared.ingest.parse.readers.markup.latex_commands import plain_words
from tests.support.planted import guards


def text_of(source):
    reading = latex.read(source)
    assert reading
    assert guarded(reading.parts).coverage in (1, None)
    return reading.parts[0].markdown


@guards(
    "shared/ingest/parse/readers/markup/latex.py",
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
    "shared/ingest/parse/readers/markup/latex.py",
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


def test_letters_as_commands_stay_in_their_word():
    source = '\\section{Wege}Stra\\ss e, {\\o}re, \\oe uvre, na\\"{\\i}ve.'
    assert text_of(source) == "## Wege\n\nStra\u00dfe, \u00f8re, \u0153uvre, na\u00efve."


@guards(
    "shared/ingest/parse/readers/markup/latex_commands.py",
    "if found[0][1:] in _LETTERS:",
    "if False:",
    means="a letter that is a command divides its word in the second reading",
)
def test_second_reading_keeps_letters_in_words():
    assert plain_words("Stra\\ss e, {\\o}re").split() == ["Stra\u00dfe,", "\u00f8re"]


@pytest.mark.parametrize(
    ("definition", "use", "shown"),
    [
        (r"\newcommand{\fee}[2]{The #1 costs #2 euro}", r"\fee{pump {A}}{50}.", "The pump A costs 50 euro."),
        (
            r"\newcommand\fee[2][pump]{the #1 costs #2}",
            r"Now \fee{5}, then \fee[seal]{6}.",
            "Now the pump costs 5, then the seal costs 6.",
        ),
        (r"\def\fee#1#2{#2 for #1}", r"\fee{pump}5.", "5 for pump."),
        (r"\NewDocumentCommand{\fee}{m O{5}}{#1}", r"\fee{pump}.", "pump."),
        (
            r"\newcommand{\acme}{ACME \& Sons}",
            r"At \acme{} and \acme, or \acme here.",
            "At ACME & Sons and ACME & Sons, or ACME & Sons here.",
        ),
        (r"\newcommand{\a}{\b}\newcommand{\b}{deep}", r"It is \a.", "It is deep."),
        (r"\newcommand{\be}{\begin{itemize}}\newcommand{\ee}{\end{itemize}}", r"\be\item one\ee", "- one"),
        (r"\renewcommand{\section}[1]{\gone}", r"\section{Kept}", "## Kept"),
        (r"\newcommand{\acme}{ACME}", "\\begin{verbatim}\n\\acme\n\\end{verbatim}", "```\n\\acme\n```"),
        (r"\newcommand{\acme}{ACME}", r"one\\acme", "one\nacme"),
    ],
)
@guards(
    "shared/ingest/parse/readers/markup/latex_macros.py",
    "arguments[number], at = source[group.end() + 1 : end - 1], end",
    "at = end",
    means="arguments of a file's own commands are lost",
)
@guards(
    "shared/ingest/parse/readers/markup/latex_macros.py",
    'if name not in known and "@" not in macro.body:',
    "if True:",
    means="a new look of headings removes them",
)
def test_own_commands_are_written_out(definition, use, shown):
    assert text_of(definition + "\n\\begin{document}\n" + use + "\n\\end{document}") == shown


@guards(
    "shared/ingest/parse/readers/markup/latex_macros.py",
    " or depth > _DEEPEST:",
    ":",
    means="a command that contains itself is written out without an end",
)
def test_endless_commands_end():
    bomb = "".join(f"\\newcommand{{\\{a}x}}{{" + f"\\{b}x " * 10 + "}" for a, b in pairwise("abcdefghij"))
    assert "word" in text_of(rf"{bomb}\ax word")
    assert "word" in text_of(r"\newcommand{\loop}{\loop\loop}\loop word")
