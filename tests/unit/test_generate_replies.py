import pytest

from shared.ingest.generate.replies import questions_in
from shared.providers.json_replies import MalformedReply

TWO = ["What is a lease?", "Who rings the bell?"]
JSON = '{"questions": ["What is a lease?", "Who rings the bell?"]}'


@pytest.mark.parametrize(
    "reply",
    [
        JSON,
        f"```json\n{JSON}\n```",
        f"Sure [as you wish], here they are:\n{JSON}\nAnything else?",
        f'<think>As {{"questions": ["What is this?"]}}?</think>{JSON}',
        '["What is a lease?", "Who rings the bell?"]',
        '[{"question": "What is a lease?"}, {"question": "Who rings the bell?"}]',
        '{"items": ["What is a lease?", "Who rings the bell?"]}',
        "1. What is a lease?\n2) Who rings the bell?\n",
        "Here they are:\n- What is a lease?\n- Who rings the bell?\nI hope this helps!",
        "What is a lease?\n\nWho rings the bell?",
    ],
)
def test_questions_are_extracted_from_any_wrapping(reply):
    assert [question.strip() for question in questions_in(reply)] == TWO


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   \n",
        "{}",
        '{"questions": []}',
        '{"questions": "What is a lease?"}',
        '{"questions": [1, 2]}',
        '{"questions": [null, "What is a lease?"]}',
        '{"answer": "a lease"}',
        "I cannot think of any.",
        "[" * 100_000,
    ],
)
def test_reply_without_questions_is_malformed(reply):
    with pytest.raises(MalformedReply):
        questions_in(reply)


@pytest.mark.parametrize("length", range(len(JSON) - 1, 1, -1))
def test_truncated_reply_is_malformed(length):
    with pytest.raises(MalformedReply):
        questions_in("Sure! Here are the questions:" + JSON[:length])


def test_single_question_object_is_read():
    assert questions_in('{"question": "What is a lease?"}') == ["What is a lease?"]


def test_overlong_question_is_truncated():
    assert len(questions_in('["' + "a" * 50_000 + '"]')[0]) == 1_000
