# ruff: noqa: RUF001  questions in other scripts end with their own marks

from dataclasses import replace

import numpy as np
import pytest

from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.generate.quality import FilteredQuestion, filter_by_similarity, filter_by_text, floor_for, normalise

SUBJECT = ChunkContent.whole("The lease of a chunk ends after sixty seconds.", title="Leases")


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("  What is\n a lease? ", "What is a lease?"),
        ("1. What is a lease?", "What is a lease?"),
        ("Q3: What is a lease?", "What is a lease?"),
        ("- **What is a lease?**", "What is a lease?"),
        ("“What is a lease?”", "What is a lease?"),
        ("What is a lease???", "What is a lease?"),
        ("What is a lease?!", "What is a lease?"),
        ("How to renew a lease", "How to renew a lease?"),
        ("A lease is a promise.", "A lease is a promise."),
        ("什么是租约？", "什么是租约？"),
        ("什么是租约", "什么是租约？"),
        ("ทีมใดชนะ", "ทีมใดชนะ?"),
        ("ما هو عقد الإيجار", "ما هو عقد الإيجار؟"),
        ("Name one of the causes.", "Name one of the causes."),
        ("Wie lange gilt eine Pacht", "Wie lange gilt eine Pacht?"),
        ("„Faust“ wurde von wem geschrieben?", "„Faust“ wurde von wem geschrieben?"),
        ('Who wrote "Faust"', 'Who wrote "Faust"?'),
        ("「租约」是什么？", "「租约」是什么？"),
        ("\u200fمتى يبدأ؟", "متى يبدأ؟"),
        ("2024 was which kind of year?", "2024 was which kind of year?"),
        ("", ""),
    ],
)
def test_question_is_normalised(written, normal):
    assert normalise(written) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Why?", "too short"),
        ("What is " + "a lease " * 40 + "?", "too long"),
        ("A lease is a promise.", "not a question"),
        ("What is the main idea of this passage?", "speaks of the text, not of its subject"),
        ("What does the author say about leases?", "speaks of the text, not of its subject"),
        ("Who is the author of this text?", "speaks of the text, not of its subject"),
        ("What is the title of the article?", "speaks of the text, not of its subject"),
        ("How did the fall of the fall of the fall end?", "repeats itself"),
        ("Which short question begins with What?", "repeats the prompt"),
    ],
)
def test_bad_question_is_dropped_with_reason(question, reason):
    assert filter_by_text([question], SUBJECT) == [FilteredQuestion(normalise(question), passed=False, reason=reason)]


@pytest.mark.parametrize(
    "question",
    [
        "When does a lease end?",
        "Wann endet eine Pacht?",
        "租约什么时候结束？",
        "契約はいつ終わりますか。",
        "متى ينتهي عقد الإيجار؟",
        "谁是总统？",
        "इस किताब के बाद किताब के लेखक ने क्या किया?",
        "Who wrote the text adventure Zork?",
        "Who is the author of Dune?",
    ],
)
def test_good_question_passes(question):
    assert filter_by_text([question], SUBJECT) == [FilteredQuestion(question, passed=True)]


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        (
            "Jeder Angestellte hat dreißig Tage Urlaub im Jahr. Was am 31. März davon übrig ist, verfällt.",
            ["How many days of leave does an employee have?", "When does leave that was not taken end?"],
        ),
        (
            "每位员工每年有三十天的假期。",
            ["How many days of leave are there a year?", "Wie viele Tage Urlaub gibt es?"],
        ),
        (
            "Everybody has thirty days of leave.",
            ["Wie viele Tage Urlaub hat man?", "كم يوما من الإجازة؟", "每年有几天假期？"],
        ),
    ],
)
def test_questions_in_other_languages_pass(text, questions):
    results = filter_by_text(questions, ChunkContent.whole(text))

    assert [(each.text, each.reason) for each in results] == [(question, None) for question in questions]


def test_prompt_words_in_text_are_not_echoes():
    question = "How is JSON parsed?"
    assert not filter_by_text([question], SUBJECT)[0].passed
    assert filter_by_text([question], ChunkContent.whole("JSON is parsed from left to right."))[0].passed


def test_only_first_of_repeated_questions_passes():
    questions = [
        "When does the lease of a chunk end?",
        "when does the lease of a chunk end",
        "When exactly does the lease of a chunk end?",
        "How long is a lease?",
    ]
    assert [(s.passed, s.reason) for s in filter_by_text(questions, SUBJECT)] == [
        (True, None),
        (False, "repeats an earlier question"),
        (False, "almost repeats an earlier question"),
        (True, None),
    ]


def test_dropped_question_causes_no_duplicate():
    assert [s.passed for s in filter_by_text(["When does the lease end.", "When does the lease end?"], SUBJECT)] == [
        False,
        True,
    ]


def test_questions_without_words_are_comparable():
    assert len(filter_by_text(["?!?!?!?!?!", "........?"], SUBJECT)) == 2


def vectors(*rows):
    matrix = np.array(rows, dtype=np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def test_distant_and_duplicate_questions_are_dropped():
    filtered = [FilteredQuestion(f"Question {i}?", passed=True) for i in range(4)]
    questions = vectors([1, 0, 0], [1, 0.01, 0], [0, 1, 0], [1, 1, 0])

    results = filter_by_similarity(filtered, questions, vectors([1, 0, 0])[0], floor=0.5)

    assert [s.reason for s in results] == [
        None,
        "means the same as an earlier question",
        "unlike its chunk (similarity 0.00, floor 0.50)",
        None,
    ]
    assert [s.similarity for s in results] == pytest.approx([1.0, 1.0, 0.0, 0.7071], abs=1e-3)


def test_similarity_filter_ignores_already_dropped_questions():
    filtered = [
        FilteredQuestion("Text?", passed=False, reason="too short"),
        FilteredQuestion("Question 1?", passed=True),
    ]
    results = filter_by_similarity(filtered, vectors([1, 0], [1, 0]), vectors([1, 0])[0], floor=0.1)
    assert results == [replace(question, similarity=1.0) for question in filtered]


def test_distant_question_passes_without_floor():
    filtered = [FilteredQuestion("Question 1?", passed=True)]
    (results,) = filter_by_similarity(filtered, vectors([-1, 0]), vectors([1, 0])[0], floor=None)
    assert (results.passed, results.similarity) == (True, -1.0)
    assert filter_by_similarity([], np.empty((0, 2), np.float32), vectors([1, 0])[0], floor=0.1) == []


def test_only_measured_models_have_floor():
    assert floor_for("all-minilm-l6-v2-int8") == 0.1
    assert floor_for("sentence-transformers/all-MiniLM-L6-v2") == 0.1
    assert floor_for("text-embedding-3-small") is None
