import json

import pytest

from shared.domain.corpus.chunks import ChunkContext
from shared.ingest.generate.quality import normalise
from shared.ingest.generate.replies import context_in, questions_in
from shared.providers.replies.json_replies import MalformedReply

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
        "What is a lease? Who rings the bell?",
        "1. What is a lease? 2. Who rings the bell?",
        f'<thinking>{{"questions": ["What is this?"]}}</thinking>{JSON}',
        f"1. What is this?\n</think>\n{JSON}",
        '{"questions": ["What is a lease?", "Who rings the bell?",],}',
        '{"questions": ["What is a lease?\n", "Who rings the bell?"]}',
        '{"questions": [null, "What is a lease?", "Who rings the bell?"]}',
        '{"questions": {"1": "What is a lease?", "2": "Who rings the bell?"}}',
        '{"q1": "What is a lease?", "q2": "Who rings the bell?"}',
        f'{{"data": {JSON}}}',
        f'{{"name": "reply", "arguments": {JSON}}}',
        f'{{\'name\': 1}} <tool_call>{{"name": "reply", "arguments": {json.dumps(JSON)}}}</tool_call>',
        f'[TOOL_CALLS][{{"name": "reply", "arguments": {JSON}}}]',
        f'{{"type": "function", "function": {{"name": "reply", "arguments": {JSON}}}}}',
        json.dumps(JSON),
        f"```json\n{json.dumps(JSON)}\n```",
        json.dumps({"questions": json.dumps(TWO)}),
        '{"question": "What is a lease?"}\n{"question": "Who rings the bell?"}',
        '{"questions": ["What is a lease?"]}\n\n{"questions": ["Who rings the bell?"]}',
        '["What is a lease?"]\n["Who rings the bell?"]',
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


@pytest.mark.parametrize("label", ["(1) ", "[Fact] ", "[Main idea]: ", "1) ", "Q1: ", "(Q2) ", "- "])
def test_labels_before_questions_are_removed(label):
    questions = questions_in(f"{label}What is a lease?\n{label}Who rings the bell?")
    assert [normalise(question) for question in questions] == TWO


def test_question_of_two_sentences_in_json_stays_whole():
    question = "Does a lease end? And who rings the bell?"
    assert questions_in(json.dumps([question])) == [question]


def test_single_question_object_is_read():
    assert questions_in('{"question": "What is a lease?"}') == ["What is a lease?"]


def test_overlong_question_is_truncated():
    assert len(questions_in('["' + "a" * 50_000 + '"]')[0]) == 1_000


CONTEXT = {"context": "From the rules of the port.", "terms": ["quay", "pier"]}


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps({"questions": TWO} | CONTEXT),
        json.dumps(CONTEXT | {"questions": TWO}),
        f"Here you are:\n```json\n{json.dumps({'data': {'questions': TWO} | CONTEXT})}\n```",
        f"{JSON}\n{json.dumps(CONTEXT)}",
        json.dumps({"items": TWO} | CONTEXT),
        json.dumps({"q1": TWO[0], "q2": TWO[1]} | CONTEXT),
        json.dumps({"questions": TWO} | CONTEXT | {"terms": "quay, pier"}),
        json.dumps({"questions": TWO} | CONTEXT | {"terms": ["quay", None, " ", 7, "Pier", "pier"]}),
        json.dumps({"questions": TWO} | CONTEXT | {"context": " From the rules\n of the port. "}),
    ],
)
def test_context_and_questions_are_read_from_reply(reply):
    assert questions_in(reply) == TWO
    assert context_in(reply) == ChunkContext("From the rules of the port.", ("quay", "pier"))


@pytest.mark.parametrize(
    "reply",
    [
        JSON,
        "1. What is a lease?\n2. Who rings the bell?",
        json.dumps({"questions": TWO, "context": "", "terms": []}),
        json.dumps({"questions": TWO, "context": {"of": "it"}, "terms": {"quay": 1}}),
        json.dumps({"questions": TWO, "context": None, "terms": [["quay"]]}),
    ],
)
def test_reply_without_context_has_its_questions(reply):
    assert questions_in(reply) == TWO
    assert context_in(reply) is None


def test_part_of_context_is_accepted_alone():
    assert context_in(json.dumps({"questions": TWO, "context": "A port."})) == ChunkContext("A port.")
    assert context_in(json.dumps({"questions": TWO, "terms": ["quay"]})) == ChunkContext("", ("quay",))


def test_context_is_storable_and_of_limited_length():
    terms = [f"quay\x00 {number} \ud800" for number in range(100)] + ["x" * 100]
    context = context_in(json.dumps({"questions": TWO, "context": "a\x00 \ud800word " * 1_000, "terms": terms[::-1]}))

    assert context.line.startswith("a word a word")
    assert len(context.line) <= 500
    assert context.terms == tuple(f"quay {number}" for number in range(99, 79, -1))


def test_terms_alone_are_not_read_as_questions():
    with pytest.raises(MalformedReply):
        questions_in(json.dumps({"context": "Who rings the bell?", "terms": ["What is a lease?"]}))
