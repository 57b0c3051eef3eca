"""Lost words of a file are reported in bounded sentences, and never silently."""

import orjson
import pytest
from foreask_client import Document
from rich.console import Console

from cli import losses, output
from shared.domain.corpus.completeness import Completeness, Loss, stored_completeness
from tests.support import replies
from tests.support.parser_replies import SOUND, document_reply, received
from tests.support.planted import guards
from tests.unit.test_parse_replies import LIMITS

LOSS = Loss("page 3", 14, ("quay", "tide"))


@guards(
    "shared/domain/corpus/completeness.py",
    "sum(loss.missing for loss in others)",
    "others[0].missing",
    means="words of parts that do not fit in a reply are lost silently",
)
def test_last_loss_sums_up_all_others():
    bounded = Completeness(0.5, tuple(Loss(f"page {number}", number, ()) for number in range(1, 41))).bounded()

    assert len(bounded.losses) == 20
    assert bounded.losses[-1] == Loss("21 other parts", sum(range(20, 41)), ())
    assert sum(loss.missing for loss in bounded.losses) == sum(range(41))


@pytest.mark.parametrize(("count", "kept"), [(19, 19), (20, 20), (21, 19)])
def test_sentences_that_fit_are_kept(count, kept):
    bounded = Completeness(None, (), tuple(f"Part {number} is encrypted." for number in range(count))).bounded()

    assert [sentence for sentence in bounded.unread if sentence.endswith("encrypted.")] == [
        f"Part {number} is encrypted." for number in range(kept)
    ]
    assert bounded.unread[kept:] == (() if count <= 20 else (f"{count - 19} other parts of the file were not read.",))


@guards(
    "shared/domain/corpus/completeness.py",
    "char if char.isprintable()",
    "char if True",
    means="control characters of a file are printed in a terminal",
)
def test_bounded_texts_are_accepted_replies():
    wild = "\0\x1b[2J\ud800 a\n\tb" * 100
    found = Completeness(0.5, (Loss(wild, 3, (wild,) * 40),), (wild,)).bounded()

    document = document_reply(SOUND)
    document["document"][4] = orjson.loads(
        orjson.dumps([0.5, [[loss.location, loss.missing, loss.sample] for loss in found.losses], found.unread])
    )

    assert received(document, LIMITS).completeness == found


@pytest.mark.parametrize("read", [Completeness(), Completeness(1.0), Completeness(0.75, (LOSS,), ("A part is late.",))])
def test_stored_completeness_is_read_unchanged(read):
    missing = read.missing_as_json()

    assert stored_completeness(read.coverage, missing and orjson.loads(orjson.dumps(missing))) == read
    assert (missing is None) == read.is_complete


def test_stored_value_of_next_release_is_read():
    missing = {"losses": [{"location": "", "missing": 1, "sample": [], "added": 1}], "unread": [], "added": 1}

    assert stored_completeness(None, missing).losses == (Loss("", 1, ()),)


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (
            {"location": "page 3", "missing": 14, "sample": ["quay", "tide"]},
            "Page 3: 14 words are missing, such as quay, tide.",
        ),
        (
            {"location": 'sheet "Prices"', "missing": 1, "sample": ["quay"]},
            'Sheet "Prices": 1 word is missing, such as quay.',
        ),
        ({"location": "21 other parts", "missing": 1_530, "sample": []}, "21 other parts: 1,530 words are missing."),
        ({"location": "", "missing": 2, "sample": ["quay"]}, "2 words are missing, such as quay."),
    ],
)
def test_loss_is_a_sentence(loss, sentence):
    document = Document.model_validate(replies.document(losses=[loss], unread=["The attachment is encrypted."]))

    assert losses.sentences(document) == [sentence, "The attachment is encrypted."]


def test_shown_document_names_missing_words(capsys):
    loss = {"location": "page 3", "missing": 14, "sample": ["quay"]}
    document = Document.model_validate(replies.document(text_coverage=0.98, losses=[loss], unread=["It is encrypted."]))

    output.print_document(Console(width=200), document, iter(()))

    shown = capsys.readouterr().out
    assert "text_coverage    0.98\n" in shown
    assert "missing          Page 3: 14 words are missing, such as quay.\nmissing          It is encrypted.\n" in shown
