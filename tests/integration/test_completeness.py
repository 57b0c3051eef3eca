"""A document whose file was not read completely is degraded, and names the missing words."""

import io
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest

from features.builds.ledger.build_comparison import BuildComparison
from shared.domain.errors import Conflict
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.collections import Collections
from tests.conftest import Library
from tests.integration.test_builds import NAME, filled, finish_work
from tests.integration.test_dead_letters import index_until_dead, resolve
from tests.support.api import work
from tests.support.lossy import MISSING, with_losses
from tests.support.planted import guards

TEXT = "The harbour opens at six. (lost)"
PROTECTED = Path(__file__).parents[1] / "files" / "hostile" / "unstructured_password_protected.xlsx"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


@pytest.fixture
def lossy(services):
    return with_losses(services)[0]


async def finished(lossy, text=TEXT, name="a.md", **options):
    """Ingest a document, and return it."""
    document = await Library(lossy).add(text, name, **options)
    await work(lossy)
    return await lossy.ledger[Documents].get("default", document.id)


@guards(
    "shared/ledger/work/finishing.sql",
    "AND v.missing IS NOT NULL))",
    "AND false))",
    means="a document is ready although words of its file are missing",
)
async def test_document_with_losses_is_degraded(lossy, client, provider):
    document = await finished(lossy)

    shown = (await client.get(f"/v1/documents/{document.id}")).json()
    assert (shown["state"], shown["error"], shown["chunks"]["dead"]) == ("degraded", None, 0)
    assert (shown["text_coverage"], shown["unread"]) == (0.98, list(MISSING.unread))
    assert shown["losses"] == [{"location": "page 3", "missing": 14, "sample": ["quay", "tide"]}]
    assert (await client.get("/v1/documents", params={"state": "degraded"})).json()["items"] == [shown]


async def test_complete_document_is_ready(lossy, client, provider):
    document = await finished(lossy, "The harbour opens at six.")

    shown = (await client.get(f"/v1/documents/{document.id}")).json()
    assert (shown["state"], shown["text_coverage"], shown["losses"], shown["unread"]) == ("ready", None, [], [])


def mail_with_protected_workbook():
    message = EmailMessage()
    message["From"], message["Subject"] = "harbour@quay.example", "Prices"
    message.set_content("The prices of the berths are attached.")
    message.add_attachment(PROTECTED.read_bytes(), maintype="application", subtype="excel", filename="prices.xlsx")
    return message.as_bytes()


def workbook(total):
    """Return a workbook with a sum, whose value is empty if no program has calculated it."""
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    related = '<Relationships xmlns="{}"><Relationship Id="r" Type="{}/{}" Target="{}"/></Relationships>'
    rows = (
        '<row><c t="inlineStr"><is><t>Berth</t></is></c></row><row><c><v>12</v></c></row>'
        f"<row><c><f>SUM(A2:A2)</f><v>{total}</v></c></row>"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("_rels/.rels", related.format(package, OFFICE, "officeDocument", "xl/workbook.xml"))
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{SHEETS}" xmlns:r="{OFFICE}"><sheets><sheet name="Fees" r:id="r"/></sheets></workbook>',
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels", related.format(package, OFFICE, "worksheet", "worksheets/sheet1.xml")
        )
        archive.writestr(
            "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{SHEETS}"><sheetData>{rows}</sheetData></worksheet>'
        )
    return file.getvalue()


@guards(
    "shared/ingest/parse/extraction.py",
    "unread=reading.unread,",
    "unread=(),",
    means="a document is ready although an attachment or a formula of its file was not read",
)
async def test_uploaded_file_names_its_unread_parts(services, client, provider):
    files = {
        "a.eml": (
            mail_with_protected_workbook(),
            "degraded",
            'the attachment "prices.xlsx" was not read: the file is pro',
        ),
        "a.xlsx": (workbook(""), "degraded", 'sheet "Fees" has 1 formula without a stored value, such as A3 =SUM'),
        "b.xlsx": (workbook("12"), "ready", None),
    }
    ids = {
        name: (await client.post("/v1/documents", files={"file": (name, content)})).json()["id"]
        for name, (content, _, _) in files.items()
    }
    await work(services)

    for name, (_, state, unread) in files.items():
        shown = (await client.get(f"/v1/documents/{ids[name]}")).json()
        assert (shown["state"], shown["text_coverage"], shown["losses"]) == (state, 1.0, [])
        assert [sentence[: len(unread or "")] for sentence in shown["unread"]] == [unread] * (unread is not None)


async def test_next_complete_version_is_ready(lossy, provider):
    await finished(lossy)

    replaced = await finished(lossy, "The harbour opens at seven.")

    assert (replaced.state, replaced.version, replaced.completeness.is_complete) == (DocumentState.READY, 2, True)


@guards(
    "shared/ledger/documents/documents.py",
    "if not pages and not chunks:",
    "if False:",
    means="a retry of a document without dead letters is accepted, and does nothing",
)
async def test_retry_of_losses_is_refused_with_reason(lossy, client, provider):
    document = await finished(lossy)

    refused = await client.post(f"/v1/documents/{document.id}/retry")

    assert (refused.status_code, refused.json()["type"]) == (409, "urn:foreask:problem:conflict")
    assert "no dead chunk or page to retry" in refused.json()["detail"]
    assert (await client.get("/v1/dead-letters")).json()["items"] == []


@guards(
    "shared/ledger/documents/dead_letters.sql",
    "AND v.version = d.version AND v.missing IS NOT NULL)",
    "AND v.version = d.version AND false)",
    means="a document whose dead letters are discarded is ready although words are missing",
)
async def test_discarded_chunk_leaves_losses_degraded(lossy, client, provider):
    document = await Library(lossy).add(TEXT, "a.md")
    await work(lossy, "parse", "index", "generate")
    await index_until_dead(lossy)

    await resolve(client, "discard", document_id=str(document.id))

    after = await lossy.ledger[Documents].get("default", document.id)
    assert (after.state, after.progress.discarded) == (DocumentState.DEGRADED, 1)


@guards(
    "shared/ledger/documents/dead_letters.sql",
    "v.version = d.live_version AND v.missing IS NOT NULL))",
    "v.version = d.live_version AND false))",
    means="a document is ready after a discarded edit, although words of its live version are missing",
)
async def test_discarded_edit_restores_losses(lossy, client, provider):
    document = await finished(lossy)
    await Library(lossy).add("", "a.md")
    await work(lossy, "parse")

    await resolve(client, "discard", document_id=str(document.id))

    after = await lossy.ledger[Documents].get("default", document.id)
    assert (after.state, after.version, after.completeness.losses) == (DocumentState.DEGRADED, 1, MISSING.losses)


async def test_losses_belong_to_load_with_errors(lossy, client, provider):
    job = (await client.post("/v1/jobs", json={"collection": "default"})).json()["id"]
    await client.post("/v1/documents", json={"text": TEXT, "job": job})
    await work(lossy)
    await client.post(f"/v1/jobs/{job}/close")
    await lossy.ledger[Jobs].settle()

    shown = (await client.get(f"/v1/jobs/{job}")).json()
    assert (shown["state"], shown["documents"]) == ("done_with_errors", {"degraded": 1})


@guards(
    "shared/ledger/builds/comparison.sql",
    "AND (EXISTS (SELECT 1 FROM chunks_ended c",
    "AND (true OR EXISTS (SELECT 1 FROM chunks c",
    means="a gate rejects a build because its reader reports words that the live build misses, too",
)
async def test_losses_of_build_do_not_fail_its_gate(lossy, services, provider):
    await Library(services).add(TEXT, "a.md")
    await work(services)
    live, build = await lossy.ledger[Collections].get(*NAME), await filled(lossy)
    await finish_work(lossy)

    compared = await lossy.ledger[BuildComparison].compare(live.id, build.id)

    assert (compared.documents, compared.degraded) == (1, 0)


async def test_retry_with_losses_revives_dead_chunks(lossy, provider):
    document = await Library(lossy).add(TEXT, "a.md")
    await work(lossy, "parse", "index", "generate")
    await index_until_dead(lossy)

    retried = await lossy.ledger[Documents].retry("default", document.id)

    assert retried.state is DocumentState.SEARCHABLE
    await work(lossy)
    assert (await lossy.ledger[Documents].get("default", document.id)).state is DocumentState.DEGRADED
    with pytest.raises(Conflict):
        await lossy.ledger[Documents].retry("default", document.id)
