"""Certainty comes from the retrieval of the passages, whatever an answer looks like."""

import pytest

from shared.domain.corpus.collections import Baseline
from shared.query.answer import ExtractiveAnswerer, GenerativeAnswerer, Passage, unrelated_cosine
from shared.query.answer.certainty import CERTAIN, FOUND, coverages_of, strengths_of
from shared.query.retrieve.chunks import Cosines
from tests.support.planted import guards
from tests.unit.test_answering import PiecesModel, WordEmbedder

QUESTION = "When does a lease end?"
TEXT = "A lease ends after sixty seconds. The worker renews it."
MINILM = "all-minilm-l6-v2-w8a8"


def passage(number=1, text=TEXT, near=0.6, **more):
    return Passage(number, text, language="en", cosines=Cosines(near, near), **more)


def strength(found, unrelated=0.0, question=QUESTION):
    return strengths_of(question, [found], unrelated)[1]


STRONG = passage()
WEAK = passage(2, "The broker is a doorbell.", near=0.3)


@guards(
    "shared/query/answer/generative.py",
    "(not found or is_supported(cited, strengths))",
    "(not found or bool(cited))",
    means="a model that always answers is certain",
)
@pytest.mark.parametrize(
    ("text", "certain"),
    [("It ends [1].", True), ("It rings [2].", False), ("It rings [2], and ends [1].", True), ("It ends.", False)],
)
async def test_written_answer_needs_cited_evidence(text, certain):
    answer = await GenerativeAnswerer(PiecesModel(text)).answer(QUESTION, [STRONG, WEAK])
    assert (answer.found, answer.is_certain) == (True, certain)


async def test_answer_without_evidence_is_uncertain():
    for found in (WEAK, Passage(2, TEXT)):
        answer = await GenerativeAnswerer(PiecesModel("It ends [2].")).answer(QUESTION, [found])
        assert (answer.found, answer.is_certain) == (True, False)


@guards(
    "shared/query/answer/extractive.py",
    "or not may_answer(strengths):",
    "or False:",
    means="a passage that is about something else is quoted as the answer",
)
async def test_extractive_answer_needs_evidence():
    async def quoted(near):
        return await ExtractiveAnswerer(WordEmbedder()).answer("a lease ends after", [passage(near=near)])

    for near, found, certain in ((0.1, False, True), (0.2, True, False), (0.6, True, True)):
        answer = await quoted(near)
        assert (answer.found, answer.is_certain) == (found, certain)


async def test_quoted_passage_must_be_the_supported_one():
    near = passage(1, "The broker is a doorbell, so a lease ends at once.", near=0.7)
    quoted = passage(2, "After sixty seconds, a lease ends.", near=0.1)
    answer = await ExtractiveAnswerer(WordEmbedder()).answer("after sixty seconds a lease ends", [near, quoted])
    assert (answer.found, answer.is_certain) == (True, False)


def test_nearness_alone_and_words_alone_are_weak():
    assert strength(STRONG) > CERTAIN
    assert strength(passage(text="The doorbell rings.")) < CERTAIN
    assert strength(passage(near=0.1)) < FOUND


def test_strength_does_not_depend_on_collection_size():
    others = [passage(number, "Leases have tokens.", 0.9, score=0.1) for number in range(2, 30)]
    found = [passage(1, "The lease of a worker.", score=0.9), *others]
    assert strengths_of(QUESTION, found, 0.0)[1] == strengths_of(QUESTION, found[:10], 0.0)[1]


@guards(
    "shared/query/answer/certainty.py",
    "nlargest(_MOST_PASSAGES, passages, key=lambda passage: passage.score)",
    "passages[:_MOST_PASSAGES]",
    means="the best passages count for nothing if sections are ordered",
)
def test_best_passages_have_strengths_in_any_order():
    others = [passage(number, score=0.1) for number in range(2, 30)]
    assert 1 in strengths_of(QUESTION, [*others, passage(score=0.9)], 0.0)


@pytest.mark.parametrize(
    ("cosines", "similarity"),
    [(Cosines(0.8, 0.4), 0.5), (Cosines(0.2, 0.4), 0.4), (Cosines(0.8, None), 0.8), (Cosines(None, 0.4), 0.4)],
)
def test_text_counts_more_than_stored_question(cosines, similarity):
    found = Passage(1, TEXT, language="en", cosines=cosines)
    assert strength(found, question="lease ends") == pytest.approx(1.5 * similarity)


def test_shifted_cosines_count_like_others():
    assert strength(passage(near=0.9), 0.75) == pytest.approx(strength(passage(near=0.6)))
    assert strength(passage(near=0.7), 0.75) == 0.0


@guards(
    "shared/query/answer/certainty.py",
    "texts = (passage.title, *passage.heading_path, passage.question, passage.text)",
    "texts = (passage.title, *passage.heading_path, passage.text)",
    means="the words of the question that matched count for nothing",
)
@pytest.mark.parametrize(
    ("question", "found", "coverage"),
    [
        ("When do leases end?", Passage(1, TEXT, language="en"), 1.0),
        ("When do leases expire?", Passage(1, TEXT, language="en"), 0.35),
        ("When do leases expire?", Passage(1, TEXT, question="When does it expire?", language="en"), 1.0),
        ("When do leases end?", Passage(1, "After a minute.", "Leases", ("Their end",), language="en"), 1.0),
        ("Wann endet die Frist?", Passage(1, "Die Fristen endeten gestern.", language="de"), 1.0),
        ("Wann endet die Frist?", Passage(1, TEXT, language="en"), 0.0),
        ("租约何时结束", Passage(1, "租约在一分钟后结束。", language="zh"), 0.26),
        ("When?", Passage(1, TEXT, language="en"), 0.0),
    ],
)
def test_coverage_counts_contained_words(question, found, coverage):
    assert coverages_of(question, [found]) == pytest.approx([coverage], abs=0.005)


@guards(
    "shared/query/answer/certainty.py",
    "weights = [1 + log1p((of_all - count + 0.5) / (count + 0.5)) for count in counts]",
    "weights = [1.0 for count in counts]",
    means="a passage about Kubernetes is a certain answer about Terraform",
)
def test_words_that_few_passages_contain_count_more():
    texts = ["Deploy on Kubernetes.", "Deploy with Helm.", "Deploy with Compose, or on Kubernetes."]
    found = [Passage(number, text, language="en") for number, text in enumerate(texts, 1)]

    helm, terraform = (coverages_of(f"How do I deploy with {name}?", found) for name in ("Helm", "Terraform"))

    assert helm[1] == 1.0
    assert max(terraform) < helm[0] < 0.5


def test_calibration_does_not_move_known_models():
    for cosine, model in ((0.0, MINILM), (0.0, "all-MiniLM-L6-v2"), (0.75, "intfloat/multilingual-e5-large")):
        assert unrelated_cosine(model) == unrelated_cosine(model, Baseline(0.5, 0.1)) == cosine


@pytest.mark.parametrize(("similarity", "cosine"), [(0.0, 0.0), (0.3, 0.0), (0.45, 0.3), (0.6, 0.6), (0.8, 0.8)])
def test_high_baseline_shifts_unknown_models(similarity, cosine):
    assert unrelated_cosine("bge-large", Baseline(similarity, 0.05)) == pytest.approx(cosine)
    assert unrelated_cosine("bge-large") == 0.0
