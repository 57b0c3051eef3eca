"""A model, or a document that it quotes, decides about the text of an answer: its time grows with its length only."""

import re
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.providers.replies.json_replies import MalformedReply, json_in
from shared.providers.replies.thinking import without_thinking
from shared.query.answer import Passage, links, prompts
from shared.query.answer.citations import CitationCleaner
from shared.query.answer.quotes import candidates
from shared.query.answer.support import supporting
from tests.support.planted import guards
from tests.support.processor_time import processor_time_limit

LENGTH = 200_000
TAGS = re.compile(links._TAG, re.IGNORECASE)


def cleaned(text):
    citations, cleaner = CitationCleaner(range(1, 9)), links.LinkCleaner()
    return cleaner.feed(citations.feed(text) + citations.end()) + cleaner.end()


@guards(
    "shared/query/answer/links.py",
    'return _TAGS.sub(lambda found: f"{found[\'start\']} " if found["start"] else "", text)',
    'return _without_tags(found) if (found := _TAGS.sub("", text)) != text else text',
    means="a title of 35 KB stops all requests for seconds",
)
@guards(
    "shared/query/answer/citations.py",
    'r"(?P<space>(?<![ \\t])[ \\t]*+)',
    'r"(?P<space>[ \\t]*)',
    means="an answer that ends in spaces stops all requests",
)
@pytest.mark.parametrize(
    "text",
    [
        "<im" * (LENGTH // 6) + "g>" * (LENGTH // 6),
        *(piece * (LENGTH // len(piece)) for piece in ("[a](", "![a](:", "[a](: ", "![", "[1](: (", "<a-")),
        *(piece * (LENGTH // len(piece)) for piece in (" ", "[1\u2020", "[1, ", "[ \n", "</ ")),
        "[a](" + " " * LENGTH + ":",
    ],
)
def test_hostile_answer_is_cleaned_in_linear_time(text):
    with processor_time_limit(5):
        cleaned(text)


@example(["<", "im", "<", "img ", ">", "g>"])
@example(["<", "/", "a", "<", "img ", ">", "a>"])
@example(["<", "i", "<", "img", "<", "a ", ">", "mg>"])
@given(st.lists(st.sampled_from(["<", ">", "/", "im", "g>", "img", "img ", "a", "a ", "b", "i", "mg>", " ", "!"])))
def test_removed_tags_never_form_another_tag(pieces):
    assert not TAGS.search(links.without_links("".join(pieces)))


def test_answer_of_spaces_streams_in_linear_time():
    cleaner = CitationCleaner([1])
    with processor_time_limit(5):
        for _ in range(100_000):
            cleaner.feed(" ")


@guards(
    "shared/query/answer/support.py",
    "islice(dict.fromkeys(_statements(text)), _MOST_STATEMENTS)",
    "_statements(text)",
    means="a model that repeats a citation occupies the API for a minute",
)
@pytest.mark.parametrize(
    "answer",
    [
        "It is so [1]. " + " " * LENGTH,
        "All staff have leave. " + "[1]" * 60_000,
        "".join(f"Leave {n} ends [1]. " for n in range(10_000)),
    ],
)
def test_long_answer_is_supported_in_bounded_time(answer):
    passage = Passage(1, "".join(f"Leave {n} ends in {n} days. " for n in range(1_000)))
    with processor_time_limit(10):
        supporting(answer, [passage])


@pytest.mark.parametrize("line", ["a@" + "a" * 20_000, "<" + " " * 20_000, "\n" * 20_000, "x = a" + "(" * 20_000])
def test_hostile_passage_is_quoted_in_linear_time(line):
    passage = Passage(1, f"All staff have 30 days of leave.\n{line}\nThe rest expires.")
    with processor_time_limit(5):
        candidates([passage])
        prompts.request("How many days?", [passage])


@pytest.mark.parametrize(
    "reply",
    [
        "`</think>`" * 30_000,
        "<think></think>" * 10_000,
        '{"a": "' + '\\"' * LENGTH,
        "[" + '"a",' * 60_000 + "x",
        "[" * LENGTH,
    ],
)
def test_hostile_reply_is_read_in_linear_time(reply):
    with processor_time_limit(5), suppress(MalformedReply):
        without_thinking(reply)
        json_in(reply)
