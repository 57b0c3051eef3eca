"""The size of the files that a browser loads for a screen."""

import gzip
from pathlib import Path

import pytest

from api.http.page import ADDRESSES, Page, without_comments
from tests.support.planted import guards

PAGE = Page()
_PDFJS = "vendor/pdfjs/"  # loaded when the first PDF is opened
_WORDS = "words/"  # of one of them the words of the screen are loaded, unless the page is English
MODULES = {
    name: len(file.compressed)
    for name, file in PAGE.files.items()
    if name.endswith(".js") and not name.startswith((_PDFJS, _WORDS))
}
STYLES = sum(len(file.compressed) for name, file in PAGE.files.items() if name.endswith(".css"))


@pytest.mark.parametrize("screen", sorted(set(ADDRESSES.values())))
def test_each_screen_stays_small(screen):
    document = len(gzip.compress(PAGE.document("", screen).encode()))
    english = document + STYLES + sum(MODULES[name] for name in PAGE.modules(screen))
    assert english <= 57_500
    for name in PAGE.files:
        if name.startswith(_WORDS):
            assert english + len(PAGE.file(name, screen).compressed) <= 65_000, name


@guards(
    "api/web/routes/ask.js",
    'import { plural } from "../parts/format.js";',
    'import { plural } from "../parts/format.js";\nimport { answersView } from "../parts/answer.js";',
    means="the first screen waits for the modules of answers, which it does not show yet",
)
def test_first_screen_loads_few_modules():
    assert len(PAGE.modules("ask")) <= 26  # each costs a request, and delays the first paint


def test_all_screens_together_stay_small():
    document = len(gzip.compress(PAGE.document("", "ask").encode()))
    assert document + STYLES + sum(MODULES.values()) <= 255_000
    assert len(MODULES) <= 140
    for name, file in PAGE.files.items():
        if name.startswith(_WORDS):
            assert len(file.compressed) <= 33_000, name


def test_third_party_code_stays_small():
    assert STYLES <= 12_300
    assert sum(size for name, size in MODULES.items() if name.startswith("vendor/")) <= 24_000


def test_pdf_library_stays_below_700_kilobytes():
    """The library and its worker are loaded for a PDF, the two decoders for its scans; CMaps one by one."""
    files = {
        name: file for name, file in PAGE.files.items() if name.startswith(_PDFJS) and file.kind.startswith("text")
    }
    sizes = {name: len(file.compressed) for name, file in files.items()}
    assert sum(size for name, size in sizes.items() if name.endswith(".mjs")) <= 530_000
    assert sum(sizes.values()) <= 700_000
    for screen in ADDRESSES.values():
        assert not any(name.startswith(_PDFJS) or name == "parts/pdf.js" for name in PAGE.modules(screen))


def test_served_files_drop_comments_keep_line_numbers():
    written = b"""/**
 * Why.
 */
const a = "// no comment"; // a comment
  // another
/** @type {number} */
let b = 1; /* within */ let c = `x
y`;
"""
    served = b"""


const a = "// no comment";


let b = 1; /* within */ let c = `x
y`;
"""
    assert without_comments(Path("web/a.js"), written) == served
    assert without_comments(Path("web/vendor/a.js"), written) == written
    assert without_comments(Path("web/a.css"), written) == written
