from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.documents import ReadyQuestion
from shared.ingest.parse.chunks.questions import assign

CHUNKS = tuple(
    ChunkContent.whole(text, heading_path=path)
    for path, text in [
        (("Boats",), "The harbour master keeps the list of boats."),
        (("Boats",), "The ferry leaves the harbour at\nseven and at noon."),
        (("Fares",), "Children travel free of charge."),
    ]
)


def assigned(*questions: ReadyQuestion) -> list[list[str]]:
    indexes = assign(questions, CHUNKS)
    return [[q.text for q, owner in zip(questions, indexes, strict=True) if owner == index] for index in range(3)]


def test_quote_overrides_word_overlap():
    question = ReadyQuestion("Do children travel free?", quote="leaves the  Harbour at seven")

    assert assigned(question) == [[], [question.text], []]


def test_question_without_quote_matches_rarest_words():
    assert assigned(ReadyQuestion("When does the ferry leave the harbour?")) == [
        [],
        ["When does the ferry leave the harbour?"],
        [],
    ]
    assert assigned(ReadyQuestion("What are the fares?"))[2]


def test_unmatched_quote_contributes_its_words():
    assert assigned(ReadyQuestion("How?", quote="children who travel"))[2] == ["How?"]


def test_first_chunk_gets_tied_and_unmatched_questions():
    assert assigned(ReadyQuestion("Boats?"), ReadyQuestion("Qwerty?"))[0] == ["Boats?", "Qwerty?"]


def test_document_without_chunks_gets_no_assignments():
    assert assign([ReadyQuestion("Why?")], ()) == []
