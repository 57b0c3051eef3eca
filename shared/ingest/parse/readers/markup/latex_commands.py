"""Commands of LaTeX: their text, the number of their arguments that are not text, and the words of a file."""

from __future__ import annotations

import re
import unicodedata

SYMBOLS = {
    "LaTeX": "LaTeX",
    "TeX": "TeX",
    "LaTeXe": "LaTeX2e",
    "BibTeX": "BibTeX",
    "ldots": "\u2026",
    "dots": "\u2026",
    "S": "\u00a7",
    "P": "\u00b6",
    "ss": "\u00df",
    "ae": "\u00e6",
    "AE": "\u00c6",
    "oe": "\u0153",
    "OE": "\u0152",
    "o": "\u00f8",
    "O": "\u00d8",
    "aa": "\u00e5",
    "AA": "\u00c5",
    "l": "\u0142",
    "L": "\u0141",
    "i": "\u0131",
    "j": "\u0237",
    "copyright": "\u00a9",
    "textcopyright": "\u00a9",
    "textregistered": "\u00ae",
    "texttrademark": "\u2122",
    "pounds": "\u00a3",
    "euro": "\u20ac",
    "texteuro": "\u20ac",
    "textdegree": "\u00b0",
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textbar": "|",
    "textless": "<",
    "textgreater": ">",
    "textendash": "\u2013",
    "textemdash": "\u2014",
    "textbullet": "\u2022",
    "textquotedblleft": "\u201c",
    "textquotedblright": "\u201d",
    "glqq": "\u201e",
    "grqq": "\u201c",
    "slash": "/",
    "quad": " ",
    "qquad": " ",
    "newline": "\n",
    "linebreak": "\n",
    "today": "",
    "and": ", ",
    "dag": "\u2020",
    "ddag": "\u2021",
    "guillemotleft": "\u00ab",
    "guillemotright": "\u00bb",
    "flqq": "\u00ab",
    "frqq": "\u00bb",
    "textperiodcentered": "\u00b7",
    "dh": "\u00f0",
    "DH": "\u00d0",
    "th": "\u00fe",
    "TH": "\u00de",
    "space": " ",
    "textunderscore": "_",
    "ng": "\u014b",
}

SECTIONS = {
    "part": 1,
    "chapter": 1,
    "section": 2,
    "subsection": 3,
    "subsubsection": 4,
    "paragraph": 5,
    "subparagraph": 6,
    "title": 1,
    "frametitle": 3,
    "addchap": 1,
    "addsec": 2,
    "subtitle": 2,
}

EMPHASIS = {
    "textbf": "**",
    "emph": "*",
    "textit": "*",
    "textsl": "*",
    "texttt": "`",
    "code": "`",
    "strong": "**",
    "lstinline": "`",
}

UNREAD = {
    "documentclass": 1,
    "usepackage": 1,
    "label": 1,
    "input": 1,
    "include": 1,
    "includegraphics": 1,
    "bibliography": 1,
    "bibliographystyle": 1,
    "vspace": 1,
    "hspace": 1,
    "setlength": 2,
    "addtolength": 2,
    "setcounter": 2,
    "addtocounter": 2,
    "pagestyle": 1,
    "thispagestyle": 1,
    "pagenumbering": 1,
    "newcommand": 2,
    "renewcommand": 2,
    "providecommand": 2,
    "newenvironment": 3,
    "renewenvironment": 3,
    "newtheorem": 2,
    "DeclareMathOperator": 2,
    "graphicspath": 1,
    "color": 1,
    "hypersetup": 1,
    "geometry": 1,
    "cline": 1,
    "cmidrule": 1,
    "definecolor": 3,
    "lstset": 1,
    "textcolor": 1,
    "raisebox": 1,
    "colorbox": 1,
    "parbox": 1,
    "addcontentsline": 3,
    "stepcounter": 1,
    "newcounter": 1,
    "fontsize": 2,
    "selectlanguage": 1,
    "usetheme": 1,
    "usetikzlibrary": 1,
    "addbibresource": 1,
    "hyphenation": 1,
    "bibinfo": 1,
    "hypertarget": 1,
    "hyperlink": 1,
    "resizebox": 2,
    "scalebox": 1,
    "rule": 2,
    "phantom": 1,
    "index": 1,
    "theoremstyle": 1,
    "allowdisplaybreaks": 0,
    "crefname": 3,
    "foreignlanguage": 1,
    "linespread": 1,
    "newlength": 1,
    "settowidth": 2,
    "rowcolor": 1,
    "cellcolor": 1,
    "multicolumn": 2,
    "multirow": 2,
    "vskip": 0,
    "nocite": 1,
    "RequirePackage": 1,
    "captionsetup": 1,
    "hskip": 0,
    "si": 0,
}
"""The number of the first arguments of a command that are not text."""

ENVIRONMENT_ARGUMENTS = {
    "tabular": 1,
    "tabular*": 2,
    "tabularx": 2,
    "tabulary": 2,
    "longtable": 1,
    "array": 1,
    "minipage": 1,
    "multicols": 1,
    "thebibliography": 1,
    "wrapfigure": 2,
    "wraptable": 2,
    "list": 2,
    "minted": 1,
    "adjustbox": 1,
    "subfigure": 1,
    "column": 1,
    "subtable": 1,
    "supertabular": 1,
    "xltabular": 2,
    "tblr": 1,
    "longtable*": 1,
    "spacing": 1,
    "otherlanguage": 1,
    "adjustwidth": 2,
}

CITATION = re.compile(r"[A-Za-z]{0,20}[cC]ite[A-Za-z]{0,20}\Z")
REFERENCES = frozenset(("ref", "eqref", "autoref", "pageref", "cref", "Cref", "nameref", "vref"))

_COMBINING = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "c": "\u0327",
    "v": "\u030c", "u": "\u0306", "H": "\u030b", "r": "\u030a", "k": "\u0328", "d": "\u0323", "b": "\u0331",
}  # fmt: skip
_ACCENT = re.compile(
    r"\\(?:([\"'`^~=.])\s*(?:\{\s*(?:\\([ij])|([A-Za-z]))\s*\}|\\([ij])(?![A-Za-z])\s?|([A-Za-z]))"
    r"|([cvuHrkdb])(?:\{\s*(?:\\([ij])|([A-Za-z]))\s*\}|\s+([A-Za-z])))"
)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\){0,20})%[^\n]*+(?:\n[ \t]*+)?")


def with_letters(source: str) -> str:
    """Return a source in which accents and letters of other alphabets are characters."""
    return _ACCENT.sub(_letter, source) if "\\" in source else source


def _letter(found: re.Match[str]) -> str:
    mark = found[1] or found[6]
    base = next((part for part in (found[2], found[3], found[4], found[5], *found.groups()[6:]) if part), "")
    return unicodedata.normalize("NFC", base + _COMBINING[mark])


def without_comments(source: str) -> str:
    """Return a source without comments, each with its line break."""
    return _COMMENT.sub(r"\1", source) if "%" in source else source


_INNER = r"\{(?:[^{}]|\{[^{}]{0,300}+\}){0,1000}\}"
_ARGUMENT = rf"\s{{0,9}}\{{(?:[^{{}}\\]|\\.|{_INNER}){{0,2000}}\}}"
_UNREAD_NAMES = "|".join(sorted((name for name, count in UNREAD.items() if count), key=len, reverse=True))
_PLAIN = re.compile(
    r"\\(?:begin|end)\s{0,9}\{(?P<environment>[^{}\n]{1,60}+)\}"
    rf"|\\(?P<unread>{_UNREAD_NAMES})(?![A-Za-z])\*?"
    r"|\\(?:[A-Za-z@]{1,60}+\*?)|\\(?P<symbol>[\s\S])|[{}~&^_$]",
)
_ARGUMENTS = re.compile(_ARGUMENT)
_LETTERS = frozenset(("ss", "ae", "AE", "oe", "OE", "aa", "AA", "o", "O", "l", "L", "i", "j")) & SYMBOLS.keys()
_END_OF_NAME = re.compile(r"\{\}|[ \t]++\n?|\n(?!\n)")
_OPTIONAL = re.compile(r"\s{0,3}\[[^\[\]\n]{0,500}+\]")


def plain_words(source: str) -> str:
    """Return the words of a body; names of commands and arguments that are not text are left out."""
    kept, at = list[str](), 0
    while found := _PLAIN.search(source, at):
        kept.append(source[at : found.start()])
        at = found.end()
        if found[0][1:] in _LETTERS:  # it is in a word
            kept.append(SYMBOLS[found[0][1:]])
            at = end.end() if (end := _END_OF_NAME.match(source, at)) else at
            continue
        name = found["unread"] or found["environment"]
        command = found[0].startswith("\\") and not found["symbol"] and not found[0].endswith(("item", "cite"))
        if (command or found["symbol"] == "\\") and (optional := _OPTIONAL.match(source, at)):
            at = optional.end()
        if name:
            count = UNREAD[name] if found["unread"] else _environment_arguments(found, name)
            for _ in range(count):
                if argument := _ARGUMENTS.match(source, at):
                    at = argument.end()
                if optional := _OPTIONAL.match(source, at):
                    at = optional.end()
        kept.append(_between(found, source, at))
    return "".join((*kept, source[at:]))


def _between(found: re.Match[str], source: str, at: int) -> str:
    if found[0] in "{}":
        return " " if source.startswith("{", at) else ""
    return "" if found["symbol"] in ("-", "/") else f" {SYMBOLS.get(found[0][1:], '')} "


def _environment_arguments(found: re.Match[str], name: str) -> int:
    return ENVIRONMENT_ARGUMENTS.get(name, 0) if found[0].startswith("\\begin") else 0
