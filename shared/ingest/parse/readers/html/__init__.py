"""Reader of HTML (HTML Standard; parsed by libxml2): its text as Markdown, and a second reading of its words.

Read: the text that a browser shows without styles and scripts, alternative texts and values of fields. Not read:
hidden elements, templates, `noscript`, frames, the text of drawings, and comments.
"""

from __future__ import annotations

import re
from html import unescape

from lxml import etree

from shared.ingest.parse.readers.guard import escaped
from shared.ingest.parse.readers.html.elements import BLOCKS, UNSEEN
from shared.ingest.parse.readers.html.tree import markdown_of_tree
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.xml_tree import require_memory

_TITLE_CHARS = 65_536  # the top of a page, which has its title
_TOO_DEEP = "Excessive depth"
_BREAK = "\0"

# A tag or a comment without an end extends to the end of the page, so that each character is read once.
_TAG = re.compile(
    r"""<(/?)([a-zA-Z][^\s/>]*+)((?:[^>"']++|"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))*)(?:>|\Z)"""
    r"|<!--.*?(?:-->|\Z)|<[!?][^>]*+(?:>|\Z)",
    re.DOTALL,
)
_RAW_ENDS = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style", "title", "iframe", "noembed")}
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_SPACED = frozenset(("mi", "mn", "mo", "mtext", "ms", "input", "option", "img", "select", "textarea"))
_SPACES = {**dict.fromkeys(_SPACED, " "), **dict.fromkeys(BLOCKS, _BREAK)}
_QUOTED = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_HIDDEN = re.compile(r"(?:^|\s)hidden(?=[\s=/]|\Z)")
_HIDING = re.compile(r"style\s*+=.*?(?:display\s*+:\s*+none|visibility\s*+:\s*+hidden)", re.IGNORECASE | re.DOTALL)

_STRAY = re.compile(r"<(?=[A-Za-z][^<>\"'=]{0,200}<)")  # a tag that another one interrupts
_RENAMED = re.compile(r"<(/?)(?:noframes|plaintext)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title\b[^<>]{0,500}>", re.IGNORECASE)
_TITLE_END = re.compile(r"</title", re.IGNORECASE)
_DRAWING = re.compile(r"<(/?)svg\b", re.IGNORECASE)


def read(html: str, body: str | None = None) -> FileReading:
    """Return the text and the title of a page.

    Args:
        html: the page.
        body: the part of it that is read; None for the whole page.
    """
    page = _repaired(html if body is None else body)
    plain = _plain(page)
    return FileReading((Part(_markdown(page, plain), plain),), title_of(html))


def markdown_of(html: str) -> str:
    """Return the text of a page as Markdown; without structure if its elements are nested too deep for libxml2."""
    return _markdown(_repaired(html))


def plain_of(html: str) -> str:
    """Return the words of a page, one paragraph for each block, from its tags alone; nesting has no limit."""
    return _plain(_repaired(html))


def _markdown(page: str, plain: str = "") -> str:
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(page.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:  # it lacks memory for the tree of this page
        return escaped(plain or _plain(page))
    require_memory(parser)
    if root is None:
        return ""
    if any(_TOO_DEEP in error.message for error in parser.error_log):
        return escaped(plain or _plain(page))
    return markdown_of_tree(root, frozenset(plain.split("\n\n")))


def _plain(page: str) -> str:
    lines = (" ".join(line.split()) for line in unescape("".join(_seen(page))).split(_BREAK))
    return "\n\n".join(line for line in lines if line)


def _seen(page: str) -> list[str]:
    """Return the pieces of a page that a browser shows, with a mark between blocks."""
    pieces, at = list[str](), 0
    unseen, depth = "", 0
    tags = _TAG.finditer(page)
    while found := next(tags, None):
        start, end = found.span()
        if start > at and not depth:
            pieces.append(page[at:start])
        at = end
        closing, name, attributes = found.groups()
        if name is None:
            continue
        name, opens = name.lower(), not closing and attributes[-1:] != "/"
        if depth:
            depth += (1 if opens else -1) if name == unseen and not (opens and name == "p") else 0
        elif name in UNSEEN or (attributes and _is_hidden(attributes)):
            unseen, depth = name, int(opens and name not in _VOID)
            pieces.append(_BREAK if name in BLOCKS else "")
        elif space := _SPACES.get(name):
            pieces.append(space)
        if opens and name in _RAW_ENDS:
            raw_end = _RAW_ENDS[name].search(page, at)
            at = raw_end.start() if raw_end else len(page)
            tags = _TAG.finditer(page, at)
    if not depth:
        pieces.append(page[at:])
    return pieces


def _is_hidden(attributes: str) -> bool:
    if "hidden" in attributes and _HIDDEN.search(_QUOTED.sub("", attributes)) and "until-found" not in attributes:
        return True
    return "style" in attributes and _HIDING.search(attributes) is not None


def title_of(html: str) -> str | None:
    """Return the first title of a page that is not the title of a drawing."""
    top = html[:_TITLE_CHARS]
    for found in _TITLE.finditer(top):
        drawings = sum(-1 if tag[1] else 1 for tag in _DRAWING.finditer(top, 0, found.start()))
        if drawings <= 0:
            end = top.find("<", found.end())
            return " ".join(unescape(top[found.end() : end if end >= 0 else len(top)]).split()) or None
    return None


def _repaired(html: str) -> str:
    """Return a page without mistakes that would hide its text: `x<y` and a title without an end."""
    html = _RENAMED.sub(r"<\1div", _STRAY.sub("&lt;", html))
    title = _TITLE.search(html)
    if not title or _TITLE_END.search(html, title.end()):
        return html
    end = html.find("<", title.end())
    return f"{html[:end]}</title>{html[end:]}" if end >= 0 else html
