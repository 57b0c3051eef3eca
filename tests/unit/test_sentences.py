# ruff: noqa: RUF001  sentences in other scripts end with their own marks

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.text.sentences import MAX_CHARS, sentence_breaks, sentences


def split(text):
    return [text[s.start : s.end] for s in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One ends. Two ends! Three?", ["One ends.", "Two ends!", "Three?"]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("Dr. Smith met J. R. Tolkien at 3.50 p. m. today.", ["Dr. Smith met J. R. Tolkien at 3.50 p. m. today."]),
        ("Use it, e.g. Redis. Or Valkey.", ["Use it, e.g. Redis.", "Or Valkey."]),
        ("Wait... what happens? Nothing…", ["Wait...", "what happens?", "Nothing…"]),
        ("A line\nbroken here. Next\nalso.", ["A line\nbroken here.", "Next\nalso."]),
        ("Eins z.B. hier. Zwei.", ["Eins z.B. hier.", "Zwei."]),
        ("第一句。第二句！", ["第一句。", "第二句！"]),
        ("यह एक है। यह दो है।", ["यह एक है।", "यह दो है।"]),
        ("यह एक है।यह दो है।", ["यह एक है।", "यह दो है।"]),
        ("他说：“好。”“走吧！”然后离开了。", ["他说：“好。”", "“走吧！”", "然后离开了。"]),
        ("متى يبدأ؟ يبدأ غدا. ثم ينتهي.", ["متى يبدأ؟", "يبدأ غدا.", "ثم ينتهي."]),
        (
            "Am 3. Oktober im 19. Jahrhundert. Danach 12. Aber ja.",
            ["Am 3. Oktober im 19. Jahrhundert.", "Danach 12.", "Aber ja."],
        ),
        (
            "Он жил на ул. Ленина в 1999 г. в Москве. Потом уехал.",
            ["Он жил на ул. Ленина в 1999 г. в Москве.", "Потом уехал."],
        ),
        ("Er sagte „Halt.“ Dann ging er.", ["Er sagte „Halt.“", "Dann ging er."]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_prose_is_split_into_sentences(text, expected):
    assert split(text) == expected


def test_sentences_end_at_final_marks_of_every_script():
    text = "One. (Two!) 3.5 is one\nthe next line। दो। 第一句。「第二句！」Third"
    stops = [0, *sentence_breaks(text, 0, len(text)), len(text)]

    assert [text[start:stop] for start, stop in pairwise(stops)] == [
        *("One. ", "(Two!) ", "3.5 is one\n", "the next line। ", "दो। ", "第一句。", "「第二句！」", "Third")
    ]
    assert list(sentence_breaks(text, 5, 7)) == []


def test_markdown_is_split_by_blocks_and_sentences():
    text = """# The lease. Of a chunk
Prose begins. It goes on
to the next line.
- first item. With more
  and a rest
2. second item

| a | b. |
|---|----|
| 1 | 2. 3 |
```python
x = 1. + 2
```
> quoted. Twice.
"""
    assert [(s.kind, text[s.start : s.end]) for s in sentences(text)] == [
        ("heading", "The lease. Of a chunk"),
        ("prose", "Prose begins."),
        ("prose", "It goes on\nto the next line."),
        ("item", "first item."),
        ("item", "With more\n  and a rest"),
        ("item", "second item"),
        ("row", "| a | b. |"),
        ("row", "| 1 | 2. 3 |"),
        ("code", "x = 1. + 2"),
        ("prose", "quoted."),
        ("prose", "Twice."),
    ]


@given(st.text(alphabet="aB. !?\n#|->`*1。\u2028", max_size=200))
def test_spans_are_in_order_trimmed_and_bounded(text):
    end = 0
    for span in sentences(text):
        piece = text[span.start : span.end]
        assert span.start >= end
        assert piece
        assert piece == piece.strip()
        assert len(piece) <= MAX_CHARS
        end = span.end


@pytest.mark.parametrize("pattern", [". ", "a", "(", "> ", "|", "\n", "a.b.", "!)", "- ", "```\n", "1. ", "= "])
def test_splitting_time_is_linear_in_length(pattern):
    started = time.process_time()
    for _ in sentences(pattern * 100_000):
        pass
    assert time.process_time() - started < 5


def test_thai_is_split_into_phrases():
    phrases = ["ทีมรับของแพนเธอร์สยอมแพ้ที่คะแนนสูงสุดในลีกในฤดูกาลนั้น", "และทำแซ็คได้มากกว่าทีมอื่นทั้งหมดในการแข่งขันประจำปี"]
    text = " ".join(phrases * 4)
    pieces = split(text)

    assert len(pieces) > 2
    assert " ".join(pieces) == text
    assert all(len(piece) < 200 for piece in pieces)


def test_long_text_without_spaces_breaks_after_comma():
    text = "这是一个很长的句子里的一部分，" * 60
    pieces = split(text)

    assert len(pieces) > 1
    assert all(piece.endswith("，") for piece in pieces)


def test_long_word_is_cut_between_graphemes():
    assert all(piece[0] == "क" for piece in split("य" + "कि" * 700)[1:])
