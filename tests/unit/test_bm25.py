import pytest

from shared.text.bm25 import document_vector, query_vector


def test_a_query_finds_other_forms_of_its_words():
    document = document_vector("The running of the dogs")

    assert set(query_vector("dog run").indices) == set(document.indices)


def test_accents_and_case_do_not_matter():
    assert query_vector("CAFÉ").indices == query_vector("cafe").indices


def test_stopwords_weigh_nothing():
    assert query_vector("what is the").indices == []


def test_repetition_saturates_and_length_costs():
    once, often = document_vector("cat").values[0], document_vector("cat " * 50).values[0]
    buried = document_vector("cat " + " ".join(f"w{i}" for i in range(1000)))

    assert once < often < 2.2
    assert buried.values[buried.indices.index(query_vector("cat").indices[0])] < once


def test_weights_are_those_of_the_formula():
    # tf 2 in a document of 4 words: 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 256))
    vector = document_vector("cat cat dog bird")

    weight = vector.values[vector.indices.index(query_vector("cat").indices[0])]
    assert weight == pytest.approx(2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 256)), abs=1e-6)


def test_indices_are_sorted_and_distinct():
    indices = document_vector("one two three two one").indices

    assert indices == sorted(set(indices))
