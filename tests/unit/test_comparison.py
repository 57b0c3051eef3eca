"""The comparison of ways to search: combinations, RAGFlow's scores, tables and their pages."""

import json

import numpy as np
import pytest
from foreask_evaluation.cache import EvaluationCache

from bench import combinations, ragflow
from bench.calibration import QuestionSet, read
from bench.comparison import SETS, Inputs, contexts_of, measure_set, title_of
from bench.comparison_tables import (
    DENSE,
    FOREASK,
    HYBRID,
    PAGE,
    README,
    WEIGHTED,
    Cost,
    Row,
    SetResult,
    means_table,
    sentence,
    set_table,
    with_block,
)
from bench.fusion import CachedEmbedding
from embedded.minilm import MiniLM
from tests.support.planted import guards

NOT_FOUND = -np.inf


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    with EvaluationCache(tmp_path_factory.mktemp("vectors") / "vectors.sqlite") as cache:
        yield CachedEmbedding(cache, MiniLM(1))


def test_weighted_sum_stretches_each_search():
    found = combinations.weighted_sum(np.array([0.9, 0.5, 0.1, 0.1]), np.array([NOT_FOUND, 2.0, 4.0, NOT_FOUND]))

    assert found.tolist() == [0.5, 0.25, 0.5, 0.0]


def test_weighted_sum_keeps_unfound_passages_unfound():
    found = combinations.weighted_sum(np.array([0.9, NOT_FOUND, 0.1]), np.full(3, NOT_FOUND))

    assert found.tolist() == [0.5, NOT_FOUND, 0.0]


def test_equal_scores_are_stretched_to_zero():
    assert combinations.stretched(np.array([3.0, NOT_FOUND, 3.0])).tolist() == [0.0, 0.0, 0.0]


@guards(
    "bench/combinations.py",
    "first(texts, count) + weight",
    "texts + weight",
    means="a reranker finds passages that the search before it has not found",
)
def test_hyqe_reorders_only_the_first_hits():
    texts, questions = np.array([0.6, 0.5, 0.4, 0.55]), np.array([0.0, 0.8, 1.0, NOT_FOUND])

    assert combinations.hyqe(texts, questions, weight=0.5, count=3).tolist() == [0.6, 0.9, NOT_FOUND, 0.55]


def test_ranking_has_ten_found_passages():
    scores = np.array([*range(12), NOT_FOUND], dtype=float)

    assert combinations.ranking(scores, "abcdefghijklm") == list("lkjihgfedc")
    assert combinations.ranking(np.array([NOT_FOUND, 0.0]), "ab") == ["b"]


def test_ragflow_share_weighs_words_and_pairs():
    wanted = ragflow.weighted_terms(["leave", "days", "1990"])

    assert wanted == pytest.approx({"leave": 0.4, "days": 0.4, "1990": 2.08, "leave days": 0.6, "days 1990": 3.12})
    assert ragflow.term_share(wanted, ragflow.contained(["days", "leave"])) == pytest.approx(0.8 / 6.6)
    assert ragflow.term_share(wanted, ragflow.contained(["leave", "days"])) == pytest.approx(1.4 / 6.6)
    assert ragflow.term_share({}, {"leave"}) == 0.0


def test_ragflow_adds_words_to_near_vectors():
    words, cosines = np.array([10.0, 2.0, NOT_FOUND]), np.array([0.1, 0.4, 0.9])

    assert ragflow.first_scores(words, cosines) == pytest.approx([0.5, 0.8, NOT_FOUND])


def test_ragflow_orders_by_words_before_vectors():
    shares, cosines = np.array([1.0, 0.0, 0.1, NOT_FOUND]), np.array([0.1, 0.9, 0.2, 1.0])

    assert ragflow.last_scores(shares, cosines) == pytest.approx([0.73, 0.27, NOT_FOUND, NOT_FOUND])


def test_ragflow_field_counts_its_boost():
    low, high = (ragflow.Field([["leave", "leave"], ["leave"], ["days"]], boost) for boost in (2.0, 20.0))

    assert high.scores("leave") == pytest.approx(10 * low.scores("leave"))
    assert low.scores("leave")[0] > low.scores("leave")[1] > low.scores("leave")[2] == 0.0
    assert low.scores("unknown").tolist() == [0.0, 0.0, 0.0]
    assert low.terms == 3


def test_ragflow_finds_words_of_questions():
    chunks = [
        ragflow.Chunk("Holidays", "Everybody has 30 of them.", ["How much leave do I get?"]),
        ragflow.Chunk("Money", "Salaries are paid on the last day.", ["When is the salary paid?"]),
    ]
    searched = ragflow.Ragflow(chunks, np.array([[3.0, 4.0], [0.0, 2.0]]), "en")

    found = searched.scores("How much leave is there?", np.array([0.0, 1.0]))

    assert found == pytest.approx([0.7 + 0.3 * 0.8, NOT_FOUND])


def result(**ndcg: list[float]) -> SetResult:
    names = {"dense": DENSE, "hybrid": HYBRID, "weighted": WEIGHTED, "foreask": FOREASK}
    rows = {
        names[name]: Row(np.array(values), np.array(values) / 2, Cost(2, 10, llm_calls=1), 0.25)
        for name, values in ndcg.items()
    }
    return SetResult("Texts", 1_000, 5_000, rows)


def test_row_has_quality_difference_and_cost():
    table = set_table(result(dense=[0.5, 0.5, 0.5], foreask=[0.75, 0.75, 0.75])).splitlines()

    assert [cell.strip() for cell in table[2].strip("|").split("|")] == [
        *("dense", "0.500", "0.500 to 0.500", "0.250", "-0.250", "-0.250 to -0.250"),
        *("2.0", "3,152", "1", "0.25"),
    ]
    assert [cell.strip() for cell in table[3].strip("|").split("|")][4:6] == ["", ""]
    assert len(set(map(len, table))) == 1


def test_means_compare_the_same_sets():
    results = [result(dense=[0.25], hybrid=[0.5], foreask=[0.75]), result(dense=[0.75], foreask=[0.25])]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in means_table(results).splitlines()[2:]]

    assert [row[:6] for row in rows] == [
        ["dense", "2", "0.500", "0.250", "+0.000", "-0.500 to +0.500"],
        ["hybrid, RRF", "1", "0.500", "0.250", "-0.250", "-0.250 to -0.250"],
        ["**foreask**", "2", "0.500", "0.250", "", ""],
    ]


def test_sentence_names_gains_over_search():
    words = " ".join(sentence([result(dense=[0.5], hybrid=[0.625], weighted=[0.875], foreask=[0.75])]).split())

    assert "0.750 on average" in words
    assert "+0.250 compared with vector search" in words
    assert "+0.125 (fused by ranks) or -0.125 (by scores)" in words


def test_block_is_replaced_between_its_marks():
    first = "a\n<!-- one: written by `python -m bench comparison --write` -->\nold\n<!-- end of one -->\nb\n"

    assert with_block(first, "one", "new\nlines") == first.replace("old", "new\nlines")
    with pytest.raises(ValueError, match="two"):
        with_block(first, "two", "new")


@pytest.mark.parametrize(
    ("page", "name"), [(PAGE, "comparison"), (README, "comparison"), (README, "comparison in words")]
)
def test_pages_have_the_blocks_of_the_command(page, name):
    text = page.read_text()

    assert "new tables" in with_block(text, name, "new tables")
    assert text.count(f"<!-- {name}: ") == text.count(f"<!-- end of {name} -->") == 1


def test_shipped_sets_have_titles_and_licences():
    folders = sorted(path.parent for path in SETS.glob("*/qrels.tsv"))

    assert [title_of(folder) for folder in folders] == [
        *("Technical documentation", "Five kinds of text", "German encyclopedia"),
    ]
    assert all((folder / "LICENSE").read_text() for folder in folders)


def test_questions_are_prepended_to_their_passages(embedding):
    questions = [(0, "How long?"), (2, "Who?"), (0, "When?")]
    inputs = Inputs(QuestionSet(["a", "b", "c"], [""] * 3, ["one", "two", "three"], [], [], questions), None, embedding)

    assert inputs.prepended == ["How long?\nWhen?\none", "two", "Who?\nthree"]


def test_every_way_is_measured(tmp_path, embedding):
    texts = {"a": "Everybody has 30 days of leave.", "b": "Salaries are paid on the last day.", "c": "Ask the office."}
    folder = tmp_path / "handbook"
    folder.mkdir()
    rows = {
        "corpus": [{"_id": name, "title": "", "text": text} for name, text in texts.items()],
        "queries": [{"_id": "q", "text": "How much leave do we have?"}],
        "generated": [{"passage_id": "a", "questions": ["How many days of leave do I get?"]}],
        "context": [{"passage_id": name, "context": "About work."} for name in texts],
    }
    for name, values in rows.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, values)))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")

    measured = measure_set(folder, embedding)

    assert (measured.title, measured.passages, measured.questions) == ("handbook", 3, 1)
    assert [name for name, row in measured.rows.items() if row.ndcg.tolist() != [1.0]] == []
    assert len(measured.rows) == 12
    assert measured.rows[DENSE].cost.vectors == 1
    assert measured.rows[FOREASK].cost.vectors == pytest.approx(4 / 3)


def test_set_without_contexts_is_accepted():
    folder = SETS / "xquad_german"

    assert contexts_of(folder, read(folder, 0)) is None
