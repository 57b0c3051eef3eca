"""Names that are suggested instead of an unknown one."""

import pytest

from shared.domain.text.similar_names import listed, most_similar


@pytest.mark.parametrize(
    ("name", "best"),
    [("handbok", "handbook"), ("HandBook", "handbook"), ("hand", "handbook"), ("docs-faq", "faq"), ("k", "archive")],
)
def test_most_similar_name_is_first(name, best):
    assert most_similar(name, ["manual", "faq", "handbook", "archive"])[0] == best


def test_at_most_five_names_are_similar():
    names = [f"name-{number}" for number in range(9)]

    assert most_similar("name", reversed(names)) == names[:5]


@pytest.mark.parametrize(
    ("names", "others", "sentence"),
    [
        (["a"], 0, "'a'"),
        (["a", "b"], 0, "'a' and 'b'"),
        (["a", "b"], 1, "'a', 'b' and 1 other"),
        (["a"], 1_200, "'a' and 1,200 others"),
    ],
)
def test_names_are_part_of_sentence(names, others, sentence):
    assert listed(names, others) == sentence
