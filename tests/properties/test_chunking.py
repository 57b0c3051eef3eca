from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.document import ExtractedText
from shared.query.retrieve.units import joined

LINES = st.one_of(
    st.sampled_from(
        (
            *("", "", "# One", "## Two", "###### Six", "Title\n=====", "Sub\n---", "- item", "  - deep", "1. first"),
            *(
                "```py",
                "```",
                "~~~",
                "| a | b |",
                "| - | - |",
                "| 1 | 2 |",
                "---",
                "key: value",
                "> quoted",
                "\t",
                "#no",
            ),
        )
    ),
    st.text(max_size=120),
    st.text(alphabet="ab .!?\n#|-`", max_size=400),
    st.builds("{} ".format, st.text(alphabet="word. ", min_size=1, max_size=30)).map(lambda text: text * 12),
)
TEXTS = st.lists(LINES, max_size=40).map("\n".join)
OPTIONS = st.builds(ChunkingOptions, st.integers(1, 700), st.integers(0, 150))


def chunks_of(text: str, options: ChunkingOptions, *, markdown: bool = True) -> tuple[ChunkContent, ...]:
    return divide(ExtractedText(text, None, "text/markdown", markdown=markdown), options)


@settings(deadline=None)
@given(TEXTS, OPTIONS, st.booleans())
def test_spans_cover_every_nonspace_character(text, options, markdown):
    covered = bytearray(len(text))
    for chunk in chunks_of(text, options, markdown=markdown):
        start, end = chunk.span
        covered[start:end] = b"\1" * (end - start)

    assert [char for char, inside in zip(text, covered, strict=True) if not inside and not char.isspace()] == []


@settings(deadline=None)
@given(TEXTS, OPTIONS, st.booleans())
def test_chunks_are_ordered_bounded_substrings(text, options, markdown):
    chunks = chunks_of(text, options, markdown=markdown)

    for chunk in chunks:
        start, end = chunk.span
        assert len(chunk.text) <= options.max_chars
        assert chunk.text.strip()
        assert chunk.text.endswith(text[start:end])
    for one, next_ in pairwise(chunks):
        assert one.span[0] < next_.span[0]
        assert one.span[1] < next_.span[1]
        assert one.span[1] - next_.span[0] <= options.overlap_chars


@given(TEXTS, OPTIONS)
def test_same_text_gives_same_chunks(text, options):
    assert chunks_of(text, options) == chunks_of(text, options)


WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
PROSE = st.lists(st.sampled_from(WORDS), min_size=60, max_size=300)
SECTIONS = st.lists(PROSE.map(" ".join), min_size=2, max_size=6)


@settings(deadline=None)
@given(SECTIONS, st.integers(0, 5), PROSE.map(" ".join))
def test_edit_keeps_chunks_of_other_sections(sections, edited, replacement):
    edited %= len(sections)
    changed = [*sections[:edited], replacement, *sections[edited + 1 :]]

    before, after = (by_section(version) for version in (sections, changed))

    assert before.keys() == after.keys()
    for path in before:
        assert path[-1] == f"Section {edited}" or before[path] == after[path]


def by_section(bodies: list[str]) -> dict[tuple[str, ...], list[str]]:
    text = "\n\n".join(f"## Section {number}\n\n{body}" for number, body in enumerate(bodies))
    texts: dict[tuple[str, ...], list[str]] = {}
    for chunk in chunks_of(text, ChunkingOptions(500, 50)):
        texts.setdefault(chunk.heading_path, []).append(chunk.text)
    return texts


def test_edit_in_long_text_moves_only_nearby_cuts():
    shares = [share_changed(Random(seed)) for seed in range(30)]

    assert sum(shares) / len(shares) < 0.2  # 0.09 by content, 0.4 if every chunk is filled


def share_changed(random: Random) -> float:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    paragraphs = [" ".join(random.choices(words, k=random.randint(20, 60))) + f" {n}." for n in range(200)]
    changed = ["Something else altogether.", *paragraphs[1:]]
    before, after = (
        Counter(chunk.text for chunk in chunks_of("\n\n".join(version), ChunkingOptions()))
        for version in (paragraphs, changed)
    )
    return (before - after).total() / before.total()


@settings(deadline=None)
@given(TEXTS, OPTIONS, st.integers(1, 4), st.booleans())
def test_section_equals_its_joined_chunks(text, options, times, markdown):
    with_sections = replace(options, section_max_chars=options.max_chars * times)
    chunks = chunks_of(text, with_sections, markdown=markdown)

    for (start, end), own in groupby(chunks, key=lambda chunk: chunk.section):
        whole = joined([{"text": chunk.text, "span": chunk.span} for chunk in own])
        assert end - start <= with_sections.section_max_chars
        body = whole[len(whole) - (end - start) :]
        assert body.split() == text[start:end].split()
    assert len({chunk.section for chunk in chunks}) == sum(1 for _ in groupby(chunks, key=lambda chunk: chunk.section))


@settings(deadline=None)
@given(TEXTS, OPTIONS)
def test_sections_as_long_as_chunks_change_no_chunk(text, options):
    chunks = chunks_of(text, replace(options, section_max_chars=options.max_chars))

    assert [replace(chunk, section=None) for chunk in chunks] == list(chunks_of(text, options))
    assert all(chunk.section == chunk.span for chunk in chunks)
