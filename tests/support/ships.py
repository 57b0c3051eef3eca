"""Fifty documents of ten formats, each with a sentence about the anchor of a ship among other sentences."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import EmailMessage

import orjson

from tests.support.illustrated import docx, pdf

EACH = 5
BEFORE = "The harbour opens at six. Its pilots speak of no anchor."
AFTER = "Boats leave at noon. The ship's anchor is painted twice a year."


@dataclass(frozen=True)
class ShipDocument:
    """A document.

    Args:
        ship: name of its ship, which only the sentence contains.
        words: the sentence as a reader sees it.
    """

    name: str
    content: bytes
    ship: str
    words: str


def ships() -> Iterator[ShipDocument]:
    for number, (suffix, build) in enumerate(_FORMATS.items()):
        for variant in range(EACH):
            ship = f"Ketch{number}{variant}"
            content, words = build(ship, variant)
            yield ShipDocument(f"ship-{number}-{variant}.{suffix}", content, ship, words)


def _sentence(ship: str) -> str:
    return f"The anchor of the {ship} weighs 4.5 tonnes, without its chain."


def _markdown(ship: str, variant: int) -> tuple[bytes, str]:
    plain, site = _sentence(ship), "https://example.org/ship"
    rows = f"| ship | anchor | weight |\n|---|:-:|--:|\n| Yawl | **iron** | 3 |\n| {ship} | `steel` | 4.5 t |\n| Punt |"
    written, shown = [
        (f"**The anchor** of the *{ship}* weighs `4.5` tonnes, without its chain.", plain),
        (f"- Chains rust.\n- [ ] {plain}\n- Ropes do not.", plain),
        (
            f"> \U0001f6a2 Quoted. \u201cThe anchor of the **{ship}**\n> weighs ~~5~~ tonnes.\u201d Ropes do not.",
            f"\u201cThe anchor of the {ship} weighs 5 tonnes.\u201d",
        ),
        (rows, f"{ship}steel4.5 t"),
        (
            f"Ask [the port](https://example.org/a_b). The anchor of the [{ship}]({site}) is heavy!",
            f"The anchor of the {ship} ({site}) is heavy!",
        ),
    ][variant]
    return f"# Ships\n\n{BEFORE}\n\n{written}\n\n## More\n\n{AFTER}\n".encode(), shown


def _text(ship: str, variant: int) -> tuple[bytes, str]:
    sentence = [
        _sentence(ship),
        f"The anchor of the {ship} weighs 4.5 tonnes (4.4 * 1.02 * 1.0), i.e. a lot.",
        f"Der Anker der {ship} wiegt 4,5 Tonnen & h\u00e4ngt an <3 Ketten.",
        f"{ship}\u53f7\u7684\u951a\u91cd\u56db\u70b9\u4e94\u5428\u3002",
        f"\U0001f6a2\U0001f6a2 The anchor\nof the {ship} weighs 4.5 tonnes, see https://example.org/anchors.",
    ][variant]
    return f"\U0001f6a2 {BEFORE}\n\n{BEFORE} {sentence} {AFTER}\n".encode(), sentence


def _html(ship: str, variant: int) -> tuple[bytes, str]:
    plain = _sentence(ship)
    body, shown = [
        (f"<p>{BEFORE} {plain} {AFTER}</p>", plain),
        (
            f"<p>{BEFORE} The <b>anchor of the {ship}</b> weighs <i>4.5</i> tonnes, without its chain. {AFTER}</p>",
            plain,
        ),
        (f"<ul><li>{BEFORE}</li><li>{plain}</li></ul>", plain),
        (f"<table><tr><th>ship</th><th>t</th></tr><tr><td>{ship}</td><td>4.5</td></tr></table>", f"{ship}4.5"),
        (
            f"<blockquote>The anchor of the {ship} weighs &lt;5 tonnes &amp; more.</blockquote>",
            f"The anchor of the {ship} weighs <5 tonnes & more.",
        ),
    ][variant]
    return f"<html><head><title>Ships</title></head><body><h1>Ships</h1>{body}</body></html>".encode(), shown


def _paragraphs(write: Callable[[list[str]], bytes]) -> Callable[[str, int], tuple[bytes, str]]:
    """Return a builder of a format without markup: the sentence is in the first to the last of five positions."""

    def build(ship: str, variant: int) -> tuple[bytes, str]:
        sentence = _sentence(ship)
        texts = [BEFORE, f"{BEFORE} {AFTER}", AFTER]
        if variant < 3:
            texts[variant] = f"{texts[variant]} {sentence}"
        else:
            texts.insert(variant - 2, sentence if variant == 3 else f"{sentence} {sentence[:-1]} and its rope.")
        return write(texts), sentence

    return build


def _docx(texts: list[str]) -> bytes:
    return docx([(text, None) for text in texts])


def _pdf(texts: list[str]) -> bytes:
    """Return a file with a sentence on each page, because the text to the right of a page is not read."""
    return pdf([(sentence, None) for text in texts for sentence in re.split(r"(?<=\.) (?=[A-Z])", text)])


def _csv(ship: str, variant: int) -> tuple[bytes, str]:
    rows = [f"Yawl{n},iron,{n}" for n in range(EACH)]
    rows.insert(variant, f'{ship},"steel, grey",4.5')
    return "\n".join(["ship,anchor,tonnes", *rows, ""]).encode(), f"{ship}steel, grey4.5"


def _eml(texts: list[str]) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "ann@example.org", "bob@example.org", "Ships"
    mail.set_content("\n\n".join(texts))
    return mail.as_bytes()


def _rtf(texts: list[str]) -> bytes:
    return (r"{\rtf1\ansi " + "".join(rf"{text}\par " for text in texts) + "}").encode()


def _ipynb(texts: list[str]) -> bytes:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": [text]} for text in texts]
    cells.append({"cell_type": "code", "metadata": {}, "source": ["anchor = 4.5"], "outputs": [], "execution_count": 1})
    return orjson.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _epub(texts: list[str]) -> bytes:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
        '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id"><metadata'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">ships</dc:identifier>'
        "<dc:title>Ships</dc:title><dc:language>en</dc:language></metadata><manifest>"
        '<item id="one" href="one.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="one"/></spine></package>'
    )
    body = "".join(f"<p>{text}</p>" for text in texts)
    page = f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Ships</title></head><body>{body}</body></html>'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("book.opf", package)
        archive.writestr("one.xhtml", page)
    return file.getvalue()


_FORMATS: dict[str, Callable[[str, int], tuple[bytes, str]]] = {
    "md": _markdown,
    "txt": _text,
    "html": _html,
    "docx": _paragraphs(_docx),
    "pdf": _paragraphs(_pdf),
    "csv": _csv,
    "eml": _paragraphs(_eml),
    "rtf": _paragraphs(_rtf),
    "ipynb": _paragraphs(_ipynb),
    "epub": _paragraphs(_epub),
}
