from itertools import pairwise
from time import process_time

import pytest

from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.blocks import scan, scan_plain
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.document import ExtractedText
from tests.support.planted import guards

PROSE = "The harbour was quiet. A boat came in, then another. Nobody spoke of the storm. "


def chunks_of(text: str, max_chars: int = 400, overlap_chars: int = 40, **more) -> tuple[ChunkContent, ...]:
    return divide(ExtractedText(text, None, "text/markdown", **more), ChunkingOptions(max_chars, overlap_chars))


def kinds(text: str) -> list[tuple[str, str]]:
    return [(block.kind, text[block.start : block.end]) for block in scan(text)]


@pytest.mark.parametrize(
    ("line", "level", "title"),
    [
        ("# Plain", 1, "Plain"),
        ("### Closed ###", 3, "Closed"),
        ("   ## Indented", 2, "Indented"),
        ("# **Bold** and `code`", 1, "Bold and code"),
        ("## [Home](/index.html)", 2, "Home"),
        (r"# A \& B \#1", 1, "A & B #1"),
        ("Underlined\n=====", 1, "Underlined"),
        ("Underlined\n-----", 2, "Underlined"),
        ("#", 1, ""),
    ],
)
def test_heading_has_level_and_title(line, level, title):
    (block,) = scan(line)

    assert (block.kind, block.level, block.title) == ("heading", level, title)


@pytest.mark.parametrize("line", ["#hashtag", "####### seven", "    # indented code", "text # not a heading"])
def test_heading_lookalikes_are_not_headings(line):
    assert [block.kind for block in scan(line)] == ["paragraph"]


def test_block_kinds_are_distinguished():
    text = "Intro\nmore\n\n- a\n  more\n\n- b\n\n| x |\n| - |\n```py\n# no heading\n\n```\nEnd"

    assert kinds(text) == [
        ("paragraph", "Intro\nmore"),
        ("list", "- a\n  more\n\n- b"),
        ("table", "| x |\n| - |"),
        ("code", "```py\n# no heading\n\n```"),
        ("paragraph", "End"),
    ]


def test_front_matter_is_not_a_heading():
    assert kinds("---\ntitle: A\ntags:\n- b\n---\n\n# H") == [
        ("paragraph", "---\ntitle: A\ntags:\n- b\n---"),
        ("heading", "# H"),
    ]


def test_source_code_has_no_headings():
    text = "# a comment\nx = 1\n\n# another\ny = 2"

    assert [text[block.start : block.end] for block in scan_plain(text)] == ["# a comment\nx = 1", "# another\ny = 2"]


def test_section_becomes_chunk_with_heading_path():
    text = f"# Book\n\n{PROSE * 3}\n\n## One\n\n{PROSE * 3}\n\n## Two\n\n{PROSE * 3}"

    chunks = chunks_of(text)

    assert [chunk.heading_path for chunk in chunks] == [("Book",), ("Book", "One"), ("Book", "Two")]
    assert [chunk.text.partition("\n")[0] for chunk in chunks] == ["# Book", "## One", "## Two"]
    assert all(chunk.text == text[slice(*chunk.span)] for chunk in chunks)


def test_heading_without_text_joins_first_child():
    (chunk,) = chunks_of(f"# Book\n\n## One\n\n{PROSE * 2}")

    assert chunk.heading_path == ("Book", "One")
    assert chunk.text.startswith("# Book\n\n## One")


def test_short_sections_join_under_common_path():
    (chunk,) = chunks_of("# Book\n\n## One\n\nShort.\n\n## Two\n\nAlso short.")

    assert chunk.heading_path == ("Book",)


def test_short_section_joins_previous_not_next_chapter():
    chunks = chunks_of(f"# A\n\n## A1\n\n{PROSE * 2}\n\n## A2\n\nShort.\n\n# B\n\n{PROSE * 3}")

    assert [chunk.heading_path for chunk in chunks] == [("A",), ("B",)]
    assert chunks[0].text.endswith("Short.")


def test_short_section_stays_if_joining_splits_neighbour():
    long = "\n\n".join([("word " * 39).strip()] * 2)

    chunks = chunks_of(f"## A\n\n{long}\n\n## B\n\nShort.\n\n## C\n\n{long}")

    assert [chunk.heading_path for chunk in chunks] == [("A",), ("B",), ("C",)]


def test_short_chapter_does_not_join_previous_chapter():
    long = "\n\n".join([("word " * 39).strip()] * 2)

    chunks = chunks_of(f"# A\n\n## A1\n\n{PROSE * 2}\n\n# B\n\nShort.\n\n# C\n\n{long}")

    assert [chunk.heading_path for chunk in chunks] == [("A", "A1"), ("B",), ("C",)]


def test_long_paragraph_is_cut_between_sentences_overlapping():
    text = PROSE * 20

    chunks = chunks_of(text)

    assert len(chunks) > 3
    assert all(chunk.text.endswith(".") for chunk in chunks)
    for one, other in pairwise(chunks):
        repeated = one.span[1] - other.span[0]
        assert 0 < repeated <= 40
        assert text[other.span[0] - 1].isspace()


def test_overlap_does_not_repeat_complete_paragraphs():
    chunks = chunks_of("\n\n".join([PROSE * 3] * 4))

    assert len(chunks) == 4
    assert all(one.span[1] < other.span[0] for one, other in pairwise(chunks))


def test_overlong_word_is_cut_between_graphemes():
    family = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
    for unit in ("e\u0301", "\N{WAVING HAND SIGN}\U0001f3fd", family):
        pieces = [chunk.text for chunk in chunks_of(unit * 500, 97, 0)]

        assert len(pieces) > 1
        assert "".join(pieces) == unit * 500
        assert not any(piece.startswith(("\u0301", "\U0001f3fd", "\u200d")) for piece in pieces)


def test_cut_table_repeats_its_header():
    header = "| name | age |\n| --- | --- |"
    rows = [f"| person number {number} | {number} |" for number in range(40)]

    chunks = chunks_of("\n".join((header, *rows)))

    assert len(chunks) > 2
    assert all(chunk.text.startswith(header) for chunk in chunks)
    assert [row for chunk in chunks for row in chunk.text.split("\n")[2:]] == rows


@pytest.mark.parametrize(
    "block",
    [
        "\n".join(f"- item number {number}" for number in range(15)),
        "| a | b |\n| - | - |\n" + "\n".join(f"| {number} | value |" for number in range(15)),
        "```\n" + "\n\n".join(f"line_{number} = {number}" for number in range(15)) + "\n```",
    ],
)
def test_fitting_list_table_or_code_is_not_cut(block):
    text = f"{PROSE * 3}\n\n{block}\n\n{PROSE * 3}"

    assert any(block in chunk.text for chunk in chunks_of(text))


@guards(
    "shared/ingest/parse/chunks/chunking.py",
    "if extracted.apart and",
    "if False and",
    means="a chunk has the text of two slides",
)
def test_short_pages_apart_are_not_joined():
    pages = ["## One\n\nShort.", "- a\n- b", "- c", "", "## Four"]
    starts = tuple((sum(len(page) + 2 for page in pages[:index] if page), index + 1) for index in range(len(pages)))
    text = "\n\n".join(page for page in pages if page)

    chunks = chunks_of(text, page_starts=starts, apart=True)

    assert [(chunk.page, chunk.text) for chunk in chunks] == [
        (1, "## One\n\nShort."),
        (2, "- a\n- b"),
        (3, "- c"),
        (5, "## Four"),
    ]
    assert [text[slice(*chunk.span)] for chunk in chunks] == [chunk.text for chunk in chunks]
    assert chunks[1].heading_path == ()


def test_chunk_has_its_starting_page():
    pages = [PROSE * 4, PROSE * 4, PROSE * 4]
    starts = ((0, 1), (len(pages[0]) + 2, 2), (2 * (len(pages[0]) + 2), 3))

    chunks = chunks_of("\n\n".join(pages), page_starts=starts)

    assert [chunk.page for chunk in chunks] == [1, 2, 3]


def test_empty_text_gives_no_chunks():
    assert chunks_of(" \n\t\n") == ()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "word " * 20_000,
        "x" * 100_000,
        "# " + "[a](" * 25_000,
        "." * 100_000,
        ".'" * 50_000,
        "```\n" * 25_000,
        "|\n" * 50_000,
        "a\n\n" * 33_000,
        "# a\n" * 25_000,
        "".join("  " * min(depth, 20) + "- x\n" for depth in range(10_000)),
    ],
    ids=lambda text: repr(text[:6]),
)
def test_hundred_kilobytes_are_chunked_in_seconds(text):
    started = process_time()

    assert chunks_of(text, 2_000, 100)

    assert process_time() - started < 5  # a quadratic scan takes minutes


@guards("shared/ingest/parse/chunks/cutting.py", '"code": _fence', "", means="code of a later chunk is text")
def test_continued_code_repeats_its_fence():
    code = "\n".join(f"line_{number} = call({number})" for number in range(60))

    chunks = chunks_of(f"```python\n{code}\n```")

    assert len(chunks) > 2
    assert all(chunk.text.startswith("```python\nline_") for chunk in chunks)


@guards(
    "shared/ingest/parse/chunks/chunking.py",
    "units[index - 1].leads",
    "units[index - 1].heading",
    means="an answer has no question",
)
@pytest.mark.parametrize(
    "question", ["**Q: How do I reset device {}?**", "How do I reset device {}?", "To reset it {}:"]
)
def test_question_stays_with_its_answer(question):
    pairs = (f"{question.format(number)}\n\nHold button {number} for some seconds." for number in range(40))

    for chunk in chunks_of("\n\n".join(pairs)):
        assert not chunk.text.startswith("Hold")


@guards(
    "shared/ingest/parse/chunks/chunking.py",
    "if not 0 < chars <= options.max_chars // 4",
    "if True",
    means="nine characters are a chunk",
)
def test_heading_above_full_chunk_joins_it():
    row = "| " + " | ".join(f"column {number}" for number in range(100)) + " |"

    chunks = chunks_of(f"## Survey\n\n{row}\n| --- |\n{row}")

    assert len(chunks[0].text) > 100


@guards(
    "shared/ingest/parse/chunks/chunking.py",
    "if short.size < FEW_CHARS and",
    "if False and",
    means="nine characters are a chunk",
)
def test_few_last_characters_join_previous_section():
    chunks = chunks_of(f"# One\n\n## Part\n\n{'A sentence of some words. ' * 10}\n\n# Note")

    assert all(len(chunk.text) > 100 for chunk in chunks)
