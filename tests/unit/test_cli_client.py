"""What the command line says to the API, and what it makes of the answers."""

import json

import httpx
import pytest

from cli.client import Client, Event
from shared.domain.errors import InvalidInput, NotFound, TooLarge, Unauthorized, Unavailable

URL = "http://foreask.test"
EVENTS = {"content-type": "text/event-stream"}


class RecordingServer:
    """Answers from a list, the last answer for ever, and records the requests."""

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
    return Client(URL, key, transport=httpx.MockTransport(server)), server


def problem(status, detail="Because.", **headers):
    return httpx.Response(status, json={"detail": detail, "status": status}, headers=headers)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    waits = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waits.append)
    return waits


def test_upload_sends_file_collection_and_key(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(httpx.Response(202, json={"document_id": "1"}), key="secret")

    assert foreask.upload(path, "docs/a.md", "handbook", "bulk") == {"document_id": "1"}

    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer secret"
    for part in (b'name="external_id"\r\n\r\ndocs/a.md', b"handbook", b"bulk", b'filename="a.md"', b"hello"):
        assert part in request.content


def test_upload_retries_whole_file_after_server_delay(tmp_path, no_waiting):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(
        problem(503, **{"retry-after": "7"}), httpx.ConnectError("no"), httpx.Response(202, json={})
    )

    foreask.upload(path, "a.md", "default")

    assert len(server.requests) == 3
    assert b"hello" in server.requests[-1].content
    assert no_waiting[0] >= 7


def test_rejected_upload_is_not_resent(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(problem(413, "Too large."))

    with pytest.raises(TooLarge, match=r"Too large\."):
        foreask.upload(path, "a.md", "default")

    assert len(server.requests) == 1


def test_an_upload_gives_up_in_the_end(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(problem(503))

    with pytest.raises(Unavailable):
        foreask.upload(path, "a.md", "default")

    assert len(server.requests) == 5


@pytest.mark.parametrize("ask", [lambda f: f.document("1"), lambda f: f.collections(), lambda f: f.builds("default")])
def test_nonupload_request_is_sent_once(ask):
    foreask, server = client(problem(503))

    with pytest.raises(Unavailable):
        ask(foreask)

    assert len(server.requests) == 1


def test_upload_over_daily_limit_is_not_resent(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("hello")
    foreask, server = client(problem(429, **{"retry-after": "7200"}))

    with pytest.raises(Unavailable):
        foreask.upload(path, "a.md", "default")

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
def test_a_problem_becomes_its_sentence(status, error):
    foreask, _ = client(problem(status, "This is why."))

    with pytest.raises(error, match=r"This is why\."):
        foreask.document("1")


def test_missing_key_explains_remedy():
    with pytest.raises(Unauthorized, match="FOREASK_API_KEY"):
        client(problem(401))[0].collections()
    with pytest.raises(Unauthorized, match=r"^Because\.$"):
        client(problem(401), key="wrong")[0].collections()


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (httpx.ConnectError("refused"), "No server at http://foreask.test: start one with `foreask up`"),
        (httpx.ReadTimeout("slow"), "did not answer in time"),
        (httpx.RemoteProtocolError("broken"), "broke"),
        (httpx.Response(200, text="<html>"), "does not answer like a foreask server"),
    ],
)
def test_missing_server_prints_one_sentence(failure, sentence):
    with pytest.raises(Unavailable, match=sentence):
        client(failure)[0].collections()


@pytest.mark.parametrize("url", ["foreask", "ftp://foreask", "http://a:b:c"])
def test_invalid_url_is_reported(url):
    with pytest.raises(InvalidInput, match="is not a URL"), Client(url) as foreask:
        foreask.collections()


def test_documents_are_read_page_by_page():
    pages = [{"items": [{"id": "1"}], "next_cursor": "next"}, {"items": [{"id": "2"}], "next_cursor": None}]
    foreask, server = client(*(httpx.Response(200, json=page) for page in pages))

    assert [document["id"] for document in foreask.documents("handbook", "failed")] == ["1", "2"]

    first, second = (dict(request.url.params) for request in server.requests)
    assert first == {"collection": "handbook", "state": "failed", "limit": "200"}
    assert second == first | {"cursor": "next"}


def test_bad_health_is_still_an_answer():
    foreask, _ = client(httpx.Response(503, json={"status": "unavailable", "components": {"ledger": "down"}}))
    assert foreask.health()["components"] == {"ledger": "down"}


def test_an_answer_is_read_as_it_comes():
    stream = 'event: token\ndata: {"text": "Yes"}\n\n: heartbeat\n\nevent: done\ndata: {"form": "extractive"}\n\n'
    foreask, server = client(httpx.Response(200, text=stream, headers=EVENTS))

    found = list(foreask.query_events("Is it?", "handbook", top_k=3))

    assert found == [Event(name="token", data={"text": "Yes"}), Event(name="done", data={"form": "extractive"})]
    body = {"question": "Is it?", "collection": "handbook", "top_k": 3, "stream": True}
    assert json.loads(server.requests[0].content) == body


def test_a_refused_question_is_its_sentence():
    with pytest.raises(InvalidInput, match="too long"):
        list(client(problem(422, "It is too long."))[0].query_events("?", "default"))


@pytest.mark.parametrize("separator", ["\u0085", "\u2028", "\u2029", "\v", "\f", "\x1c"])
def test_unicode_separator_in_text_ends_no_line(separator):
    text = f"first{separator}second"
    data = json.dumps({"text": text}, ensure_ascii=False).encode()
    foreask, _ = client(httpx.Response(200, content=b"event: token\ndata: " + data + b"\n\n", headers=EVENTS))

    assert list(foreask.query_events("Is it?", "handbook")) == [Event(name="token", data={"text": text})]


def test_declaration_keeps_other_collection_options():
    options = {"questions_per_chunk": 4, "prompt": None, "filterable": {"department": "keyword"}}
    declared = {"year": "integer"}
    foreask, server = client(httpx.Response(200, json={"options": options}))
    foreask.declare("handbook", declared)

    assert [request.method for request in server.requests] == ["GET", "PUT"]
    assert json.loads(server.requests[1].content) == options | {"filterable": declared}

    foreask, server = client(problem(404), httpx.Response(201, json={"options": {}}))
    foreask.declare("new", declared)
    assert json.loads(server.requests[1].content) == {"filterable": declared}
