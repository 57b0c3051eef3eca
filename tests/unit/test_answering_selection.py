"""Which quotes an answer has, and in which order."""

import pytest

from shared.query.answer import Passage
from shared.query.answer.quotes import candidates
from shared.query.answer.selection import MAX_QUOTES, MAX_SENTENCES, select, shares_of_words, shortlist
from shared.query.retrieve.chunks import Cosines
from tests.support.planted import guards

LEASES = [
    Passage(1, "Workers rest. Leases end.", "Leases", score=0.4),
    Passage(2, "Brokers ring. Leases are renewed.", "Brokers", score=0.8),
]


def selected(question, passages, nearness):
    shortlisted = shortlist(question, passages)
    return [quote.text for quote in select(question, passages, shortlisted, nearness)]


@guards(
    "shared/query/answer/selection.py",
    "return sorted(answering, key=lambda index: -reduced[index])",
    "return list(answering)",
    means="the first quote is not the best one",
)
def test_worthiest_quote_is_first_whatever_its_passage():
    assert selected("Zebra?", LEASES, [0.1, 0.7, 0.1, 0.6]) == ["Leases are renewed.", "Leases end."]


@guards(
    "shared/query/answer/selection.py",
    "if worth[index] >= worth[ranked[0]] - _MARGIN",
    "",
    means="a quote that is far from the question fills an answer",
)
def test_quotes_far_below_the_best_are_left_out():
    assert selected("Zebra?", LEASES, [0.2, 0.2, 0.9, 0.2]) == ["Brokers ring."]


def test_answer_has_at_most_three_quotes():
    passage = Passage(1, "One is. Two are. Three are. Four are. Five are.")

    assert len(selected("Zebra?", [passage], [0.5] * 5)) == MAX_QUOTES


@pytest.mark.parametrize("question", ["When do leases end?", "ENDING a lease"])
def test_words_of_question_decide_between_equally_near(question):
    passage = Passage(1, "Leases start. Leases end. Leases rest.", language="en")

    assert selected(question, [passage], [0.5, 0.5, 0.5])[0] == "Leases end."


def test_rare_words_and_headings_count_more():
    passage = Passage(1, "Leases start. Leases stop.\n\n# Ends\n\nLeases rest.\n\nThey sleep.", language="en")
    quotes = candidates([passage])

    start, stop, rest, sleep = shares_of_words("When do leases of sheep end?", quotes, {1: "en"})

    assert start == stop < sleep < rest == 1.0
    assert shares_of_words("Zebra?", quotes, {1: "en"}) == [0.0] * 4


@guards(
    "shared/query/answer/selection.py",
    "counts |= dict.fromkeys(nearest, cosine**2 / max(1, len(nearest)))",
    "",
    means="the sentence from which the matching stored question was written is worth no more than others",
)
def test_sentence_of_matching_stored_question_is_preferred():
    text = "Brokers ring. Workers hold their rows for a minute. Workers rest."

    def first(cosine, unrelated=0.0):
        stored = Passage(1, text, language="en", question="How long are rows held?", cosines=Cosines(cosine, 0.5))
        shortlisted = shortlist("When does it end?", [stored], unrelated)
        return select("When does it end?", [stored], shortlisted, [0.5, 0.45, 0.5])[0].text

    assert first(0.9) == first(0.95, unrelated=0.7) == "Workers hold their rows for a minute."
    assert first(0.2) == first(0.75, unrelated=0.7) == first(None) == "Brokers ring."


def test_equally_likely_sentences_share_the_preference():
    stored = Passage(1, "Rows wait. Rows rest. Brokers ring.", language="en", question="Rows?", cosines=Cosines(1.0))

    waits, rests, rings = (each.worth for each in shortlist("Zebra?", [stored]))

    assert waits == rests == pytest.approx(rings + 0.1)


@guards(
    "shared/query/answer/selection.py",
    "[:MAX_SENTENCES]",
    "[:]",
    means="an answer embeds all sentences of its passages",
)
def test_row_with_rare_word_is_shortlisted():
    rows = "\n".join(f"| {week} | lead {week} |" for week in range(1, 120))
    passages = [Passage(n, f"Sentence {n} ends. " * 3, score=0.9) for n in range(1, 8)]
    table = Passage(8, f"| week | who |\n|---|---|\n{rows}", score=0.5)

    shortlisted = shortlist("Who is there in week 101?", [*passages, table])

    assert len(shortlisted) == MAX_SENTENCES
    assert "week: 101; who: lead 101" in [each.quote.text for each in shortlisted]


@guards(
    "shared/query/answer/selection.py",
    "if first is None or language_of[quote.number] in understood",
    "if True",
    means="an English quote follows a German one",
)
def test_other_languages_follow_only_questions_language():
    german = Passage(1, "Das Geld kommt am Freitag.", language="de")
    english = Passage(2, "The money comes on Friday.", language="en")
    code = Passage(3, "Friday: 12.5", language=None)
    passages = [german, english, code]

    assert selected("Wann kommt das Geld?", passages, [0.5, 0.75, 0.75]) == [
        "Das Geld kommt am Freitag.",
        "Friday: 12.5",
    ]
    assert len(selected("When does the money come?", passages, [0.9, 0.5, 0.85])) == 3
    assert selected("Wann kommt das Geld?", passages, [0.1, 0.9, 0.1]) == ["The money comes on Friday."]
