"""A page of another origin in a browser: it calls the API with a key if its origin is listed, and never without one."""

import json
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.page.conftest import OURS, TIMEOUT, another_api, api_keys

QUESTION = "How many days of leave has everybody?"
CALL = """async ([address, options]) => {
  try {
    const reply = await fetch(address, options);
    let text = "", pieces = 0;
    for (const reader = reply.body.getReader(), decoder = new TextDecoder();; pieces += 1) {
      const { done, value } = await reader.read();
      if (done) return { status: reply.status, request: reply.headers.get("x-request-id"), text, pieces };
      text += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    return { blocked: error.name };
  }
}"""
BLOCKED = {"blocked": "TypeError"}


class _Blank(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Elsewhere</title>")

    def log_message(self, *_):
        """Print nothing."""


@contextmanager
def site():
    """Yield the origin of a site with one empty page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Blank) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def sites(deployment):
    """A listed site, another one, and an API that lists the first."""
    with ExitStack() as stack:
        listed, other = (stack.enter_context(site()) for _ in range(2))
        settings = {"api_keys": api_keys(default=OURS), "api_origins": listed}
        yield listed, other, stack.enter_context(another_api(deployment, "shared", OURS, **settings))


@pytest.fixture
async def call(browser, sites):
    """Return a function that sends a request from a page of an origin, and returns the reply as the page sees it."""
    context = await browser.browser.new_context()
    context.set_default_timeout(TIMEOUT)
    pages = {}

    async def send(origin, path, **options):
        if origin not in pages:
            pages[origin] = await context.new_page()
            await pages[origin].goto(origin)
        return await pages[origin].evaluate(CALL, [f"{str(sites[2].base_url).rstrip('/')}{path}", options])

    yield send
    await context.close()


def request(key=OURS, **more):
    body = {"model": "default", "input": QUESTION} | more
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json", "x-stainless-lang": "js"}
    return {"method": "POST", "body": json.dumps(body), "headers": headers}


async def test_page_of_listed_origin_calls_api_with_key(call, sites):
    listed, _, _ = sites

    whole = await call(listed, "/v1/responses", **request())
    stream = await call(listed, "/v1/responses", **request(stream=True))
    refused = await call(listed, "/v1/responses", **request(key="wrong"))

    assert (whole["status"], len(whole["request"])) == (200, 32)
    assert "[1]" in whole["text"]
    assert "event: response.completed" in stream["text"]
    assert refused["status"] == 401
    assert "invalid_api_key" in refused["text"]


async def test_page_of_other_origin_reads_nothing(call, sites):
    listed, other, _ = sites

    assert await call(other, "/v1/responses", **request()) == BLOCKED
    assert await call(other, "/v1/models", headers={"authorization": f"Bearer {OURS}"}) == BLOCKED
    assert await call(other, "/openapi.json") == BLOCKED
    for path in ("/v1/sign-in", "/ask", "/mcp"):
        assert await call(listed, path) == BLOCKED, path
    assert await call(listed, "/v1/models", credentials="include") == BLOCKED
    assert (await call(listed, "/v1/models"))["status"] == 401
