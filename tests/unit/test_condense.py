"""A follow-up question without a model: it is joined to the questions that it continues."""

import pytest

from shared.query.condense import Turn, joined

PAY = "When is the salary paid?"


def last_of(*questions):
    turns = [Turn("user", questions[0])]
    for question in questions[1:]:
        turns += [Turn("assistant", "On the 27th [1]."), Turn("user", question)]
    return joined(turns).text


@pytest.mark.parametrize(
    "question",
    [
        "And in December?",
        "Why?",
        "What about trainees and apprentices?",
        "How much does it cost?",
        "Who pays that?",
        "Und im Dezember?",
        "Wie hoch ist es?",
        "\u90a3\u5341\u4e8c\u6708\u5462\uff1f",
        "\u4e3a\u4ec0\u4e48\uff1f",
        "\u0645\u062a\u0649 \u064a\u0628\u062f\u0623\u061f",
    ],
)
def test_short_follow_up_is_joined_to_question(question):
    assert last_of(PAY, question) == f"{PAY} {question}"


@pytest.mark.parametrize(
    "question",
    [
        "Who repairs broken machines in the workshop?",
        "Is it possible to pay by card?",
        "And which form do I need for a sick child at home?",
        "Wer repariert den Aufzug?",
        "\u8c01\u8d1f\u8d23\u4fee\u7406\u529e\u516c\u697c\u7684\u7535\u68af\uff1f",
        "\u0e43\u0e04\u0e23\u0e0b\u0e48\u0e2d\u0e21\u0e25\u0e34\u0e1f\u0e15\u0e4c\u0e43\u0e19\u0e2d\u0e32\u0e04\u0e32\u0e23",
        "it " * 200,
    ],
)
def test_complete_question_is_searched_alone(question):
    assert last_of(PAY, question) == question


def test_follow_ups_reach_back_to_complete_question():
    assert last_of("How is the pay?", PAY, "And in December?", "Why?") == f"{PAY} And in December? Why?"
    assert last_of("Why?") == "Why?"


def test_long_earlier_question_is_cut():
    assert last_of("word " * 1_000, "Why?") == " ".join(["word"] * 100) + " Why?"
