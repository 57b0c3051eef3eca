"""A book is read in the order of its spine; missing and protected chapters are named."""

import zipfile
from io import BytesIO

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers import epub
from tests.support.planted import guards

CONTAINER = '<container xmlns="c"><rootfiles><rootfile full-path="{}"/></rootfiles></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>The <i>Ferry</i></dc:title></metadata><manifest>{}</manifest><spine>{}</spine></package>"""
NCX = """<ncx xmlns="n"><navMap><navPoint><navLabel><text>{}</text></navLabel><content src="{}"/></navPoint></navMap>
</ncx>"""
XHTML = "application/xhtml+xml"


def book(chapters, *, folder="OEBPS/", spine=None, items=(), **more):
    """Return a book with chapters: name in the package to body; other items are (id, href, media type, properties)."""
    entries = [(str(number), name, XHTML, "") for number, name in enumerate(chapters)] + list(items)
    manifest = "".join(f'<item id="{i}" href="{h}" media-type="{m}" properties="{p}"/>' for i, h, m, p in entries)
    ids = [str(number) for number in range(len(chapters))] if spine is None else spine
    files = {
        "META-INF/container.xml": CONTAINER.format(f"{folder}content.opf"),
        f"{folder}content.opf": PACKAGE.format(manifest, "".join(f'<itemref idref="{i}"/>' for i in ids)),
        **{name: f"<html><body>{body}</body></html>" for name, body in more.pop("files", {}).items()},
        **more.pop("raw", {}),
    }
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def text_of(content):
    return "\n\n".join(part.markdown for part in epub.read(content).parts)


@guards(
    "shared/ingest/parse/readers/epub.py",
    "[] if package is None else _spine(package, items)",
    "[]",
    means="the order is that of the list of files",
)
def test_chapters_have_order_of_spine():
    content = book(
        {"a.xhtml": "", "b.xhtml": ""},
        spine=["1", "0"],
        files={"OEBPS/a.xhtml": "<p>A</p>", "OEBPS/b.xhtml": "<h1>B</h1>"},
    )

    assert text_of(content) == "# B\n\nA"
    assert epub.read(content).title == "The Ferry"


@guards(
    "shared/ingest/parse/readers/epub.py",
    'unquote(address.partition("#")[0])',
    "address",
    means="encoded names are not found",
)
@pytest.mark.parametrize("folder", ["OEBPS/", "a/b/"])
def test_names_are_relative_to_package_and_encoded(folder):
    above = folder.rpartition("/")[0].rpartition("/")[0]
    name = f"{above}/text/chapter 1.xhtml".lstrip("/")
    content = book({"../text/chapter%201.xhtml": ""}, folder=folder, files={name: "one"})

    assert text_of(content) == "one"


def test_wrong_media_type_is_read_by_name():
    content = book({}, spine=["x"], items=[("x", "a.xhtml", "text/plain", "")], files={"OEBPS/a.xhtml": "one"})

    assert text_of(content) == "one"


def test_missing_chapter_is_named():
    content = book({"a.xhtml": "", "gone.xhtml": ""}, files={"OEBPS/a.xhtml": "one"})

    assert epub.read(content).unread == ("OEBPS/gone.xhtml is listed in the book but missing in the file",)


@guards(
    "shared/ingest/parse/readers/epub.py",
    'method.get("Algorithm") not in _OF_FONTS',
    "True",
    means="a book with protected fonts is refused",
)
def test_protected_book_is_refused_unless_only_fonts():
    encrypted = (
        '<encryption xmlns="e"><EncryptedData><EncryptionMethod Algorithm="{}"/><CipherData>'
        '<CipherReference URI="OEBPS/a.xhtml"/></CipherData></EncryptedData></encryption>'
    )

    def protected(algorithm):
        raw = {"META-INF/encryption.xml": encrypted.format(algorithm)}
        return book({"a.xhtml": ""}, files={"OEBPS/a.xhtml": "one"}, raw=raw)

    with pytest.raises(Unreadable, match="protected with DRM"):
        epub.read(protected("http://www.w3.org/2001/04/xmlenc#aes128-cbc"))
    assert text_of(protected("http://www.idpf.org/2008/embedding")) == "one"


def test_title_in_contents_makes_first_line_a_heading():
    raw = {"OEBPS/toc.ncx": NCX.format("Chapter One", "a.xhtml")}
    items = [("ncx", "toc.ncx", "application/x-dtbncx+xml", "")]
    content = book({"a.xhtml": ""}, items=items, files={"OEBPS/a.xhtml": "<p><b>CHAPTER ONE</b></p><p>x</p>"}, raw=raw)

    assert text_of(content) == "# CHAPTER ONE\n\nx"


@guards(
    "shared/ingest/parse/readers/epub.py",
    'if others.issuperset(words(part.plain or "")):',
    "if True:",
    means="contents with own words are left out",
)
@pytest.mark.parametrize(("own", "kept"), [("", False), ("<p>Unknown elsewhere", True)])
def test_long_repeated_contents_are_left_out(own, kept):
    titles = "".join(f"<li><a href='a.xhtml#{n}'>Chapter number {n} of the book</a></li>" for n in range(50))
    nav = f"<nav><ol>{titles}</ol></nav>{own}"
    body = "".join(f"<h2>Chapter number {n} of the book</h2>" for n in range(50))
    items = [("nav", "nav.xhtml", XHTML, "nav")]
    content = book(
        {"a.xhtml": ""}, spine=["nav", "0"], items=items, files={"OEBPS/a.xhtml": body, "OEBPS/nav.xhtml": nav}
    )

    assert len(epub.read(content).parts) == 1 + kept


def test_file_without_package_is_damaged():
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("META-INF/container.xml", CONTAINER.format("gone.opf"))

    with pytest.raises(Unreadable, match="damaged"):
        epub.read(content.getvalue())
