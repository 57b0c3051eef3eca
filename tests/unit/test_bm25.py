# ruff: noqa: RUF001  other scripts have letters that look like ours

import time

import pytest

from shared.domain.text.bm25 import document_vector, query_vector


def test_query_matches_inflected_words():
    document = document_vector("The running of the dogs")

    assert set(query_vector("dog run").indices) == set(document.indices)


def test_accents_and_case_are_ignored():
    assert query_vector("CAFÉ").indices == query_vector("cafe").indices


def test_stop_words_have_no_weight():
    assert query_vector("what is the").indices == []


def test_weight_saturates_with_repetition_and_falls_with_length():
    single, repeated = document_vector("cat").values[0], document_vector("cat " * 50).values[0]
    buried = document_vector("cat " + " ".join(f"w{i}" for i in range(1000)))

    assert single < repeated < 2.2
    assert buried.values[buried.indices.index(query_vector("cat").indices[0])] < single


def test_weights_follow_bm25_formula():
    # tf 2 in a document of 4 words: 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 256))
    vector = document_vector("cat cat dog bird")

    weight = vector.values[vector.indices.index(query_vector("cat").indices[0])]
    assert weight == pytest.approx(2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 256)), abs=1e-6)


def test_indices_are_sorted_and_distinct():
    indices = document_vector("one two three two one").indices

    assert indices == sorted(set(indices))


def shared_terms(text, language, query, languages=("de", "en")):
    return set(document_vector(text, language).indices) & set(query_vector(query, languages).indices)


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("de", "In den Häusern der Altstadt", "ein altes Haus"),
        ("de", "Die E-Mail-Adresse fehlt", "Adresse"),
        ("de", "Die Straße ist gesperrt", "STRASSE"),
        ("fr", "Les économies régionales", "une economie"),
        ("fr", "Les economies regionales", "une économie"),
        ("ru", "Книги лежат на столах", "на каком столе"),
        ("ru", "Новый музей", "в новом здании"),
        ("el", "ΟΙ ΔΡΟΜΟΙ ΤΗΣ ΠΟΛΗΣ", "ποιος δρόμος"),
        ("tr", "İSTANBUL'un IŞIKLARI", "istanbul"),
        ("tr", "İSTANBUL'un IŞIKLARI", "ışık"),
        ("ar", "قرأتُ الكِتابَ", "كتاب"),
        ("hi", "किताबें मेज़ पर हैं", "किताब"),
        ("hi", "सन् १९४७ में", "1947"),
        ("zh", "黑豹队的防守丢了分", "防守"),
        ("zh", "使用Docker容器部署", "docker"),
        ("ja", "東京タワーの高さは", "タワー"),
        ("ko", "서울에서 만났다", "서울"),
        ("th", "ทีมรับของแพนเธอร์สยอมแพ้", "แพนเธอร์ส"),
        ("vi", "Thủ đô là Hà Nội", "Hà Nội"),
        ("en", "Set `max_tokens` to 5", "max_tokens"),
        ("en", "Set `max_tokens` to 5", "tokens"),
        ("en", "The order AB-1234/7 was sent", "ab-1234/7"),
        ("en", "The order AB-1234/7 was sent", "1234"),
        ("en", "Write to a.b@example.com", "A.B@example.com"),
        (None, "Häuser", "Häuser"),
        (None, "Functions", "function"),
    ],
)
def test_query_matches_words_of_every_language(language, text, query):
    languages = {"en", "de", *([language] if language else [])}

    assert shared_terms(text, language, query, languages)


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("vi", "Con ma", "má"),  # "ghost" must not match "cheek"
        ("hi", "किताब", "ताब"),  # vowel signs do not divide words
        ("ja", "東京都", "京東"),
    ],
)
def test_unrelated_words_do_not_match(language, text, query):
    assert not shared_terms(text, language, query, [language])


def test_complete_identifier_outranks_its_parts():
    identifier, parts = document_vector("AB-1234/7"), document_vector("7 or 1234, AB")
    query = set(query_vector("AB-1234/7").indices)

    assert len(query & set(identifier.indices)) > len(query & set(parts.indices)) == 3


def test_query_is_stemmed_for_every_collection_language():
    german, english = document_vector("Häuser", "de"), document_vector("Houses", "en")
    query = query_vector("Häuser houses", ["de", "en"])

    assert set(german.indices) | set(english.indices) <= set(query.indices)
    assert not set(german.indices) & set(query_vector("Häuser").indices)


def test_stop_words_of_query_language_are_ignored():
    german = query_vector("Wie hoch ist der Turm in der Stadt?", ["de", "en"])
    english = query_vector("How do people die in the city?", ["de", "en"])

    assert german.words == 3
    assert not set(document_vector("der", "en").indices) & set(german.indices)
    assert set(document_vector("die", "en").indices) <= set(english.indices)


def test_stems_of_unlikely_language_count_half():
    (stem,) = document_vector("Häuser", "de").indices
    certain, uncertain = query_vector("Wo sind die Häuser?", ["de"]), query_vector("Häuser", ["de"])

    assert {index: 1.0 if index == stem else 0.5 for index in certain.indices} == dict(
        zip(certain.indices, certain.values, strict=True)
    )
    assert len(certain.indices) == 2
    assert uncertain.values == [1.0, 1.0]


def test_query_length_is_independent_of_languages():
    one, many = query_vector("the running dogs"), query_vector("the running dogs", ["de", "en", "fr", "ru", "zh"])

    assert one.words == many.words == 2
    assert set(one.indices) <= set(many.indices)


@pytest.mark.parametrize("pattern", ["a", "a-", "_", "1.", "क", "字", "@", "é", "a/1"])
def test_document_vector_time_is_linear_in_length(pattern):
    started = time.process_time()
    document_vector(pattern * 100_000, "de")
    assert time.process_time() - started < 5
