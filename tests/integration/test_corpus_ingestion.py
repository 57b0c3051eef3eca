"""A corpus is uploaded in batches of rows, and interruptions cause no row to be uploaded twice."""

import asyncio
import os
import time

import orjson
import pytest
from typer.testing import CliRunner

from cli import corpus_ingestion, ingestion, main
from cli.client import CliClient
from cli.corpus import corpus_in
from cli.corpus_ingestion import CorpusLoad, follow, upload_rows
from features.sources.tables.formats import Columns, Truncated
from shared.domain.errors import Unavailable
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.listing import DocumentFilter
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.postgres.statements import Statement
from tests.support.api import serving, work
from tests.support.planted import guards


@pytest.fixture
async def server(services, settings, wakes):
    async with serving(settings, services) as http:
        with CliClient(str(http.base_url)) as client:
            yield client


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Return a function that makes a corpus, which is uploaded in batches of ten rows."""
    monkeypatch.setattr(corpus_ingestion, "_BATCH_ROWS", 10)

    def make(rows, name="corpus.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"".join(r if isinstance(r, bytes) else orjson.dumps(r) + b"\n" for r in rows))
        return corpus_in([str(path)], Columns(metadata=("lang",)))

    return make


def rows(count):
    return [{"_id": f"doc-{n:03}", "text": f"Number {n} is answered here.", "lang": "en"} for n in range(count)]


async def ingested(server, corpus, load=None):
    load = load or CorpusLoad(corpus.survey().rows)
    await asyncio.to_thread(lambda: list(upload_rows(server, corpus, "default", load)))
    return load


async def stored(services):
    return [d.external_id for d in await services.ledger[Documents].page("default", limit=1_000)]


async def test_repeated_ingest_changes_nothing(server, services, corpus):
    whole = corpus(rows(35))
    first = await ingested(server, whole)
    second = await ingested(server, whole)

    assert (first.accepted, first.unchanged, first.rejected) == (35, 0, 0)
    assert (second.accepted, second.unchanged, second.rejected) == (0, 35, 0)
    assert sorted(await stored(services)) == [row["_id"] for row in rows(35)]
    (document,) = await services.ledger[Documents].page("default", DocumentFilter(external_id="doc-007"))
    assert (document.metadata, document.version) == ({"lang": "en"}, 1)


async def test_interrupted_ingest_resumes(server, services, corpus):
    whole = corpus(rows(35))

    def upload_some():
        uploads = upload_rows(server, whole, "default", CorpusLoad(35))
        next(uploads), next(uploads)
        uploads.close()

    await asyncio.to_thread(upload_some)
    before = len(await stored(services))
    load = await ingested(server, whole)

    assert before >= 20
    assert load.accepted + load.unchanged == 35
    assert len(await stored(services)) == 35


async def test_rejected_rows_are_numbered_and_others_ingested(server, services, corpus):
    bad = [*rows(25), b"{\n", {"_id": "x" * 1101, "text": "Its name is too long."}, {"_id": "e", "text": ""}]
    load = await ingested(server, corpus([*bad, {"_id": "last", "text": "The last one."}]))

    assert (load.accepted, load.rejected, load.done) == (26, 3, 29)
    assert sorted(load.reasons) == [26, 27, 28]
    assert "1100" in load.reasons[27]
    assert "last" in await stored(services)


async def test_rows_with_same_id_are_uploaded_in_order(server, services, corpus, monkeypatch):
    send, running, concurrent = server.upload_batch, [], []

    def upload(*args, **options):
        running.append(args)
        concurrent.append(len(running))
        time.sleep(0.02)
        try:
            return send(*args, **options)
        finally:
            running.remove(args)

    monkeypatch.setattr(server, "upload_batch", upload)
    same = [{"_id": "same", "text": f"Version {n}.", "lang": "en"} for n in range(7)]
    load = await ingested(server, corpus(same))

    assert load.accepted == 7
    assert concurrent == [1] * 7
    (document,) = await services.ledger[Documents].page("default", DocumentFilter(external_id="same"))
    assert document.version == 7


async def test_truncated_file_ingests_complete_rows(server, services, corpus, monkeypatch):
    whole = corpus(rows(25))

    def cut():
        yield from list(type(whole).rows(whole))[:13]
        raise Truncated(whole._path, 13)

    monkeypatch.setattr(whole, "rows", cut)
    with pytest.raises(Truncated, match="line 13"):
        await ingested(server, whole)
    assert len(await stored(services)) == 13


async def test_short_server_outage_loses_no_row(server, services, corpus, monkeypatch):
    monkeypatch.setattr("foreask_client.transport.seconds_until_next", lambda *_: 0.01)
    submit = type(services.ledger[Documents]).submit_many
    failed = set()

    async def broken(self, documents):
        if documents[0].external_id not in failed:
            failed.add(documents[0].external_id)
            raise Unavailable("unavailable", component="ledger")
        return await submit(self, documents)

    monkeypatch.setattr(type(services.ledger[Documents]), "submit_many", broken)
    load = await ingested(server, corpus(rows(30)))
    assert (load.accepted, load.rejected) == (30, 0)
    assert len(await stored(services)) == 30


async def test_follow_yields_states_until_all_documents_are_ready(server, services, provider, corpus):
    job = await asyncio.to_thread(server.open_load)
    await asyncio.to_thread(lambda: list(upload_rows(server, corpus(rows(3)), "default", CorpusLoad(3), job=job.id)))
    loop = asyncio.get_running_loop()
    seen = []

    def sleep(_):
        asyncio.run_coroutine_threadsafe(work(services), loop).result()

    await asyncio.to_thread(lambda: seen.extend(follow(server, job.id, "ready", sleep)))
    assert [each.documents for each in seen] == [{"queued": 3}, {"ready": 3}]


async def test_ingest_shows_money_and_ends_with_totals(services, settings, provider, tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows(3)))
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text(f"A text about the {name} harbour.")
    priced = settings.model_copy(update={"llm_input_price": 1_000.0, "llm_output_price": 0.0})
    async with serving(priced, services) as client:

        async def ingested_by_command(source):
            arguments = ["ingest", str(tmp_path / source), "--url", str(client.base_url), "--yes"]
            ingesting = asyncio.create_task(asyncio.to_thread(CliRunner().invoke, main.app, arguments))
            while not ingesting.done():
                await work(services)
                await asyncio.sleep(0.02)
            assert ingesting.result().exit_code == 0, ingesting.result().output
            (job, *_) = (await client.get("/v1/jobs")).json()["items"]
            # The server writes to the same output, and may log the last request later.
            return ingesting.result().output.splitlines(), f"{job['cost']:,.4f}"

        files, cost_of_files = await ingested_by_command("*.md")
        corpus, cost_of_corpus = await ingested_by_command("corpus.jsonl")

    assert float(cost_of_files) > 0
    assert f"2 files: 2 ready; the calls cost {cost_of_files}" in files
    assert f"3 rows: 3 new, 0 unchanged; 3 ready; the calls cost {cost_of_corpus}" in corpus


async def test_ingest_opens_a_job_and_continues_it(server, services, provider, tmp_path):
    def ingest(*more):
        arguments = ["ingest", str(tmp_path / "*.md"), "--url", server.url, "--wait", "no", *more]
        return CliRunner().invoke(main.app, arguments)

    (tmp_path / "a.md").write_text("A text about the harbour.")
    first = await asyncio.to_thread(ingest)
    assert first.exit_code == 0, first.output
    (job,) = await services.ledger[Jobs].page("default")
    assert f"job {job.id}" in first.output
    assert (job.kind, job.total, job.closed_at is None) == ("load", 1, False)

    (tmp_path / "b.md").write_text("A text about the mole.")
    assert (await asyncio.to_thread(ingest)).exit_code == 0
    assert (await asyncio.to_thread(ingest, "-c", "other")).exit_code == 0

    other, same = await services.ledger[Jobs].page("default")
    assert (same.id, same.total, other.collection) == (job.id, 2, "other")
    await work(services)
    await services.ledger[Jobs].settle()
    watched = await asyncio.to_thread(CliRunner().invoke, main.app, ["jobs", "watch", str(job.id), "--url", server.url])
    assert (watched.exit_code, "documents: 2 ready" in watched.output) == (0, True), watched.output


async def test_commands_pause_resume_and_cancel_a_job(server, services, provider):
    job = (await asyncio.to_thread(server.open_load)).id
    states = []
    for action in ("pause", "resume", "cancel"):
        ran = await asyncio.to_thread(CliRunner().invoke, main.app, ["jobs", action, job, "--url", server.url])
        assert ran.exit_code == 0, ran.output
        # A log line of the API, which runs in this process, may be among the output.
        states += [word for word in ran.output.split() if word in {"paused", "running", "cancelling"}]
    listed = await asyncio.to_thread(CliRunner().invoke, main.app, ["jobs", "list", "--url", server.url])

    assert states == ["paused", "running", "cancelling"]
    assert job in listed.output


@guards(
    "cli/commands/ingest.py",
    "dict(selection.unreadable)",
    "{}",
    means="an odd file of a folder is left out without a word",
)
@guards(
    "cli/ingestion.py",
    "batch.replaced += outcome.version > 1 and",
    "batch.replaced += False and",
    means="a file replaces another one of its name without a word",
)
async def test_folder_with_odd_files_is_uploaded(server, services, provider, tmp_path, monkeypatch):
    def ingest(folder):
        monkeypatch.chdir(folder)
        return CliRunner().invoke(main.app, ["ingest", ".", "--url", server.url, "--wait", "no", "--yes"])

    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.md").write_text(f"Folder {folder}.")
    for number in range(20):  # so many files are estimated
        (tmp_path / "one" / f"{number}.md").write_text(f"The harbour number {number} opens at seven.")
    (tmp_path / "one" / "desktop.ini").write_bytes("[.ShellClassInfo]\r\n".encode("utf-16"))
    (tmp_path / "one" / "gone.md").symlink_to(tmp_path / "absent.md")
    os.mkfifo(tmp_path / "one" / "pipe.md")
    (tmp_path / "one" / os.fsdecode(b"caf\xe9.md")).write_text("Coffee.")

    first = await asyncio.to_thread(ingest, tmp_path / "one")
    await work(services)
    second = await asyncio.to_thread(ingest, tmp_path / "two")

    assert first.exit_code == 3, first.output
    assert "25 files: 22 queued, 3 not uploaded" in first.output
    assert [line for line in first.output.splitlines() if "not uploaded" in line and "pipe.md" in line]
    # The server writes to the same output, and may log the last request later.
    replaced = "1 files: 1 queued; 1 replaced the content of a document with the same name"
    assert replaced in second.output.splitlines()


@guards(
    "cli/ingestion.py",
    "if size > _SMALL_BYTES:",
    "if True:",
    means="each small file of a folder costs a request",
)
@guards(
    "cli/ingestion.py",
    "return {name: _outcome(partial(upload_one, name)) for name in names}",
    "return dict.fromkeys(names, 'It cannot be read.')",
    means="a file that cannot be read stops the files that are sent with it",
)
async def test_small_files_share_upload_requests(server, services, tmp_path, monkeypatch):
    paths, send = [], CliClient.send

    def sent(client, request):
        paths.append(request.path)
        return send(client, request)

    monkeypatch.setattr(CliClient, "send", sent)
    files = {f"{number:03}.md": tmp_path / f"{number:03}.md" for number in range(220)}
    for name, path in files.items():
        path.write_text(f"The harbour {name} opens at seven.")
    files["000.md"].write_text("The harbour is large. " * 4_000)
    files["001.md"].write_bytes(b"")
    files["218.md"] = tmp_path  # a folder cannot be read
    files["219.md"].unlink()
    batch = ingestion.UploadBatch(len(files))

    names = await asyncio.to_thread(lambda: list(ingestion.upload(server, files, "default", None, batch)))

    assert sorted(names) == sorted(files)
    assert sorted(batch.rejected) == ["001.md", "218.md", "219.md"]
    assert batch.rejected["218.md"] == "It cannot be read: Is a directory."
    assert batch.rejected["219.md"] == "It cannot be read: No such file or directory."
    assert (paths.count("/v1/documents:batch"), paths.count("/v1/documents")) == (2, 1 + 19)
    found = await services.ledger[Documents].page("default", limit=1_000)
    assert {document.external_id for document in found} == files.keys() - batch.rejected.keys()
    async with services.database.begin() as connection:
        stored = (
            "SELECT DISTINCT d.lane, v.media_type FROM documents d JOIN document_versions v ON v.document_id = d.id"
        )
        assert [tuple(row) for row in await connection.execute(Statement(stored))] == [(0, "text/markdown")]


@guards(
    "cli/corpus_ingestion.py",
    "orjson.dumps(readers | row.document)",
    "orjson.dumps(row.document | readers)",
    means="the readers of a command replace those that a row names",
)
async def test_command_names_readers_of_rows_and_files(server, services, provider, tmp_path):
    async def ingest(path, *readers):
        arguments = ["ingest", str(path), "--url", server.url, "--wait", "no", "--yes"]
        for reader in readers:
            arguments += ["--readable-by", reader]
        return await asyncio.to_thread(CliRunner().invoke, main.app, arguments)

    (tmp_path / "a.jsonl").write_bytes(
        b"\n".join(map(orjson.dumps, [*rows(2), {"_id": "own", "text": "The harbour.", "readable_by": ["user:ada"]}]))
    )
    (tmp_path / "files").mkdir()
    (tmp_path / "files/small.md").write_text("The harbour opens at seven.")
    (tmp_path / "files/large.md").write_text("The harbour is large. " * 4_000)

    refused = await ingest(tmp_path / "files", "legal")
    assert (refused.exit_code, "A reader is `everyone`" in str(refused.exception or refused.output)) == (1, True)
    assert await stored(services) == []
    assert (await ingest(tmp_path / "a.jsonl", "group:legal")).exit_code == 0
    assert (await ingest(tmp_path / "files", "group:legal,user:bob", "group:hr")).exit_code == 0

    page = await services.ledger[Documents].page("default", limit=10)
    assert {each.external_id.split("/")[-1]: each.readable_by for each in page} == {
        "doc-000": ("group:legal",),
        "doc-001": ("group:legal",),
        "own": ("user:ada",),
        "small.md": ("group:hr", "group:legal", "user:bob"),
        "large.md": ("group:hr", "group:legal", "user:bob"),
    }
