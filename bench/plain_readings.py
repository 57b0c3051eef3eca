"""The words of files by plain readings, which share no code with the parser and are compared with its text.

They know only paragraphs of XML, bodies of HTML, parts of messages, and `pdftotext`, and leave out invisible text:
deleted revisions, field codes, scripts and styles. They do not see notes, charts, attachments and number formats.
"""

from __future__ import annotations

import email
import email.policy
import json
import re
import shutil
import subprocess
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from lxml import etree, html

_XML = etree.XMLParser(recover=True, huge_tree=True, resolve_entities=False, no_network=True)
# Scripts without spaces: each character is a word, because lines break anywhere.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_HYPHEN = re.compile(r"(\w)-\s*\n\s*(\w)")
_WORD_PARTS = re.compile(r"word/(document\d*|footnotes|endnotes)\.xml")
_SLIDES = re.compile(r"ppt/slides/slide(\d+)\.xml")
_UNSEEN_OF_WORD = frozenset(("Fallback", "delText", "instrText", "del", "moveFrom"))
_UNSEEN_OF_ODF = frozenset(
    ("tracked-changes", "creator", "date", "sender-initials", "binary-data", "index-title-template")
)
_BLOCKS_OF_ODF = frozenset(("p", "h", "annotation", "note-citation", "note-body", "index-title", "page"))
_SPACES_OF_WORD = frozenset(("tab", "br", "cr"))
_UNSEEN_OF_HTML = frozenset(("script", "style", "noscript", "template", "head", "svg", "math"))
_INLINE = frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "cite",
        "code",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "u",
    ]
)


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; a word that a line end divides is one."""
    plain = unicodedata.normalize("NFKC", text).replace("\u00ad", "").lower()
    spaced = _UNSPACED.sub(r" \g<0> ", _HYPHEN.sub(r"\1\2", plain))
    return re.findall(r"[^\W_]+", spaced)


def reading_of(path: Path) -> str | None:
    """Return the text of a file by the plain reading of its format; None if there is none for it."""
    reading = READINGS.get(path.suffix[1:].lower())
    return reading(path.read_bytes()) if reading else None


def _docx(content: bytes) -> str:
    archive = zipfile.ZipFile(BytesIO(content))
    parts = sorted(name for name in archive.namelist() if _WORD_PARTS.fullmatch(name))
    return "\n".join("".join(_word_text(etree.fromstring(archive.read(name), _XML))) for name in parts)


def _word_text(root: etree._Element) -> Iterator[str]:
    stack: list[etree._Element | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
            continue
        name = _name(item)
        if name in _UNSEEN_OF_WORD:
            continue
        if name == "t" and item.text:
            yield item.text
        elif name in _SPACES_OF_WORD:
            yield " "
        elif name == "noBreakHyphen":
            yield "-"
        if name == "p":
            stack.append("\n")
        stack.extend(reversed(item))


def _pptx(content: bytes) -> str:
    archive = zipfile.ZipFile(BytesIO(content))
    slides = sorted((int(found[1]), name) for name in archive.namelist() if (found := _SLIDES.fullmatch(name)))
    return "\n".join("".join(_word_text(etree.fromstring(archive.read(name), _XML))) for _, name in slides)


def _odt(content: bytes) -> str:
    xml = zipfile.ZipFile(BytesIO(content)).read("content.xml") if content.startswith(b"PK") else content
    body = etree.fromstring(xml, _XML).find("{*}body")
    if body is None:
        return ""
    texts = list[str]()
    walk = etree.iterwalk(body, events=("start", "end"))
    for event, element in walk:
        name = _name(element)
        gap = "\n" if name in _BLOCKS_OF_ODF else " " if name in ("s", "tab", "line-break") else ""
        if event == "end":
            texts += [gap, element.tail or ""]
        elif name in _UNSEEN_OF_ODF:
            walk.skip_subtree()
        else:
            texts += [gap, element.text or ""]
    return "".join(texts)


def _html(content: bytes, charset: str | None = None) -> str:
    if charset is None and b"charset" not in content[:4096].lower() and _is_utf8(content):
        charset = "utf-8"
    try:
        root = html.document_fromstring(content, parser=html.HTMLParser(encoding=charset, huge_tree=True))
    except (etree.ParserError, ValueError):
        return ""
    texts, unseen = [], 0
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        hidden = _name(element) in _UNSEEN_OF_HTML
        block = "" if _name(element) in _INLINE else "\n"
        if event == "start":
            unseen += hidden
            texts += [block, "" if unseen else element.text or ""]
        else:
            unseen -= hidden and event == "end"
            texts += [block, "" if unseen else element.tail or ""]
    return "".join(texts)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _epub(content: bytes) -> str:
    archive = zipfile.ZipFile(BytesIO(content))
    package = next(name for name in archive.namelist() if name.endswith(".opf"))
    root = etree.fromstring(archive.read(package), _XML)
    paths = {item.get("id"): unquote(item.get("href") or "") for item in root.iter("{*}item")}
    names = [str(PurePosixPath(package).parent / paths.get(ref.get("idref"), "")) for ref in root.iter("{*}itemref")]
    return "\n".join(_html(archive.read(name)) for name in names if name in archive.namelist())


def _eml(content: bytes) -> str:
    message = email.message_from_bytes(content, policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    if body is None:
        return str(message.get("subject") or "")
    try:
        text = body.get_content()
    except (LookupError, UnicodeError):
        text = str(body.get_payload(decode=True), "latin-1")  # type: ignore[arg-type]  # it has no parts
    if body.get_content_subtype() == "html":
        text = _html(text.encode(), "utf-8")
    return f"{message.get('subject') or ''}\n{text}"


def _pdf(content: bytes) -> str:
    command = ["pdftotext", "-q", "-enc", "UTF-8", "-", "-"]
    done = subprocess.run(command, input=content, capture_output=True, timeout=120, check=False)
    return done.stdout.decode("utf-8", "replace").replace("\f", "\n")


def _plain(content: bytes) -> str:
    return content.decode("utf-8-sig", "replace")


def _notebook(content: bytes) -> str:
    return "\n".join("".join(cell.get("source", ())) for cell in json.loads(content).get("cells", ()))


def _name(element: etree._Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


READINGS: dict[str, Callable[[bytes], str]] = {
    "docx": _docx,
    "pptx": _pptx,
    "odt": _odt,
    "ott": _odt,
    "fodt": _odt,
    "odp": _odt,
    "html": _html,
    "htm": _html,
    "epub": _epub,
    "eml": _eml,
    "ipynb": _notebook,
    "md": _plain,
    "txt": _plain,
    "csv": _plain,
}
if shutil.which("pdftotext"):
    READINGS["pdf"] = _pdf
