"""The loss guard counts the words of a text and of its Markdown alike, whatever divides them."""

import pytest

from shared.ingest.parse.readers.guard import guarded, words
from shared.ingest.parse.readers.reading import Part
from tests.support.planted import guards

EQUAL = {
    "case and markup": ("The Ferry leaves", "# the **FERRY** leaves"),
    "table": ("Name ;\nPrice ;\nApple", "| Name | Price |\n| --- | --- |\n| Apple |  |"),
    "divided word": ("a compli-\n cated word", "a complicated word"),
    "divided word, escaped": ("a complicated word", "a compli\\-\ncated word"),
    "other hyphens": ("a compli\u2010\ncated word", "a complicated word"),
    "soft hyphen": ("a com\u00adplicated word", "a complicated word"),
    "ligature": ("\ufb01nal o\ufb03ce", "final office"),
    "combining marks": ("cafe\u0301 A\u030a", "caf\u00e9 \u00c5"),
    "sharp s": ("Straße", "STRASSE"),
    "no spaces": ("日本\n語の文", "日本語 の文"),
    "quotes": ("“so” he said", '"so" he said'),
    "fixed spaces": ("10\u00a0000\u3000km", "10 000 km"),
    "underscore": ("snake_case", "snake\\_case"),
}
DIFFERENT = {
    "word": ("one two three", "one three", ("two",)),
    "repeated word": ("one one two", "one two", ("one",)),
    "joined words": ("seven eight", "seveneight", ("seven", "eight")),
    "other script": ("Straße und Weg", "Weg und", ("strasse",)),
    "number": ("price 12.50", "price 12", ("50",)),
}


@guards(
    "shared/ingest/parse/readers/guard.py",
    "ord(chr(code).lower())",
    "ord(chr(code))",
    means="a heading in capital letters lost its words",
)
@guards(
    "shared/ingest/parse/readers/guard.py",
    "lost = Counter(words(rest)) - Counter(words(_more(arrived_counts, stated_counts)))",
    "return Counter(rest.split())",
    means="words that two readings write differently are lost",
)
@pytest.mark.parametrize(("plain", "markdown"), EQUAL.values(), ids=EQUAL)
def test_equal_words_are_not_lost(plain, markdown):
    part = Part(markdown, plain)

    checked = guarded([part])

    assert (checked.parts, checked.coverage, checked.losses) == ((part,), 1.0, ())
    assert sorted(words(plain)) == sorted(words(markdown))


@guards(
    "shared/ingest/parse/readers/guard.py",
    "if count > (found := find(piece, 0))]",
    "if not (found := find(piece, 0))]",
    means="a word that is shown once too rarely is not missed",
)
@pytest.mark.parametrize(("plain", "markdown", "lost"), DIFFERENT.values(), ids=DIFFERENT)
def test_part_without_words_becomes_plain_text(plain, markdown, lost):
    assert guarded([Part(markdown, plain)]).parts == (Part(plain, plain),)
    counted = words(markdown)
    assert all(words(plain).count(word) > counted.count(word) for word in lost)


def test_part_without_words_has_no_coverage():
    assert guarded([Part("---", "- -")]).coverage is None


@guards(
    "shared/ingest/parse/readers/guard.py",
    "            lost[word] -= _composed(letters, lost[word], spelled)\n",
    "            pass\n",
    means="a word that is divided in the text counts as lost",
)
@pytest.mark.parametrize(
    ("plain", "markdown"),
    [
        ("the underwater hull", "the under water hull"),
        ("A B S T R A C T", "Abstract"),
        ("Shen1 and Lee", "Shen 1 and Lee"),
    ],
)
def test_words_divided_otherwise_are_not_lost(plain, markdown):
    checked = guarded([Part(markdown, plain)])

    assert (checked.parts[0].markdown, checked.coverage) == (markdown, 1)


@guards(
    "shared/ingest/parse/readers/guard.py",
    "end + _STEP <= most - start",
    "end + _STEP <= most",
    means="a word that arrived too rarely is counted at the start and at the end",
    case="600-580",
)
@pytest.mark.parametrize(("stated", "arrived"), [(600, 580), (1_300, 1_270), (100, 90)])
def test_repeated_word_that_arrived_too_rarely_is_lost(stated, arrived):
    checked = guarded([Part("sea " * arrived, "sea " * stated)])

    assert len(words(checked.parts[0].markdown)) == stated


def test_lost_word_between_equal_ends_is_found():
    ends = "the ferry leaves the harbour at six " * 200

    checked = guarded([Part(f"{ends}{ends}", f"{ends}{'storm ' * 60}{ends}")])

    assert "storm" in checked.parts[0].markdown
