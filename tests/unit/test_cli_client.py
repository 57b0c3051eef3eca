"""Requests of the command line and its handling of replies."""

import json

import httpx
import pytest
from foreask_client import Event
from foreask_client.requests import Request

from cli.client import CliClient
from cli.commands.documents import _declare
from shared.domain.errors import InvalidInput, NotFound, TooLarge, Unauthorized, Unavailable
from shared.process.network.certificates import trust
from tests.support import replies

URL = "http://foreask.test"
EVENTS = {"content-type": "text/event-stream"}


class RecordingServer:
    """A server that sends the given replies, repeats the last one, and records the requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(*answers, key=None):
    server = RecordingServer(*answers)
    return CliClient(URL, key, transport=httpx.MockTransport(server)), server


def problem(status, detail="Because.", **headers):
    return httpx.Response(status, json={"detail": detail, "status": status}, headers=headers)


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    seconds = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def test_upload_sends_file_collection_lane_and_key(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(httpx.Response(202, json=replies.document(id="1")), key="secret")

    assert foreask.upload(path, external_id="docs/a.md", collection="handbook", lane="bulk").id == "1"

    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer secret"
    for part in (b'name="external_id"\r\n\r\ndocs/a.md', b"handbook", b"bulk", b'filename="a.md"', b"hello"):
        assert part in request.content


def test_upload_retry_honours_retry_after_and_resends_file(tmp_path, pauses):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(
        problem(503, **{"retry-after": "7"}), httpx.ConnectError("no"), httpx.Response(202, json=replies.document())
    )

    foreask.upload(path)

    assert len(server.requests) == 3
    assert b"hello" in server.requests[-1].content
    assert pauses[0] >= 7


def test_rejected_upload_is_not_retried(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(problem(413, "Too large."))

    with pytest.raises(TooLarge, match=r"Too large\."):
        foreask.upload(path)

    assert len(server.requests) == 1


def test_upload_fails_after_five_attempts(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(problem(503))

    with pytest.raises(Unavailable):
        foreask.upload(path)

    assert len(server.requests) == 5


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.document("1"),
        lambda client: list(client.documents()),
        lambda client: client.builds("default"),
        lambda client: client.estimate({}),
    ],
)
def test_request_without_upload_is_sent_once(ask):
    foreask, server = client(problem(503))

    with pytest.raises(Unavailable):
        ask(foreask)

    assert len(server.requests) == 1


def test_upload_over_daily_limit_is_not_retried(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(problem(429, **{"retry-after": "7200"}))

    with pytest.raises(Unavailable):
        foreask.upload(path)

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, InvalidInput),
        (404, NotFound),
        (413, TooLarge),
        (422, InvalidInput),
        (500, Unavailable),
    ],
)
def test_problem_details_become_error_with_same_sentence(status, error):
    foreask, _ = client(problem(status, "This is why."))

    with pytest.raises(error, match=r"This is why\."):
        foreask.document("1")


def test_unauthorized_without_key_names_key_option():
    with pytest.raises(Unauthorized, match="FOREASK_API_KEY"):
        client(problem(401))[0].me()
    with pytest.raises(Unauthorized, match=r"^Because\.$"):
        client(problem(401), key="wrong")[0].me()


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (httpx.ConnectError("refused"), "No server at http://foreask.test: start one with `foreask up`"),
        (httpx.ReadTimeout("slow"), "did not answer in time"),
        (httpx.RemoteProtocolError("broken"), "broke"),
        (httpx.Response(200, text="<html>"), "does not answer like a foreask server"),
    ],
)
def test_connection_failure_becomes_one_sentence(failure, sentence):
    with pytest.raises(Unavailable, match=sentence):
        client(failure)[0].me()


@pytest.mark.parametrize("url", ["foreask", "ftp://foreask", "http://a:b:c"])
def test_invalid_url_is_rejected(url):
    with pytest.raises(InvalidInput, match="is not a URL"):
        CliClient(url)


def test_documents_are_read_page_by_page():
    pages = [replies.page(replies.document(id="1"), next_cursor="next"), replies.page(replies.document(id="2"))]
    foreask, server = client(*(httpx.Response(200, json=page) for page in pages))

    assert [document.id for document in foreask.documents(collection="handbook", state="failed")] == ["1", "2"]

    first, second = (dict(request.url.params) for request in server.requests)
    assert first == {"collection": "handbook", "state": "failed", "limit": "200"}
    assert second == first | {"cursor": "next"}


def test_health_with_status_503_is_returned():
    foreask, _ = client(httpx.Response(503, json={"status": "unavailable", "components": {"ledger": "down"}}))
    assert foreask.health()["components"] == {"ledger": "down"}


def test_query_events_are_read_from_stream():
    stream = 'event: token\ndata: {"text": "Yes"}\n\n: heartbeat\n\nevent: done\ndata: {"form": "extractive"}\n\n'
    foreask, server = client(httpx.Response(200, text=stream, headers=EVENTS))

    events = list(foreask.query_events("Is it?", collection="handbook", top_k=3))

    assert events == [Event(name="token", data={"text": "Yes"}), Event(name="done", data={"form": "extractive"})]
    body = {"question": "Is it?", "collection": "handbook", "top_k": 3, "stream": True}
    assert json.loads(server.requests[0].content) == body


def test_rejected_question_raises_its_sentence():
    with pytest.raises(InvalidInput, match="too long"):
        list(client(problem(422, "It is too long."))[0].query_events("?"))


@pytest.mark.parametrize("separator", ["\u0085", "\u2028", "\u2029", "\v", "\f", "\x1c"])
def test_unicode_separator_in_event_does_not_split_it(separator):
    text = f"first{separator}second"
    data = json.dumps({"text": text}, ensure_ascii=False).encode()
    foreask, _ = client(httpx.Response(200, content=b"event: token\ndata: " + data + b"\n\n", headers=EVENTS))

    assert list(foreask.query_events("Is it?", collection="handbook")) == [Event(name="token", data={"text": text})]


def test_declare_keeps_other_options_of_collection():
    options = {"questions_per_chunk": 4, "prompt": None, "filterable": {"department": "keyword"}}
    declared = {"year": "integer"}
    foreask, server = client(httpx.Response(200, json=replies.collection(options=options)))
    _declare(foreask, "handbook", declared)

    assert [request.method for request in server.requests] == ["GET", "PUT"]
    assert json.loads(server.requests[1].content) == options | {"filterable": declared}

    foreask, server = client(problem(404), httpx.Response(201, json=replies.collection()))
    _declare(foreask, "new", declared)
    assert json.loads(server.requests[1].content) == {"filterable": declared}


def test_missing_file_of_certificates_is_named(monkeypatch):
    monkeypatch.setenv("FOREASK_CA_FILE", "/missing/ca.pem")
    try:
        with pytest.raises(InvalidInput, match="file of certificates cannot be read: check FOREASK_CA_FILE"):
            CliClient("https://foreask.example")
    finally:
        trust(None)


def test_proxy_that_fails_is_not_a_missing_server(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("http_proxy", raising=False)

    with (
        CliClient("http://foreask.example") as client,
        pytest.raises(Unavailable, match="over the proxy that the environment"),
    ):
        client.send(Request("GET", "/v1/status", lambda reply: reply.json()))
