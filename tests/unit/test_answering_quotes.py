"""Parts of passages that are quoted: complete statements that are understood without the lines around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.text.sentences import MAX_CHARS
from shared.query.answer import Passage
from shared.query.answer.quotes import candidates
from tests.support.planted import guards

PRICES = """Prices depend on the weight:

| service | up to 2 kg | [up to 5 kg](prices.md) |
|---|--:|---|
| Standard | 4.90 | |
| Express \\| 9:00 | 10.50 | 14.50 |
"""


def quoted(text, **passage):
    return [quote.text for quote in candidates([Passage(1, text, **passage)])]


def sources(text):
    quotes = candidates([Passage(1, text)])
    return [[text[each.start : each.end] for each in quote.supports] for quote in quotes]


@guards(
    "shared/query/answer/quotes.py",
    "            self.header = cells\n            return",
    "            self.header = cells",
    means="the header of a table is quoted as an answer",
)
def test_row_is_quoted_with_its_header():
    assert quoted(PRICES) == [
        "service: Standard; up to 2 kg: 4.90",
        "service: Express | 9:00; up to 2 kg: 10.50; up to 5 kg: 14.50",
    ]
    assert sources(PRICES) == [["| Standard | 4.90 | |"], ["| Express \\| 9:00 | 10.50 | 14.50 |"]]


@guards(
    "shared/query/answer/quotes.py",
    "if not _ADJACENT.fullmatch(text, self.row_end, span.start):",
    "if False:",
    means="a row has the labels of another table",
)
def test_row_without_header_is_quoted_alone():
    other = f"{PRICES}\n| Tuesday | closed |\n| Friday | at noon |\n"

    assert quoted(other)[2:] == ["Tuesday | closed", "Friday | at noon"]
    assert [quote.is_complete for quote in candidates([Passage(1, other)])] == [True, True, False, False]


@pytest.mark.parametrize("words", [100, 200])
def test_long_row_is_quoted_without_labels(words):
    long = "wide " * words
    text = f"| {'label ' * 20}| b |\n|---|---|\n| {long}| end |\n"

    quotes = quoted(text)

    assert " ".join(quotes).replace(" |", "").split() == [*long.split(), "end"]
    assert all(len(quote) <= MAX_CHARS for quote in quotes)


@guards(
    "shared/query/answer/quotes.py",
    "while self.introductions and self.introductions[-1][0] >= indent:",
    "while False:",
    means="an item follows the introduction of another list",
)
def test_item_follows_introduction_of_its_list():
    text = (
        "You need\n\n- shoes,\n- one of these:\n  1. a badge. It is yellow.\n  2. a key;\n- goggles.\n\nAsk.\n- Alone."
    )

    assert quoted(text) == [
        "You need: shoes",
        "one of these: a badge.",
        "It is yellow.",
        "one of these: a key",
        "You need: goggles.",
        "Ask.",
        "Alone.",
    ]
    assert sources(text)[1] == ["one of these:", "a badge."]
    assert sources(text)[4] == ["You need", "goggles."]


def test_item_with_long_introduction_is_quoted_alone():
    assert quoted(f"{'Very ' * 110}long:\n\n- {'An item ' * 20}ends.")[0].startswith("An item An item")


@guards(
    "shared/query/answer/quotes.py",
    "if _COLON.search(text) or",
    "if",
    means="a sentence that introduces code is quoted without it",
    case="Then, into an empty database:",
)
@guards(
    "shared/query/answer/quotes.py",
    "is_pointer(source) or",
    "",
    means="an answer sends the reader elsewhere",
    case="See the notice board.",
)
@guards(
    "shared/query/answer/quotes.py",
    'or (not is_complete and after == "code")',
    "",
    means="half of a sentence is quoted",
    case="To install it, run",
)
@pytest.mark.parametrize(
    "text",
    [
        "Then, into an empty database:\n\n    pg_restore backup",
        "At least 200 pixels on both sides:\n\n| a | b |\n|---|---|",
        "**Note:**",
        "请注意\uff1a",
        "To install it, run\n\n    pip install foreask",
        "To install it, run\n```\npip install foreask\n```",
        "This page has the commands, and explains restoring.",
        "[This page](backup.md) has the commands.",
        "PostgreSQL and the uploads, as the page about backups describes.",
        "See the notice board.",
        "[How to use MCP](use-mcp.md).",
        "More: [how it works](how.md), [why](why.md).",
        "This section describes the errors.",
        "Siehe Abschnitt 4.",
        "Diese Seite fasst die Regeln zusammen.",
        "    helm uninstall foreask\n    kubectl delete pvc data",
        "    foreask ask 'How do I get a key?' -c mine",
        "\tforeask check",
        "    steps:\n      - run: make\n      - run: make test",
    ],
    ids=lambda text: text.partition("\n")[0],
)
def test_introductions_pointers_and_code_are_not_quoted(text):
    assert quoted(f"{text}\n\nThe office opens at nine.") == ["The office opens at nine."]


@pytest.mark.parametrize(
    "text",
    [
        "Seen from above, the hall is round.",
        "The page is available in Chinese.",
        "The ratio is 3:1.",
        "    An indented paragraph is no code. It ends here.",
        "Those who see it first report it.",
    ],
)
def test_statements_that_resemble_them_are_quoted(text):
    assert " ".join(quoted(text)) == text.strip()


def test_links_are_quoted_as_their_text():
    text = "A key [permits](keys.md#scopes) ![x](y.png)reading [1], see <a href='x'>all</a>."

    assert quoted(text) == ["A key permits reading, see all."]
    assert sources(text) == [[text]]


def test_quote_names_nearest_heading():
    text = "Before.\n\n## Duty desk\nThe lead answers.\n\n**In the evening**\n\nThe deputy answers."
    quotes = candidates([Passage(1, text, "Handbook", ("Safety",))])

    assert [quote.heading for quote in quotes] == ["Safety", "Duty desk", "**In the evening**"]
    assert [quote.heading for quote in candidates([Passage(1, "Text.", "Handbook")])] == ["Handbook"]


LINES = [
    "| a | b |",
    "|---|---|",
    "- item:",
    "  - inner",
    "1. One. Two",
    "Text:",
    "Done.",
    "    code",
    "```",
    "",
    "# H",
    "> said",
]


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_each_quote_is_in_its_passage(lines):
    text = "\n".join(lines)
    for quote in candidates([Passage(1, text)]):
        assert quote.text
        assert len(quote.text) <= MAX_CHARS
        for support in quote.supports:
            assert text[support.start : support.end].strip()
