"""The parts of an evaluation that need no engine: a set's files, metrics, significance, layouts, reports."""

from html.parser import HTMLParser

import ir_measures
import numpy as np
import pytest
from foreask_evaluation import markdown, page
from foreask_evaluation.cache import EvaluationCache
from foreask_evaluation.labelled import LabelledPassage, read_questions, read_set
from foreask_evaluation.layouts import EmbeddedPassage, Footprint, layout_collection, layout_parts, layout_points
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, R, nDCG

from features.evaluation.comparison import compare
from features.evaluation.metrics import METRICS, scores
from features.evaluation.strategies import select_strategies
from shared.domain.corpus.collections import Baseline
from shared.domain.errors import InvalidInput
from shared.domain.spending.usage import Usage
from shared.ingest.generate.types import GeneratedQuestions
from shared.query.answer import Answer
from shared.query.calibrate.significance import interval, p_value
from tests.support.labelled import write, write_lines
from tests.support.planted import guards


def test_labelled_set_reports_skipped_rows(tmp_path):
    labelled = read_set(write(tmp_path / "birds"))

    assert labelled.name == "birds"
    assert len(labelled.passages) == 10
    assert labelled.passages[0] == LabelledPassage("p0", None, "Old Bertram climbs the tower at dusk.")
    assert labelled.judgements["half"] == {"p3": 1, "p9": 1}
    assert list(labelled.queries) == ["first", "second", "none", "half", "again", "third"]
    assert labelled.questions is not None
    assert labelled.questions["p1"] == ("Where do herons nest during monsoon?",)
    assert labelled.notes == (
        "Skipped 1 judgement (nowhere) of passages that are not in the corpus.",
        "Skipped 1 query (unrated) without a relevant passage.",
    )


def test_labelled_answers_and_unanswerable_questions_are_read(tmp_path):
    write(tmp_path)
    rows = [
        {"_id": "first", "text": "Who?", "answers": ["Bertram"]},
        {"_id": "second", "text": "What?", "answers": []},
        {"_id": "never", "text": "Why?", "answerable": False},
    ]
    write_lines(tmp_path / "queries.jsonl", rows)

    labelled = read_set(tmp_path)

    assert labelled.answers == {"first": ("Bertram",)}
    assert labelled.unanswerable == {"never": "Why?"}
    assert not any("never" in note for note in labelled.notes)


def test_set_without_question_file_has_no_questions(tmp_path):
    assert read_set(write(tmp_path, generated=False)).questions is None


def test_qrels_accept_beir_layout_without_header(tmp_path):
    write(tmp_path)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels.tsv").unlink()
    (tmp_path / "qrels" / "test.tsv").write_text("first\tp0\t2\nsecond\tp1\t0\n")

    assert read_set(tmp_path).judgements == {"first": {"p0": 2}}  # no passage answers the second


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n{"_id": ', "corpus.jsonl, line 2 is not JSON"),
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n\n{"text": "x"}', "corpus.jsonl, line 3 has no _id."),
        ("corpus.jsonl", '{"_id": "a", "text": " "}', "corpus.jsonl, line 1 has no text."),
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n' * 2, "corpus.jsonl, line 2 repeats the _id a."),
        ("corpus.jsonl", "", "corpus.jsonl is empty."),
        ("queries.jsonl", "[1]", "queries.jsonl, line 1 is not a JSON object."),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nfirst p0 1", "qrels.tsv, line 2 is not query-id, corpus-id and a"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nfirst\tp0\t0", "has a relevant passage."),
        ("generated.jsonl", '{"passage_id": "p0", "questions": "Who?"}', "generated.jsonl, line 1 has no list of"),
    ],
)
def test_malformed_line_is_named(tmp_path, file, content, sentence):
    write(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(InvalidInput) as refused:
        read_set(tmp_path)
    assert sentence in refused.value.message


def test_missing_file_is_named(tmp_path):
    write(tmp_path)
    (tmp_path / "queries.jsonl").unlink()
    with pytest.raises(InvalidInput, match=r"queries\.jsonl is missing"):
        read_set(tmp_path)
    with pytest.raises(InvalidInput, match="is not a folder"):
        read_set(tmp_path / "nowhere")


def test_metric_values_follow_from_rank():
    judgements = {"one": {"a": 1}, "two": {"b": 1, "c": 1}, "three": {"d": 1}, "four": {"e": 1}}
    ten = [f"x{number}" for number in range(10)]
    rankings = {"one": ["a", "z"], "two": ["z", "y", "c"], "three": [], "four": [*ten, "e"]}

    values = scores(judgements, rankings)

    assert list(values) == list(METRICS)
    assert list(values["ndcg@10"]) == list(judgements)
    assert list(values["ndcg@10"].values()) == pytest.approx([1, 0.5 / (1 + 0.63093), 0, 0], abs=1e-4)
    assert list(values["mrr@10"].values()) == pytest.approx([1, 1 / 3, 0, 0])
    assert list(values["recall@1"].values()) == [1, 0, 0, 0]
    assert list(values["recall@5"].values()) == [1, 0.5, 0, 0]


def test_metrics_follow_rank_order_not_passage_names():
    for ranking, expected in ((["a", "b", "c"], 1.0), (["c", "b", "a"], 1 / 3), (["b", "a", "c"], 0.5)):
        assert scores({"q": {"a": 1}}, {"q": ranking})["mrr@10"]["q"] == pytest.approx(expected)


@given(data=st.data())
def test_metrics_equal_trec_eval(data):
    passages = [f"p{number}" for number in range(30)]
    queries = [f"q{number}" for number in range(data.draw(st.integers(1, 3)))]
    ratings = st.dictionaries(st.sampled_from(passages), st.integers(-1, 3), min_size=1, max_size=15)
    judgements = {query: data.draw(ratings) for query in queries}
    rankings = {query: data.draw(st.lists(st.sampled_from(passages), unique=True)) for query in queries}

    qrels = [ir_measures.Qrel(q, p, score) for q, passages in judgements.items() for p, score in passages.items()]
    # The tool orders equal scores by id, so it receives ranks, which are never equal.
    run = [ir_measures.ScoredDoc(q, p, -float(n)) for q, ranked in rankings.items() for n, p in enumerate(ranked)]
    names = dict(zip((nDCG @ 10, RR @ 10, R @ 1, R @ 5, R @ 10), METRICS, strict=True))
    ours = scores(judgements, rankings)
    for measured in ir_measures.iter_calc(list(names), qrels, run):
        assert ours[names[measured.measure]][measured.query_id] == pytest.approx(measured.value, abs=1e-12)


def test_interval_contains_mean_with_expected_width():
    half = interval([0.0, 1.0] * 50)
    assert half.mean == 0.5
    assert (half.low, half.high) == pytest.approx((0.402, 0.598), abs=0.015)  # 1.96 * sqrt(0.25 / 100)
    assert interval([0.0, 1.0] * 50) == half
    constant = interval([0.7] * 9)
    assert constant.low == pytest.approx(constant.high) == pytest.approx(0.7)


def test_blockwise_resampling_gives_expected_interval():
    values = np.random.default_rng(1).random(5_000)
    estimate = interval(list(values))
    error = 1.96 * values.std() / np.sqrt(len(values))
    assert (estimate.low, estimate.high) == pytest.approx((values.mean() - error, values.mean() + error), abs=error / 5)


def test_randomisation_test_agrees_with_exact_enumeration():
    assert p_value([1, 1, 1, 1, 1], [0.5, 0.6, 0.7, 0.8, 0.9]) == pytest.approx(2 / 32, abs=0.01)
    assert p_value([0.3, 0.4], [0.3, 0.4]) == 1.0
    assert p_value([1, 0], [0, 1]) == 1.0
    assert p_value([0.9] * 60, [0.5] * 60) < 0.001


def test_layouts_embed_expected_texts():
    passage = LabelledPassage("p", None, "Text.")
    assert layout_parts("chunks", passage, ["A?", "B?"]) == EmbeddedPassage("Text.", ("A?", "B?"))
    assert layout_parts("joined", passage, ["A?", "B?"]) == EmbeddedPassage(None, ("A?\nB?",))
    assert layout_parts("joined", passage, []) == EmbeddedPassage(None)
    assert layout_parts("prepended", passage, ["A?", "B?"]) == EmbeddedPassage("A?\nB?\nText.", ("A?", "B?"))
    assert layout_parts("prepended", passage, []) == EmbeddedPassage("Text.")


def test_footprint_counts_needed_channels():
    vectors = dict.fromkeys(("Text.", "A?", "B?"), np.ones(100, dtype=np.float32))
    made = layout_points(
        layout_collection("i", "m", Baseline()),
        0,
        LabelledPassage("p", None, "Text."),
        EmbeddedPassage("Text.", ("A?", "B?")),
        vectors,
    )
    counted = {}
    for channels in (("text",), ("questions",), ("questions", "text", "bm25")):
        footprint = Footprint(channels)
        footprint.add(made)
        counted[channels] = footprint
    text, questions, every = counted.values()
    assert (text.points, questions.points, every.points) == (1, 3, 3)
    assert every.bytes - questions.bytes == 400 + 8  # the text's vector, and one word for BM25
    assert text.bytes > 400


def test_saved_vectors_load_in_other_process(tmp_path):
    vector = np.arange(3, dtype=np.float32)
    generated = GeneratedQuestions(("Why?",), Usage(5, 7), 2)
    answer = Answer("So [1].", (1,), (2, 3), Usage(1, 2), "extractive", found=True)
    with EvaluationCache(tmp_path / "cache.sqlite") as cache:
        cache.save_vectors("model", {"text": vector})
        cache.save_questions(b"key", generated)
        cache.save_answer(b"key", answer)

    with EvaluationCache(tmp_path / "cache.sqlite") as cache:
        assert cache.load_vectors("model", ["text", "other"])["text"].tolist() == [0, 1, 2]
        assert cache.missing_vectors("model", ["text", "other", "other"]) == ["other"]
        assert cache.missing_vectors("another model", ["text"]) == ["text"]
        assert cache.load_questions(b"key") == generated
        assert (cache.load_answer(b"key"), cache.load_answer(b"other")) == (answer, None)
        assert cache.load_questions(b"other") is None


def test_strategies_keep_requested_order():
    assert [strategy.name for strategy in select_strategies([" bm25", "text", "bm25"])] == ["bm25", "text"]
    with pytest.raises(InvalidInput, match="No strategy is named"):
        select_strategies([" "])


def results(**rows):
    measured = {f"{metric}{bound}": 0.5 for metric in METRICS for bound in ("", "_low", "_high")}
    cost = {"points_per_chunk": 3.1, "bytes_per_chunk": 6978, "llm_calls": 1200, "llm_tokens": 0}
    return {
        "foreask": "1.2",
        "set": "<script>alert(1)</script>",
        "default": "default",
        "baseline": "text",
        "embedding_model": "m&m",
        "passages": 2400,
        "queries": 6,
        "questions": {"count": 0, "passages": 0, "source": None},
        "rows": [
            {"strategy": name, **measured, **cost, "p_value": 0.0001, "milliseconds_per_query": 7.25, "ndcg@10": value}
            for name, value in rows.items()
        ],
        "left_out": [{"strategy": "a", "reason": "no."}, {"strategy": "b", "reason": "no."}],
        "notes": ["One | note."],
        "per_query": {name: {"q": value} for name, value in rows.items()},
    }


class Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes = [], {}

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value)


def test_report_page_is_selfcontained_and_escaped():
    shown = page.page(results(default=0.8, text=0.6))
    outline = Outline()
    outline.feed(shown)

    assert "script" not in outline.tags
    assert not {"src", "href"} & set(outline.attributes)
    assert "&lt;script&gt;alert(1)" in shown
    assert "m&amp;m" in shown
    assert outline.tags.count("svg") == 2
    assert outline.tags.count("rect") == 4
    assert "prefers-color-scheme: dark" in shown


def test_bar_length_is_proportional_to_value():
    outline = Outline()
    outline.feed(page.page(results(default=0.8, text=0.4)))
    drawing, longer, shorter, *_ = (float(width) for width in outline.attributes["width"])
    assert drawing > longer == pytest.approx(2 * shorter)


@guards(
    "clients/evaluation/foreask_evaluation/markdown.py",
    'cell.replace("|", "\\\\|")',
    "cell",
    means="a strategy's name has two cells",
)
def test_strategy_has_one_cell_in_markdown():
    lines = markdown.page(results(**{"default": 0.8, "a|b": 0.8})).splitlines()
    assert any(line.startswith(r"| a\|b | 0.800 |") for line in lines)


def test_markdown_lists_strategies_and_reasons():
    lines = markdown.page(results(default=0.8, text=0.6)).splitlines()
    assert (
        "| default | 0.800 | 0.500 to 0.500 | <0.001 | 0.500 | 0.500 | 0.500 | 0.500 | 3.1 | 6,978 | 1,200 | 0 | 7.2 |"
        in lines
    )
    assert "- Left out: a, b: no." in lines
    assert "- One | note." in lines


def test_runs_are_compared_on_common_questions():
    before = {"per_query": {"text": {"a": 0.5, "b": 0.5, "gone": 1.0}, "other": {"a": 1.0}}}
    now = {"per_query": {"text": {"a": 1.0, "b": 0.5, "new": 0.0}, "default": {"a": 1.0}}}

    (change,) = compare(now, before)

    assert (change.strategy, change.before, change.now, change.queries) == ("text", 0.5, 0.75, 2)
    assert change.difference.mean == 0.25
    with pytest.raises(InvalidInput, match="no strategy with a question in common"):
        compare({"per_query": {"text": {"x": 1.0}}}, before)


def test_collection_questions_are_read(tmp_path):
    rows = [{"question": " Why? ", "external_ids": ["a", "b"]}, {"question": "Why?", "external_ids": ["c"]}]
    write_lines(tmp_path / "q", rows)
    labelled, kind = read_questions(tmp_path / "q", "handbook")
    assert (labelled.name, labelled.queries, kind) == ("handbook", {"Why?": "Why?"}, "external_ids")
    assert labelled.judgements == {"Why?": {"a": 1, "b": 1, "c": 1}}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "is empty"),
        ([{"question": "Why?"}], "line 1 has no list of external_ids"),
        ([{"question": "Why?", "chunk_ids": []}], "line 1 has no list of chunk_ids"),
        ([{"external_ids": ["a"]}], "line 1 has no question"),
        (
            [{"question": "Why?", "external_ids": ["a"]}, {"question": "Why?", "chunk_ids": ["b"]}],
            "line 2 names chunks although",
        ),
    ],
)
def test_malformed_collection_questions_are_named(tmp_path, rows, sentence):
    write_lines(tmp_path / "q", rows)
    with pytest.raises(InvalidInput, match=sentence):
        read_questions(tmp_path / "q", "handbook")
