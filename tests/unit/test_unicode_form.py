"""The composed form of values of JSON."""

from unicodedata import normalize

import pytest

from shared.domain.errors import InvalidInput
from shared.domain.text.unicode_form import composed

WORDS = ["Zürich", "한국어", "Tiếng Việt", "Å", "naïve"]


@pytest.mark.parametrize("word", WORDS)
def test_every_text_and_name_is_composed(word):
    def value(form):
        text = normalize(form, word)
        return {text: [text, {text: text}, 1, True, None, 1.5], "x": {}}

    assert composed(value("NFD")) == composed(value("NFC")) == value("NFC")


def test_compatible_characters_stay_different():
    assert composed("ﬁ ① ²") == "ﬁ ① ²"


def test_name_in_two_forms_is_refused():
    with pytest.raises(InvalidInput, match="'Å' occurs twice") as error:
        composed({"a": [{normalize("NFD", "Å"): 1, normalize("NFC", "Å"): 2}]})

    assert error.value.field == "metadata"
