"""Links and images in a model's answer are removed: nothing is loaded, and no link opens a target from a document."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.query.answer.links import LinkCleaner, without_links

EVIL = "https://evil.example/?q=secret"
CASES = [
    (f"Leave is 30 days.![x]({EVIL}) It renews.", "Leave is 30 days. It renews."),
    (f"See [the page]({EVIL}) [1].", "See the page [1]."),
    (f"So it is [1]({EVIL}), and [2][3].", "So it is [1], and [2][3]."),
    (f'See [a](<{EVIL}> "title") and [b]({EVIL}(x)).', "See a and b."),
    (f"[![alt]({EVIL})]({EVIL})", ""),
    ("![alt][ref] and ![alt] and [text][ref].", " and  and [text][ref]."),
    (f"[1]: {EVIL}", f"[1] : {EVIL}"),
    (f"<{EVIL}> <img src={EVIL}> <a href='{EVIL}'>x</a>", f"< {EVIL}>  x"),
    (f"[open]({EVIL} not closed", f"[open] ({EVIL} not closed"),
    ("if a < b: use List<int> and f[0], wow!", "if a < b: use List<int> and f[0], wow!"),
    (f'<div style="background:url({EVIL})">', f'< div style="background:url({EVIL})">'),
    (f"<table background='{EVIL}'><b>x</b>", f"< table background='{EVIL}'><b>x</b>"),
    ("Nothing to see here!", "Nothing to see here!"),
]


PIECES = [*"![]()<>:1a \n", "img ", "im", "g ", "ht", "tp://e", "http://e"]


def in_pieces(pieces):
    cleaner = LinkCleaner()
    return "".join([*map(cleaner.feed, pieces), cleaner.end()])


@pytest.mark.parametrize(("written", "shown"), CASES)
def test_links_become_text_and_images_are_removed(written, shown):
    assert without_links(written) == shown


@pytest.mark.parametrize(("written", "shown"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_link_split_across_pieces_is_recognised(written, shown, size):
    assert in_pieces([written[i : i + size] for i in range(0, len(written), size)]) == shown


@example(["<", "<", "img ", ">", "img "])
@example(["<", "im", "<", "img ", ">", "g "])
@example(["<", "im", "[", "g", "]", "(", ":", ")", " a"])
@example(["<", "im", "![a](:)", "g "])
@example(["<", "ht", "![a]", "tp://e"])
@example(["<", "![a](:)", "img "])
@example(["<", "<", "img ", ">", "http://e"])
@given(st.lists(st.sampled_from(PIECES)))
def test_links_are_removed_for_every_stream_chunking(pieces):
    shown = in_pieces(pieces)

    assert not re.search(r"\]\(|\]:|!\[|<img|<http:", shown)


def test_overlong_link_is_shown_as_text():
    shown = in_pieces(["see [text](", "x" * 5_000, ") end"])

    assert "](" not in shown
    assert shown.startswith("see [text] (xxx")
    assert shown.endswith(") end")
