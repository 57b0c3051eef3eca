"""Run the commands of the page on bulk loads against a server, and check their output."""

import gzip
import re
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli import estimates
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.listing import DocumentFilter
from tests.support.api import serving, work
from tests.support.pages import commands_of, foreask_with_background

COMMANDS = commands_of("bulk-load.md")


@pytest.fixture
async def server(services, settings, provider, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with serving(settings, services) as http:
        monkeypatch.setenv("FOREASK_URL", str(http.base_url))
        yield http


@pytest.fixture
def foreask(services, server, capsys, monkeypatch):
    """Return a function that runs a command while workers process due work; it returns exit code and output."""
    return foreask_with_background(lambda: work(services), capsys, monkeypatch)


def write(name, rows, compress=bytes):
    Path(name).write_bytes(compress(b"".join(orjson.dumps(row) + b"\n" for row in rows)))


async def states(server, collection):
    return (await server.get(f"/v1/collections/{collection}")).json()["documents"]


async def test_documented_commands_load_their_corpora(server, services, foreask, provider):
    write("corpus.jsonl", ({"_id": str(n), "title": "T", "text": f"Article {n} of the wiki."} for n in range(30)))
    news = [{"url": f"https://n/{n}", "body": f"News {n}.", "headline": "H", "lang": "en", "year": n} for n in range(4)]
    write("articles.jsonl.gz", news, gzip.compress)
    faq = [{"id": n, "text": f"Answer {n}.", "asked": [f"What is answered by {n}?"]} for n in range(5)]
    pq.write_table(pa.Table.from_pylist(faq), "faq.parquet")

    outputs = {}
    for command in COMMANDS:
        code, outputs[command] = await foreask(command)
        assert code == 0, outputs[command]

    loaded = {name: await states(server, name) for name in ("wiki", "news", "faq")}
    assert loaded == {"wiki": {"ready": 30}, "news": {"ready": 4}, "faq": {"ready": 5}}
    wiki, articles, questions = outputs.values()
    assert "corpus.jsonl: 30 rows\nestimate: 30 documents, 30 chunks; 30 calls of the language model" in wiki
    assert "30 rows: 30 new, 0 unchanged" in wiki
    assert "4 calls" in articles
    assert "0 calls" in questions
    assert provider.stats()["calls"] == 34
    (document,) = await services.ledger[Documents].page("default", DocumentFilter(external_id="https://n/3"))
    assert (document.title, document.metadata) == ("H", {"lang": "en", "year": 3})
    kept_estimates = (await server.get("/v1/status")).json()["estimates"]
    assert {k["collection"]: (k["estimate"]["calls"], k["since"]["calls"]) for k in kept_estimates} == {
        "wiki": (30, 30),
        "news": (4, 4),
        "faq": (0, 0),
    }
    assert "estimated" in (await foreask("foreask status"))[1]

    again = await foreask(COMMANDS[0])
    assert again[0] == 0
    assert "; 0 calls" in again[1]
    assert "30 rows: 0 new, 30 unchanged" in again[1]


async def test_rejected_row_is_named_with_exit_code_3(server, foreask):
    write("corpus.jsonl", [{"_id": "a", "text": "One."}, {"_id": "b", "text": ""}, {"_id": "c", "text": "Three."}])
    code, output = await foreask("foreask ingest corpus.jsonl")
    assert code == 3
    assert "row 2 was rejected: It has no text in the column text." in output
    assert await states(server, "default") == {"ready": 2}


async def test_truncated_corpus_prints_one_sentence(server, foreask):
    rows = [{"_id": str(n), "text": f"Text {n} {hash(str(n))}"} for n in range(300)]
    write("corpus.jsonl.gz", rows, lambda content: gzip.compress(content)[:-900])
    code, output = await foreask("foreask ingest corpus.jsonl.gz --wait no")
    assert code == 1
    assert re.search(r"is truncated after line [\d,]+\.", output)


async def test_large_folder_estimates_text_files_only(server, foreask):
    Path("notes").mkdir()
    for n in range(22):
        Path("notes", f"{n}.md").write_text(f"# Note {n}\n\nWhat is to be known of number {n}.")
    Path("notes", "scan.pdf").write_bytes(b"%PDF-1.4")
    code, output = await foreask("foreask ingest notes --wait no")
    assert code == 0
    assert "not estimated: 1 of 23 files, whose text is unknown before parsing" in output
    assert "estimate: 22 documents, 22 chunks; 22 calls" in output


class Terminal:
    """A console whose user confirms every prompt."""

    is_terminal = True

    def __init__(self):
        self.printed = []

    def print(self, text, **_):
        self.printed.append(text)


class EstimatingServer:
    """A server that estimates the cost of a load."""

    def __init__(self, calls):
        self.calls = calls
        self.kept_estimates = 0

    def estimate(self, body):
        self.kept_estimates += body.get("store", False)
        tokens = dict.fromkeys(("prompt_tokens", "completion_tokens", "embeddings", "embedding_tokens", "points"), 7)
        rest = {
            "exact": False,
            "paid_chunks": 0,
            "pages": 0,
            "margin": None,
            "llm_cost": 12.5,
            "embedding_cost": None,
            "seconds": 7_200.0,
            "bottleneck": "llm tokens",
        }
        return {"documents": 1, "chunks": 2, "calls": self.calls} | tokens | rest


@pytest.mark.parametrize(
    ("calls", "yes", "answer"), [(1_000, False, None), (1_001, False, True), (1_001, False, False), (1_001, True, None)]
)
def test_large_load_on_terminal_asks_for_confirmation(monkeypatch, calls, yes, answer):
    questions = []
    monkeypatch.setattr("typer.confirm", lambda text: questions.append(text) or answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    server, console = EstimatingServer(calls), Terminal()
    body = {"collection": "default", "documents": {"count": 1, "bytes": 1}}
    confirmed = estimates.is_confirmed(server, console, body, "Upload?", yes=yes)
    assert bool(questions) == (answer is not None)
    assert confirmed == server.kept_estimates == (answer is not False)
    assert "costs 12.50 without embeddings, whose price is unknown; 2 h at llm tokens" in console.printed[0]
