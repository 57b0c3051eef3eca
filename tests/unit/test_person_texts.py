"""Texts that name a person: checks, and the start of an expression; PostgreSQL evaluates it in other tests."""

import pytest

from features.erasure.texts import one_line, pattern_of, require_texts
from shared.domain.errors import InvalidInput


def test_text_has_single_spaces():
    assert one_line("  Ada \t Lovelace\n") == "Ada Lovelace"


@pytest.mark.parametrize("text", ["", " ", "A", "a" * 101, "Ada\0"])
def test_unusable_text_is_rejected(text):
    with pytest.raises(InvalidInput) as refused:
        require_texts(["Ada Lovelace", text])
    assert refused.value.field == "texts"


def test_eleven_texts_are_rejected():
    require_texts(["Ada"] * 10)
    with pytest.raises(InvalidInput, match="at most 10"):
        require_texts(["Ada"] * 11)


def test_pattern_escapes_punctuation():
    assert r"\." in pattern_of(["a.b"])
    assert r"\(" in pattern_of(["a(b"])


def test_only_words_with_visible_start_need_one():
    assert "(?<!" in pattern_of(["Ada"])
    assert "(?<!" not in pattern_of(["王伟"])
    assert "(?<!" not in pattern_of(["+49 170"])
