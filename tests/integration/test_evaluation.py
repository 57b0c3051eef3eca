"""The evaluation command with Qdrant and a scripted provider: measurements, cache and output."""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from io import StringIO

import numpy as np
import pytest
from foreask_evaluation import markdown
from foreask_evaluation.cache import EvaluationCache
from foreask_evaluation.labelled import read_set
from foreask_evaluation.local import EvaluationRequest, run_served
from foreask_evaluation.run import evaluate
from foreask_evaluation.services import EvaluationServices
from foreask_evaluation.vectors import embed_all
from rich.console import Console
from structlog.testing import capture_logs

from cli import main
from cli.client import CliClient
from embedded.stack import Stack
from features.evaluation.strategies import select_strategies
from shared.domain.corpus.index_location import vector_space
from shared.services.embedders import embedder_of
from shared.settings import TenantLimits
from shared.vectors.index import Index
from tests.support.api import serving, work
from tests.support.deployment import ScriptedProvider
from tests.support.labelled import QRELS, QUERIES, QUESTIONS, TEXTS, write, write_lines
from tests.support.provider import Script, ScriptedEndpoints
from tests.support.qdrant import headers_of

STRATEGIES = [
    *("default", "questions", "text", "bm25", "text+bm25 rrf"),
    *("questions joined", "questions prepended", "default prepended", "mean", "all rrf", "max"),
]


@pytest.fixture
def foreask(stack: Stack, provider: ScriptedProvider, tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in its own folder and returns its exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_QDRANT_URL", stack.settings.qdrant_url)
    monkeypatch.setenv("FOREASK_QDRANT_API_KEY", headers_of(stack.settings).get("api-key", ""))
    for kind, model in (("LLM", "scripted"), ("EMBEDDING", "scripted-embedding")):
        monkeypatch.setenv(f"FOREASK_{kind}_BASE_URL", provider.url)
        monkeypatch.setenv(f"FOREASK_{kind}_MODEL", model)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["foreask", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def saved(folder):
    results = json.loads((folder / "results.json").read_text())
    return results, {row["strategy"]: row for row in results["rows"]}


def test_evaluation_scores_match_manual_calculation(foreask, tmp_path):
    code, out, _ = foreask("eval", write(tmp_path / "birds"), "--output", tmp_path / "out")

    assert code == 0
    results, rows = saved(tmp_path / "out")
    assert list(rows) == STRATEGIES
    assert (results["default"], results["baseline"]) == ("default", "text")
    assert (results["set"], results["passages"], results["queries"]) == ("birds", 10, 6)
    second, third = 0.63093, 0.5  # 1 / log2(1 + rank)
    expected = {"first": 1, "second": second, "none": 0, "half": 1 / (1 + second), "again": 1, "third": third}
    assert results["per_query"]["questions"] == pytest.approx(expected, abs=1e-4)
    questions = rows["questions"]
    assert questions["ndcg@10"] == pytest.approx(sum(expected.values()) / 6, abs=1e-4)
    assert questions["mrr@10"] == pytest.approx((1 + 1 / 2 + 0 + 1 + 1 + 1 / 3) / 6)
    assert questions["recall@1"] == pytest.approx((1 + 0 + 0 + 1 / 2 + 1 + 0) / 6)
    assert questions["recall@10"] == pytest.approx((1 + 1 + 0 + 1 / 2 + 1 + 1) / 6)
    assert questions["ndcg@10_low"] < questions["ndcg@10"] < questions["ndcg@10_high"]
    # The text channels find words of the text; the passage has no question.
    assert [results["per_query"][name]["none"] for name in ("text", "bm25", "questions joined")] == [1, 1, 0]
    # Fusion by rank gives noise from texts the same weight as an identical question.
    again = [results["per_query"][name]["again"] for name in ("default", "max", "all rrf")]
    assert again == pytest.approx([1, 1, second], abs=1e-4)
    assert "birds: 10 passages, 6 questions of users" in out


def test_stored_points_are_counted_per_strategy(foreask, tmp_path):
    foreask("eval", write(tmp_path / "set"), "--output", tmp_path / "out")

    _, rows = saved(tmp_path / "out")
    points = {name: row["points_per_chunk"] for name, row in rows.items()}
    written = sum(map(len, QUESTIONS.values()))
    assert points["default"] == points["questions"] == points["default prepended"] == (10 + written) / 10
    assert points["questions joined"] == (10 + len(QUESTIONS)) / 10
    assert {points[name] for name in ("text", "bm25", "text+bm25 rrf", "questions prepended")} == {1.0}
    assert rows["text"]["bytes_per_chunk"] > 384 * 4 > rows["bm25"]["bytes_per_chunk"] > 0
    both = rows["text"]["bytes_per_chunk"] + rows["bm25"]["bytes_per_chunk"]
    assert rows["text"]["bytes_per_chunk"] < rows["text+bm25 rrf"]["bytes_per_chunk"] < both


def test_evaluation_leaves_private_files_and_no_points(foreask, stack, tmp_path):
    before = os.umask(0o022)
    code, _, _ = foreask("eval", write(tmp_path / "set"), "--strategies", "text,questions joined")
    assert (code, os.umask(before)) == (0, 0o022)

    written = list((tmp_path / ".foreask").rglob("*"))
    assert {"cache.sqlite", "results.json", "results.html"} <= {path.name for path in written}
    assert [path for path in written if path.stat().st_mode & 0o077] == []
    assert not [name for name in asyncio.run(collections_of(stack)) if name.startswith("evaluation-")]


async def collections_of(stack):
    index = Index(stack.settings.qdrant_url, api_key=stack.settings.qdrant_api_key)
    try:
        return await index.names()
    finally:
        await index.aclose()


def test_rewriting_and_reranking_rows_appear_if_requested(foreask, provider, tmp_path, monkeypatch):
    provider.script(rewriting={"hypothetical_answer": TEXTS[9]})
    run = ("eval", write(tmp_path / "set"), "--output", tmp_path / "out")
    foreask(*run, "--strategies", "default,default hyde,default rerank")
    results, rows = saved(tmp_path / "out")

    assert list(rows) == ["default", "default hyde"]
    (left_out,) = results["left_out"]
    assert left_out["strategy"] == "default rerank"
    assert "FOREASK_RERANK_BASE_URL" in left_out["reason"]
    assert results["per_query"]["default hyde"]["half"] > results["per_query"]["default"]["half"]
    assert [note for note in results["notes"] if note.startswith("default hyde: ") and "tokens" in note]

    monkeypatch.setenv("FOREASK_RERANK_BASE_URL", provider.url)
    provider.script(rewrite_fault="500")
    foreask(*run, "--strategies", "text,default hyde,default rerank")
    results, rows = saved(tmp_path / "out")

    assert list(rows) == ["text", "default hyde", "default rerank"]
    assert [note for note in results["notes"] if note.startswith("default hyde: 6 of 6 queries were done without rewr")]
    assert results["per_query"]["default rerank"]["none"] == 1


def test_second_run_gives_same_results_without_embedding(foreask, provider, tmp_path):
    write(tmp_path / "set")
    foreask("eval", tmp_path / "set", "--output", tmp_path / "one")
    assert provider.stats()["embedded_inputs"] > len(TEXTS)
    provider.reset()

    code, out, _ = foreask(
        "eval", tmp_path / "set", "--output", tmp_path / "two", "--compare", tmp_path / "one", "--baseline", "bm25"
    )

    assert code == 0
    assert provider.stats()["embedded_inputs"] == 0
    (one, _), (two, _) = saved(tmp_path / "one"), saved(tmp_path / "two")
    assert one["per_query"] == two["per_query"]
    assert two["baseline"] == "bm25"
    assert "+0.000 to +0.000" in out


def test_failed_evaluation_resumes_without_repeated_embeddings(foreask, provider, tmp_path, monkeypatch):
    monkeypatch.setenv("FOREASK_TUNING__MAX_ATTEMPTS", "1")
    write(tmp_path / "set")
    foreask("eval", tmp_path / "set", "--strategies", "text")  # embeds the texts and the users' questions
    provider.script(down=True)
    code, _, err = foreask("eval", tmp_path / "set")
    assert (code, err) == (
        1,
        'the embedding provider answered 503: it failed; it says "the provider is down"\n',
    )
    provider.restore()

    assert foreask("eval", tmp_path / "set", "--strategies", "questions,text")[0] == 0

    written = {question for own in QUESTIONS.values() for question in own}
    assert provider.stats()["embedded_inputs"] == len(written - set(QUERIES.values())) == 1


class Stopped(Exception):
    pass


def stop_after_first(stage, done, total):
    if done:
        raise Stopped


def test_embeddings_before_stop_are_reused(provider, tmp_path):
    settings = provider.settings(tuning={"embedding_batch_size": 4, "embedding_max_in_flight": 1})
    texts = [f"Text number {number}." for number in range(12)]

    async def embed(cache, progress):
        async with AsyncExitStack() as stack:
            services = EvaluationServices(
                settings, embedder_of(settings, stack), Index("http://127.0.0.1:9"), cache, None, progress
            )
            stack.push_async_callback(services.index.aclose)
            return services.vector_model, await embed_all(services, "embedding", texts)

    with EvaluationCache(tmp_path / "cache.sqlite") as cache, pytest.raises(Stopped):
        asyncio.run(embed(cache, stop_after_first))
    provider.reset()
    with EvaluationCache(tmp_path / "cache.sqlite") as cache:
        missing = cache.missing_vectors(vector_space("scripted-embedding"), texts)
        name, refused = asyncio.run(embed(cache, lambda *_: None))
        assert cache.missing_vectors(name, texts) == []

    assert len(missing) == 8
    assert provider.stats()["embedded_inputs"] == 8
    assert refused == set()


def test_stored_points_are_not_written_again(stack, provider, tmp_path):
    engine = stack.settings
    settings = provider.settings(qdrant_url=engine.qdrant_url, qdrant_api_key=engine.qdrant_api_key)
    labelled, stages = read_set(write(tmp_path / "set")), []

    async def run(progress):
        async with AsyncExitStack() as resources:
            index = Index(settings.qdrant_url, api_key=settings.qdrant_api_key)
            resources.push_async_callback(index.aclose)
            with EvaluationCache(tmp_path / "cache.sqlite") as cache:
                services = EvaluationServices(settings, embedder_of(settings, resources), index, cache, None, progress)
                return await evaluate(services, labelled, select_strategies(["questions"]), "questions")

    def stop_at_the_first_query(stage, *_):
        if stage.startswith("querying"):
            raise Stopped

    with pytest.raises(Stopped):
        asyncio.run(run(stop_at_the_first_query))
    results = asyncio.run(run(lambda stage, *_: stages.append(stage)))

    assert list(dict.fromkeys(stages)) == ["embedding", "measuring chunks", "querying questions"]
    assert results["rows"][0]["ndcg@10"] == pytest.approx((1 + 0.63093 + 0 + 1 / 1.63093 + 1 + 0.5) / 6, abs=1e-4)


def test_strategies_without_questions_are_omitted(foreask, provider, tmp_path):
    code, out, _ = foreask("eval", write(tmp_path / "set", generated=False), "--output", tmp_path / "out")

    assert code == 0
    results, rows = saved(tmp_path / "out")
    assert list(rows) == ["default", "text", "bm25", "text+bm25 rrf", "mean", "all rrf", "max"]
    left_out = ["questions", "questions joined", "questions prepended", "default prepended"]
    assert [one["strategy"] for one in results["left_out"]] == left_out
    assert "with --generate the configured LLM writes the questions (at least one call for each of 10 passages)" in out
    assert provider.stats()["calls"] == 0


def test_generated_questions_are_paid_once(foreask, provider, tmp_path):
    folder = write(tmp_path / "set", generated=False)
    foreask("eval", folder, "--generate", "--strategies", "questions,text", "--output", tmp_path / "one")
    first, (results, rows) = provider.stats(), saved(tmp_path / "one")

    foreask("eval", folder, "--generate", "--output", tmp_path / "two")

    assert first["calls"] == len(TEXTS)
    assert provider.stats()["calls"] == len(TEXTS)
    assert results["questions"]["source"] == "scripted"
    assert results["questions"]["count"] > 0
    assert (rows["questions"]["llm_calls"], rows["text"]["llm_calls"]) == (10, 0)
    assert saved(tmp_path / "two")[1]["default"]["llm_tokens"] == rows["questions"]["llm_tokens"] > 0


def with_answers(folder):
    """Write the set with answers to two of its questions and with one unanswerable question."""
    write(folder)
    expected_answers = {"first": ["The DOCUMENTS  say", "Bertram"], "again": ["a lighthouse"]}
    rows = [{"_id": name, "text": text} | answers(expected_answers.get(name)) for name, text in QUERIES.items()]
    rows.append({"_id": "never", "text": "Quantum chromodynamics?", "answerable": False})
    write_lines(folder / "queries.jsonl", rows)
    return folder


def answers(texts):
    return {} if texts is None else {"answers": texts}


def test_answers_are_graded_and_paid_once(foreask, provider, tmp_path):
    folder = with_answers(tmp_path / "set")
    code, out, _ = foreask("eval", folder, "--answers", "--output", tmp_path / "one")
    foreask("eval", folder, "--answers", "--output", tmp_path / "two")

    assert code == 0
    grades = saved(tmp_path / "one")[0]["answers"]
    assert provider.stats()["calls"] == len(QUERIES)  # one question is not graded, and the unanswerable one is added
    assert (grades["strategy"], grades["form"]) == ("default", "generative")
    assert (grades["questions"], grades["unanswerable"], grades["failed"]) == (6, 1, 0)
    # The model always says "The documents say so [1]."
    shares = {name: share["mean"] for name, share in grades.items() if isinstance(share, dict)}
    first_hits = saved(tmp_path / "one")[1]["default"]["recall@1"] * 6 + 0.5  # for the question with two passages
    assert shares == pytest.approx(
        {
            "answered": 1,
            "citations_valid": 1,
            "cites_answering_passage": first_hits / 6,
            "answer_recall": 0.5,
            "refused": 0,
        }
    )
    assert saved(tmp_path / "two")[0]["answers"] == grades
    assert "Answers (generative, from the results of `default`, 7 questions" in out


def test_extractive_answers_are_graded_without_model_calls(foreask, provider, tmp_path, monkeypatch):
    monkeypatch.setenv("FOREASK_ANSWERING", "extractive")

    foreask("eval", with_answers(tmp_path / "set"), "--answers", "--strategies", "text", "--output", tmp_path / "out")

    grades = saved(tmp_path / "out")[0]["answers"]
    assert provider.stats()["calls"] == 0
    assert grades["form"] == "extractive"
    assert grades["refused"]["mean"] == 1
    assert grades["citations_valid"]["mean"] == 1
    assert 0 < grades["answered"]["mean"] < 1  # one question has the words of its passage
    provider.reset()
    foreask("eval", tmp_path / "set", "--answers", "--strategies", "text", "--output", tmp_path / "again")
    assert saved(tmp_path / "again")[0]["answers"] == grades
    assert provider.stats()["embedded_inputs"] == 0


def test_texts_refused_by_provider_are_counted(foreask, provider, tmp_path):
    provider.script(refuse_containing="Copper")

    code, out, _ = foreask(
        "eval", write(tmp_path / "set"), "--strategies", "default,text", "--output", tmp_path / "out"
    )

    assert code == 0
    assert "Texts that the embedding provider refused, and which have no vector: 1." in out
    assert saved(tmp_path / "out")[1]["text"]["points_per_chunk"] == 1.0


def test_invalid_option_prints_one_sentence(foreask, tmp_path):
    folder = write(tmp_path / "set")
    for arguments, sentence in (
        (["--strategies", "text,clever"], "There is no strategy clever; there are: default, questions,"),
        (["--strategies", "text", "--baseline", "bm25"], "The baseline bm25 is not among the strategies: text."),
        (["--compare", "nowhere"], "nowhere has no results.json: it is not the output of an evaluation."),
    ):
        code, out, err = foreask("eval", folder, *arguments)
        assert (code, out) == (1, ""), arguments
        assert err.startswith(sentence), arguments


def test_saved_runs_are_compared_without_provider_calls(foreask, provider, tmp_path):
    write(tmp_path / "set")
    foreask("eval", tmp_path / "set", "--strategies", "text", "--output", tmp_path / "one")
    foreask("eval", tmp_path / "set", "--strategies", "text,bm25", "--output", tmp_path / "two")
    provider.script(down=True)

    code, out, _ = foreask("eval", tmp_path / "two", "--compare", tmp_path / "one")

    assert code == 0
    assert "text" in out
    assert "bm25" not in out


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("kind", ["external_ids", "chunk_ids"])
async def test_served_collection_is_evaluated_over_api(settings, services, library, tmp_path, kind):
    for number, text in enumerate(TEXTS):
        await library.add(text, f"p{number}", questions=list(QUESTIONS.get(f"p{number}", ())))
    await work(services)
    async with serving(settings, services) as api:
        names = {f"p{number}": await chunk_of(api, f"p{number}") for number in range(len(TEXTS))}
        lines = [
            {"question": QUERIES[query], kind: [passage if kind == "external_ids" else names[passage]]}
            for query, passage, _ in QRELS
            if passage in names
        ]
        write_lines(tmp_path / "questions.jsonl", lines)
        with CliClient(str(api.base_url)) as client:
            request = EvaluationRequest(tmp_path, ["questions", "text", "questions joined"])
            questions = tmp_path / "questions.jsonl"
            results = await asyncio.to_thread(
                run_served, client, "default", questions, request, Console(file=StringIO())
            )

    rows = {row["strategy"]: row for row in results["rows"]}
    assert list(rows) == ["questions", "text"]
    assert rows["questions"]["ndcg@10"] == pytest.approx((1 + 0.63093 + 0 + 1 / 1.63093 + 1 + 0.5) / 6, abs=1e-4)
    assert rows["questions"]["milliseconds_per_query"] > 0
    assert results["per_query"]["text"][QUERIES["none"]] == 1
    assert [one["strategy"] for one in results["left_out"]] == ["questions joined"]
    assert (results["passages"], rows["text"]["points_per_chunk"]) == (None, None)
    assert "default: 6 questions of users" in markdown.page(results)


@pytest.mark.usefixtures("runner")
async def test_rate_limited_evaluation_finishes(settings, services, library, provider, tmp_path):
    for number, text in enumerate(TEXTS):
        await library.add(text, f"p{number}")
    await work(services)
    lines = [{"question": f"{question} {n}", "external_ids": ["p0"]} for question in QUERIES.values() for n in range(4)]
    write_lines(tmp_path / "questions.jsonl", lines)
    few = settings.model_copy(update={"tenant_limits": {"default": TenantLimits(requests_per_second=1, burst=2)}})
    provider.script(embedding_latency_seconds=0.1)
    async with serving(few, services) as api:
        with CliClient(str(api.base_url)) as client, capture_logs() as logs:
            request = EvaluationRequest(tmp_path, ["text"])
            questions = tmp_path / "questions.jsonl"
            results = await asyncio.to_thread(
                run_served, client, "default", questions, request, Console(file=StringIO())
            )
    assert len(results["per_query"]["text"]) == len(lines)
    assert 429 in {line.get("status") for line in logs}


async def chunk_of(api, external_id):
    documents = (await api.get("/v1/documents", params={"limit": 200})).json()["items"]
    document = next(one for one in documents if one["external_id"] == external_id)
    return (await api.get(f"/v1/documents/{document['id']}/chunks")).json()["items"][0]["id"]


def test_missing_eval_source_prints_one_sentence(foreask):
    for arguments, sentence in (
        ([], "Name a folder, or a collection with --collection and --questions."),
        (["--collection", "a"], "--collection and --questions require each other."),
        (["--collection", "a", "--questions", "nowhere.jsonl"], "nowhere.jsonl is missing."),
    ):
        assert foreask("eval", *arguments) == (1, "", f"{sentence}\n")


def test_evaluation_reports_baseline_similarity_of_embedding_model(foreask, tmp_path):
    common = "the annual inspection of the vessel in the harbour was recorded by the keeper of the register"
    folder = tmp_path / "ships"
    folder.mkdir()
    numbers = range(30)
    write_lines(folder / "corpus.jsonl", [{"_id": f"p{n}", "text": f"{common}: ship{n}."} for n in numbers])
    write_lines(folder / "queries.jsonl", [{"_id": f"q{n}", "text": f"ship{n}?"} for n in numbers])
    questions = [
        {"passage_id": f"p{n}", "questions": [f"Where was ship{n} in the annual inspection?"]} for n in numbers
    ]
    write_lines(folder / "generated.jsonl", questions)
    rows = ["query-id\tcorpus-id\tscore", *(f"q{n}\tp{n}\t1" for n in numbers)]
    (folder / "qrels.tsv").write_text("\n".join(rows) + "\n")

    foreask("eval", folder, "--output", tmp_path / "out", "--strategies", "default,text")

    results, _ = saved(tmp_path / "out")
    vector = ScriptedEndpoints(Script()).vector
    cosines = [
        vector(own["questions"][0]) @ vector(f"{common}: ship{other}.")
        for n, own in enumerate(questions)
        for other in numbers
        if other != n
    ]
    assert np.mean(cosines) > 0.1
    measured = f"{np.mean(cosines):.2f} ± {np.std(cosines):.2f}"
    model = "with the embedding model: scores count above them (chunks)."
    assert f"Cosines of unrelated texts are {measured} {model}" in results["notes"]

    (folder / "generated.jsonl").unlink()  # without questions, the texts are used instead
    foreask("eval", folder, "--output", tmp_path / "alone", "--strategies", "default")
    alone, _ = saved(tmp_path / "alone")
    texts = np.array([vector(f"{common}: ship{number}.") for number in numbers])
    others = (texts @ texts.T)[~np.eye(len(texts), dtype=bool)]
    (similar,) = {f"{others.mean():.2f} ± {others.std():.2f}"} - {measured}
    assert f"Cosines of unrelated texts are {similar} {model}" in alone["notes"]
