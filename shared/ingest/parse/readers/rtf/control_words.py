"""Control words of RTF 1.9.1 that matter for text: characters, groups, and the ends of paragraphs and cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shared.ingest.parse.readers.rtf.blocks import Blocks

CHARACTERS = {
    "tab": "\t",
    "line": "\n",
    "lbr": "\n",
    "emdash": "\u2014",
    "endash": "\u2013",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "bullet": "\u2022",
    "emspace": "\u2003",
    "enspace": "\u2002",
    "qmspace": "\u2005",
    "softline": "\n",
    "zwj": "\u200d",
    "zwnj": "\u200c",
    "~": "\u00a0",
    "_": "-",
}
SKIPPED = frozenset(
    [
        "colortbl",
        "pict",
        "nonshppict",
        "objdata",
        "list",
        "listlevel",
        "leveltext",
        "levelnumbers",
        "listname",
        "listpicture",
        "fldtitle",
        "objclass",
        "themedata",
        "colorschememapping",
        "generator",
        "xmlnstbl",
        "latentstyles",
        "datastore",
        "listtable",
        "listoverridetable",
        "revtbl",
        "rsidtbl",
        "filetbl",
        "ftnsep",
        "ftnsepc",
        "ftncn",
        "aftnsep",
        "aftnsepc",
        "aftncn",
        "fldinst",
        "bkmkstart",
        "bkmkend",
        "sp",
        "shprslt",
        "nonesttables",
        "pn",
        "pntxta",
        "pntxtb",
        "atnid",
        "atnref",
        "atndate",
        "atrfstart",
        "atrfend",
        "atnparent",
        "xe",
        "tc",
        "txe",
        "rxe",
        "tcn",
        "private",
        "blipuid",
        "mmathPr",
        "mmathPict",
        "docvar",
        "wgrffmtfilter",
        "pgptbl",
        "mhtmltag",
        "userprops",
        "password",
        "passwordhash",
        "fontemb",
        "falt",
        "panose",
        "template",
        "datafield",
        "formfield",
        "factoidname",
        "protusertbl",
    ]
)
"""Groups without text that people see."""

STARRED = frozenset(
    [
        "shpinst",
        "shptxt",
        "annotation",
        "atnauthor",
        "nesttableprops",
        "ud",
        "htmltag",
        "moMath",
        "moMathPara",
        "mr",
        "mt",
        "mmath",
        "oMath",
        "listtext",
        "pntext",
        "cs",
        "ts",
        "tsrowd",
        "fldrslt",
        "footnote",
        "stylesheet",
        "result",
        "background",
        "dptxbxtext",
    ]
)
"""Groups marked as optional (`*`) that are read; all others are skipped."""

SHOWN = frozenset(("text", "note", "comment", "marker", "link", "shape"))
"""Groups whose text is text of the document."""

NAMES = frozenset(("style", "title", "instruction", "author"))
DESTINATIONS = {
    "fonttbl": "font",
    "stylesheet": "styles",
    "info": "info",
    "title": "title",
    "footnote": "note",
    "annotation": "comment",
    "atnauthor": "author",
    "listtext": "marker",
    "pntext": "marker",
    "shptxt": "shape",
    "dptxbxtext": "shape",
    "upr": "",
} | dict.fromkeys(("header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf"), "margin")
"""Groups of another use, and the word for it here."""

PARAGRAPH_ENDS = frozenset(("par", "sect", "page", "column"))
CELL_ENDS = {"cell": (False, False), "nestcell": (False, True), "row": (True, False), "nestrow": (True, True)}
ROW_WORDS: Mapping[str, Callable[[Blocks], None]] = {
    "trowd": Blocks.start_row,
    "cellx": Blocks.define_cell,
    "clvmrg": lambda blocks: blocks.merge(vertical=True),
    "clmrg": lambda blocks: blocks.merge(vertical=False),
    "pard": Blocks.reset,
    "intbl": Blocks.enter_table,
}

MEANINGFUL = (
    SKIPPED
    | CHARACTERS.keys()
    | DESTINATIONS.keys()
    | {"u", "uc", "ud", "bin", "fldrslt", "htmltag"}
    | PARAGRAPH_ENDS
    | CELL_ENDS.keys()
    | ROW_WORDS.keys()
    | {"itap", "outlinelevel", "ilvl", "s"}
    | {"f", "af", "loch", "hich", "dbch", "plain", "deleted", "htmlrtf", "fcharset", "cpg"}
    | {"ansicpg", "deff", "mac", "pc", "pca"}
)
"""All other control words, most of a file, change only the look of its text."""
