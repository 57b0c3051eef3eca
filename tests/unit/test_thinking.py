"""Thinking at the start of a reply is removed in every common form, also from a reply that arrives in pieces."""

import pytest

from shared.providers.replies.thinking import ThinkingFilter, without_thinking
from tests.support.planted import guards

ANSWER = "A lease ends after a minute [1]."
THOUGHT = 'The user asks about [9]. Draft: {"questions": ["Is this it?"]}\n\n'
FORMS = [
    f"<think>{THOUGHT}</think>{ANSWER}",
    f"\n<think>\n{THOUGHT}\n</think>\n\n{ANSWER}",
    f"<think></think>\n\n{ANSWER}",
    f"<think>{THOUGHT}</think><think>{THOUGHT}</think>{ANSWER}",
    f"<THINK>{THOUGHT}</THINK>{ANSWER}",
    f"<thinking>{THOUGHT}</thinking>\n{ANSWER}",
    f"<thought>{THOUGHT}</thought>\n{ANSWER}",
    f"<reasoning>{THOUGHT}</reasoning>\n{ANSWER}",
    f"<seed:think>{THOUGHT}</seed:think>{ANSWER}",
    f"[THINK]{THOUGHT}[/THINK]{ANSWER}",
    f"\u25c1think\u25b7{THOUGHT}\u25c1/think\u25b7{ANSWER}",
    f"<|begin_of_thought|>{THOUGHT}<|end_of_thought|><|begin_of_solution|>{ANSWER}<|end_of_solution|>",
    f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>{ANSWER}<|END_RESPONSE|>",
    f"<think>{THOUGHT}</think><answer>{ANSWER}</answer>",
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}<|return|>",
    f"<|channel|>analysis<|message|>{THOUGHT}<|start|>assistant<|channel|>final <|constrain|>json<|message|>{ANSWER}",
    f"<|start|>assistant<|channel|>final<|message|>{ANSWER}<|end|>",
    f"analysis{THOUGHT}assistantfinal{ANSWER}",
    f"<|channel>thought\n{THOUGHT}<channel|>{ANSWER}",
    f"<unused94>thought\n{THOUGHT}<unused95>{ANSWER}",
    # Only the end, because the prompt has opened it.
    f"{THOUGHT}</think>\n\n{ANSWER}",
    f"{THOUGHT}</THINK>{ANSWER}",
    f"{THOUGHT}</thinking>{ANSWER}",
    f"{THOUGHT}</seed:think>{ANSWER}",
    f"{THOUGHT}[/THINK]{ANSWER}",
    f"{THOUGHT}\u25c1/think\u25b7{ANSWER}",
    f"{THOUGHT}<|end_of_thought|>{ANSWER}",
]
LEGITIMATE = [
    ANSWER,
    "",
    "  I think that it ends after a minute [1].\n",
    "<thin> is no tag.",
    "analysis of the data takes a minute [1].",
    "[1] says that it ends.",
    "Wrap it in tags:\n```\n<think>Hm.</think>\n```\nThat is all [1].",
    "```\nx</think>\n```\nThat is all.",
    "The model writes <think>a thought</think> first [1].",
    "The end is marked by `</think>` [1].",
    'It is the tag "</think>" [1].',
    '{"questions": ["What does </think> mean?", "Who rings?"]}',
    '["What does </think> mean?"]',
]


def in_pieces(text, *, size=1, may_start_inside=True):
    thinking = ThinkingFilter(may_start_inside=may_start_inside)
    pieces = [thinking.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return [*pieces, thinking.end()]


@guards(
    "shared/providers/replies/thinking.py",
    "if not is_end and (not text or any(mark.may_open(text) for mark in marks)):",
    "if not is_end and not text:",
    means="the first letters of a thinking tag are shown while the reply arrives",
)
@pytest.mark.parametrize("reply", FORMS)
def test_thinking_is_removed_whole_and_in_pieces(reply):
    assert without_thinking(reply) == ANSWER
    for size in (1, 2, 3, 7, 50):
        assert "".join(in_pieces(reply, size=size)) == ANSWER


@pytest.mark.parametrize("reply", LEGITIMATE)
def test_answer_about_thinking_tags_stays_complete(reply):
    assert without_thinking(reply) == reply
    for may_start_inside in (True, False):
        assert "".join(in_pieces(reply, may_start_inside=may_start_inside)) == reply


@pytest.mark.parametrize("start", ["<think>", "<|channel|>analysis<|message|>", "[THINK]", "\u25c1think\u25b7"])
def test_unfinished_thinking_leaves_no_text(start):
    assert without_thinking(start + THOUGHT) == ""
    assert "".join(in_pieces(start + THOUGHT)) == ""


@pytest.mark.parametrize("reply", [form for form in FORMS if not form.startswith(THOUGHT)])
def test_marked_thinking_is_removed_without_holding_everything(reply):
    assert "".join(in_pieces(reply, may_start_inside=False)) == ANSWER


def test_answer_without_thinking_is_shown_at_once():
    assert in_pieces(ANSWER, may_start_inside=False)[:4] == ["A", " ", "l", "e"]


def test_reply_that_may_start_inside_is_held_back():
    pieces = in_pieces(ANSWER)

    assert (set(pieces[:-1]), pieces[-1]) == ({""}, ANSWER)


def test_filter_notes_how_the_thinking_started():
    for reply, removed, inside in ((ANSWER, False, False), (FORMS[0], True, False), (f"x</think>{ANSWER}", True, True)):
        thinking = ThinkingFilter(may_start_inside=True)
        thinking.feed(reply)
        thinking.end()
        assert (thinking.has_removed, thinking.started_inside) == (removed, inside)
