"""What a browser must fetch for a screen stays small."""

import gzip

import pytest

from api.page import ADDRESSES, Page

PAGE = Page()
MODULES = {name: len(file.compressed) for name, file in PAGE.files.items() if name.endswith(".js")}
STYLES = sum(len(file.compressed) for name, file in PAGE.files.items() if name.endswith(".css"))


@pytest.mark.parametrize("screen", sorted(set(ADDRESSES.values())))
def test_a_screen_takes_at_most_35_kilobytes(screen):
    document = len(gzip.compress(PAGE.document("", screen).encode()))
    assert document + STYLES + sum(MODULES[name] for name in PAGE.modules(screen)) <= 35_000


def test_all_screens_together_take_at_most_90_kilobytes():
    document = len(gzip.compress(PAGE.document("", "ask").encode()))
    assert document + STYLES + sum(MODULES.values()) <= 90_000
    assert len(MODULES) <= 45


def test_styles_and_code_of_others_are_a_small_part_of_it():
    assert STYLES <= 12_000
    assert sum(size for name, size in MODULES.items() if name.startswith("vendor/")) <= 8_000
