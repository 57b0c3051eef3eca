"""The page's files over HTTP, without a browser."""

import gzip
import re

from fastapi import FastAPI

from api.http import page as page_module
from api.http.page import ADDRESSES, MISSING, Page
from tests.support.api import calling
from tests.support.planted import guards


async def test_page_addresses_return_html_and_others_404(client):
    for path in (
        address.format(document_id="a", evaluation_id="b", name="c", answer_id="d", query_id="e", erasure_id="f")
        for address in ADDRESSES
    ):
        reply = await client.get(path)
        assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["cache-control"] == "no-cache"
    for path in ("/v1/nothing", "/documents/a/b", "/page/0/app.js"):
        reply = await client.get(path)
        assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json"), path


async def test_browser_sees_page_at_unknown_address(client):
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nothing", "/documents/", "/documents/a/b", "/ui/ask"):
        reply = await client.get(path, headers=browser)
        assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
        assert "routes/missing.js" in reply.text
        assert "default-src 'none'" in reply.headers["content-security-policy"]
    for method, path, status in (("GET", "/v1/nothing", 404), ("GET", "/v1/retrieve", 405), ("POST", "/nothing", 404)):
        reply = await client.request(method, path, headers=browser)
        assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json"), path


async def test_page_assets_exist_and_are_cached_forever(client):
    document = (await client.get("/")).text
    files = re.findall(r'(?:href|src)="([^"]+)"', document)
    assert len(files) > 10
    size = len(gzip.compress(document.encode()))
    for file in files:
        reply = await client.get(file, headers={"accept-encoding": "gzip"})
        assert reply.status_code == 200, file
        assert "immutable" in reply.headers["cache-control"]
        assert reply.headers["content-encoding"] == "gzip"
        size += int(reply.headers["content-length"])
        assert (await client.get(file, headers={"accept-encoding": "identity"})).content == reply.content
    assert size > 0


def test_screen_modules_are_preloaded():
    page = Page()
    modules = {name for name in page.files if name.endswith(".js")}
    preloaded = {name for screen in (*ADDRESSES.values(), MISSING) for name in page.modules(screen)}
    # These are loaded when they are needed; the upload modules, after the list of documents is shown.
    assert modules - preloaded == {
        *("parts/submission.js", "parts/estimate.js", "parts/uploads.js", "parts/palette.js", "parts/key.js"),
        *("parts/markdown.js", "vendor/marked.js", "parts/cited.js"),
        *("parts/original.js", "parts/pdf.js", "parts/pdf-text.js", "parts/sheet.js"),
        *("vendor/pdfjs/jbig2_nowasm_fallback.js", "vendor/pdfjs/openjpeg_nowasm_fallback.js"),
        *("parts/conversation-list.js", "parts/server-conversations.js", "parts/transcript.js"),
        *("parts/sharing.js", "parts/sample.js", "parts/text-search.js", "parts/load.js"),
        *("parts/load-progress.js", "parts/drop.js", "parts/readers.js", "parts/view-banner.js"),
        *("parts/collection-dialogs.js", "parts/labelling.js"),
        *("words/de.js", "words/zh.js"),
    }
    assert 'import("../parts/submission.js")' in page.files["routes/documents.js"].content.decode()
    assert "routes/work.js" not in page.modules("ask")
    assert "parts/format.js" in page.modules("ask")
    app = page.files["app.js"].content.decode()
    assert set(re.findall(r'import\("\./routes/([a-z_-]+)\.js"\)', app)) == {*ADDRESSES.values(), MISSING}


@guards(
    "api/http/page.py",
    "_WORKER_POLICY = \"default-src 'none'; script-src 'self'\"",
    "_WORKER_POLICY = \"default-src 'self'\"",
    means="the worker that draws PDFs may send requests",
)
async def test_worker_of_pdfs_reaches_no_address(client):
    page, files = await client.get("/documents/a"), Page()
    assert "worker-src 'self'" in page.headers["content-security-policy"]
    for name in ("pdf.min.mjs", "pdf.worker.min.mjs"):
        address = f"{files.address}/vendor/pdfjs/{name}"
        replies = [await client.get(address, headers={"accept-encoding": way}) for way in ("gzip", "identity")]
        for reply in replies:
            assert reply.headers["content-security-policy"] == "default-src 'none'; script-src 'self'"
            assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
            assert reply.headers["x-content-type-options"] == "nosniff"
        assert replies[0].content == replies[1].content
        assert b"Licensed under the Apache License" in replies[0].content[:2_000]


def words_in(file):
    return set(re.findall(r'^  "((?:[^"\\\\]|\\\\.)*)":', file.content.decode(), re.MULTILINE))


@guards(
    "api/http/page.py",
    "first | self._imported_later(imported(first, self._sources))",
    "first",
    means="parts of a screen that are loaded later have no words",
)
async def test_catalogue_has_words_of_first_screen(client):
    page = Page()
    every, of_documents = words_in(page.file("words/de.js")), words_in(page.file("words/de.js", "documents"))
    assert {"Skip to content", "Name", "Remove {0}", "Screen or document"} <= of_documents < every
    assert "Budgets" not in of_documents
    assert (
        set().union(*(words_in(page.file("words/de.js", screen)) for screen in (*ADDRESSES.values(), MISSING))) == every
    )
    for query, expected in (("?documents", of_documents), ("", every), ("?nothing", every)):
        reply = await client.get(f"{page.address}/words/de.js{query}")
        assert (reply.status_code, words_in(reply)) == (200, expected)


def test_changed_page_content_changes_its_address(tmp_path):
    (tmp_path / "index.html").write_text("{files} {head}")
    (tmp_path / "app.js").write_text("1")
    first = Page(tmp_path).address
    assert Page(tmp_path).address == first
    (tmp_path / "app.js").write_text("2")
    assert Page(tmp_path).address != first


def test_proxy_path_prefixes_every_file():
    assert 'src="/docs-of-ours/page/' in Page().document("/docs-of-ours", "ask")


def test_page_modules_never_build_html_from_text():
    for name, file in Page().files.items():
        if name.startswith("vendor/"):
            continue
        assert not re.search(
            rb"innerHTML|outerHTML|insertAdjacentHTML|unsafeHTML|\beval\(|document\.write", file.content
        ), name


async def test_page_can_be_disabled(settings, services):
    async with calling(settings.model_copy(update={"web_ui": False}), services) as client:
        assert (await client.get("/")).status_code == 404


@guards(
    "api/http/page.py",
    "if address == _GALLERY and not _IS_CHECKOUT:",
    "if address is None:",
    means="users find a screen for developers",
)
def test_gallery_is_served_from_checkouts_only(monkeypatch):
    for is_checkout in (True, False):
        monkeypatch.setattr(page_module, "_IS_CHECKOUT", is_checkout)
        app = FastAPI()
        page_module.install(app)
        assert ("/gallery" in {route.path for route in app.router.routes}) == is_checkout
