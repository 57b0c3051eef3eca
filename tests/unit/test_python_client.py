"""Requests and replies of the Python client: retries, errors, keys and pages."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from foreask_client import ApiError, AsyncClient, Client

CLIENT = Path(__file__).parents[2] / "clients/python"
URL = "http://foreask.test"
ERASURE = {
    "id": "1",
    "collection": "a/b",
    "document_id": None,
    "state": "running",
    "documents_left": 1,
    "deleted": {},
    "started_at": "2026-10-01T09:00:00Z",
    "finished_at": None,
    "of_a_newer_server": 7,
}
COLLECTION = {"name": "handbook", "embedding_model": "e5", "options": {}, "created_at": "2026-10-01T09:00:00Z"}


class RecordingServer:
    """A server that sends the given replies, repeats the last one, and records the requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def __call__(self, request):
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(*answers, key=None):
    server = RecordingServer(*answers)
    return Client(URL, key, http_transport=httpx.MockTransport(server)), server


def problem(status, detail="Because.", **headers):
    body = {"type": "urn:foreask:problem:not-found", "title": "No", "status": status, "detail": detail}
    return httpx.Response(status, json=body, headers={"x-request-id": "r-1"} | headers)


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    seconds = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def test_repeatable_request_is_retried_after_retry_after(pauses):
    foreask, server = client(problem(503, **{"retry-after": "7"}), httpx.ConnectError("no"), httpx.Response(204))

    foreask.delete_document("1")

    assert len(server.requests) == 3
    assert pauses[0] >= 7


def test_request_with_side_effect_is_sent_once():
    foreask, server = client(problem(503))

    with pytest.raises(ApiError):
        foreask.create_key("website", ["ask"])

    assert len(server.requests) == 1


@pytest.mark.parametrize("refusal", [problem(422), problem(429, **{"retry-after": "7200"})])
def test_rejected_request_is_not_retried(refusal):
    foreask, server = client(refusal)

    with pytest.raises(ApiError):
        foreask.document("1")

    assert len(server.requests) == 1


def test_error_has_fields_of_problem_details():
    foreask, _ = client(problem(404, "There is no such document."))

    with pytest.raises(ApiError) as raised:
        foreask.document("1")

    error = raised.value
    assert (error.status, error.type, error.detail) == (404, "not-found", "There is no such document.")
    assert error.request_id == "r-1"
    assert str(error) == "There is no such document. (status 404)"


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (httpx.ConnectError("refused"), "No server at http://foreask.test"),
        (httpx.ReadTimeout("slow"), "did not answer in time"),
        (httpx.RemoteProtocolError("broken"), "broke"),
        (httpx.Response(200, text="<html>"), "does not answer like a foreask server"),
    ],
)
def test_connection_failure_raises_error_without_status(failure, sentence):
    with pytest.raises(ApiError, match=sentence) as raised:
        client(failure)[0].document("1")
    assert raised.value.status is None


@pytest.mark.parametrize("url", ["foreask", "ftp://foreask", "http://a:b:c"])
def test_invalid_url_is_rejected(url):
    with pytest.raises(ValueError, match="is not a URL"):
        Client(url)


def test_upload_to_store_resends_complete_file_without_key(tmp_path):
    path = tmp_path / "a.md"
    path.write_bytes(b"a" * 100_000)
    progress = []
    store = {
        "upload": "u1",
        "url": "http://store.test/u1?sig=1",
        "method": "PUT",
        "headers": {"x-a": "1"},
        "expires_in_seconds": 9,
    }
    foreask, server = client(
        httpx.Response(201, json=store), problem(503), httpx.Response(200), problem(422), key="secret"
    )

    with pytest.raises(ApiError):  # the last request of the three
        foreask.upload_to_store(path, progress=lambda *counts: progress.append(counts))

    offer, failed, put, submission = server.requests
    assert offer.headers["authorization"] == submission.headers["authorization"] == "Bearer secret"
    assert json.loads(offer.content) == {"size_bytes": 100_000}
    assert "authorization" not in put.headers
    assert put.headers["x-a"] == "1"
    assert failed.content == put.content == path.read_bytes()
    assert put.headers["content-length"] == "100000"
    assert progress == [(65536, 100_000), (100_000, 100_000)] * 2
    assert json.loads(submission.content) == {"collection": "default", "upload": "u1", "filename": "a.md"}


def test_unreachable_object_store_is_named_in_error(tmp_path):
    (tmp_path / "a.md").write_bytes(b"a")
    store = {"upload": "u1", "url": "http://store.test:9000/u1?sig=1", "method": "PUT", "headers": {}}
    offer = httpx.Response(201, json=store | {"expires_in_seconds": 9})
    foreask, _ = client(offer, httpx.ConnectError("refused"))

    with pytest.raises(ApiError) as raised:
        foreask.upload_to_store(tmp_path / "a.md")

    assert raised.value.detail == "No server at http://store.test:9000."


@pytest.mark.parametrize("page", [{}, {"items": [{"no": "collection"}]}, []])
def test_invalid_list_reply_raises_error(page):
    foreask, _ = client(httpx.Response(200, json=page))

    with pytest.raises(ApiError, match="does not answer like a foreask server"):
        next(foreask.collections())


def test_key_is_not_in_any_repr():
    foreask, _ = client(problem(401), key="secret")

    with pytest.raises(ApiError) as raised:
        foreask.me()

    shown = (repr(foreask), repr(vars(foreask)), repr(raised.value), str(raised.value))
    assert not any("secret" in text for text in shown)


def test_list_is_paged_and_names_are_quoted():
    foreask, server = client(
        httpx.Response(200, json={"items": [{"name": "a"}], "next_cursor": "n"}),
        httpx.Response(200, json={"items": [{"name": "b"}], "next_cursor": None}),
        httpx.Response(202, json=ERASURE),
    )

    assert [tenant["name"] for tenant in foreask.tenants()] == ["a", "b"]
    erasure = foreask.delete_collection("a/b")

    assert [dict(request.url.params) for request in server.requests[:2]] == [
        {"limit": "200"},
        {"limit": "200", "cursor": "n"},
    ]
    assert server.requests[2].url.raw_path == b"/v1/collections/a%2Fb"
    assert erasure.model_extra == {"of_a_newer_server": 7}


EVENTS = {"content-type": "text/event-stream"}


@pytest.mark.parametrize("separator", ["\u0085", "\u2028", "\v"])
def test_error_event_in_stream_raises_its_problem(separator):
    data = json.dumps({"text": f"a{separator}b"}, ensure_ascii=False)
    error = json.dumps(
        {"type": "urn:foreask:problem:unavailable", "status": 503, "detail": "The model is unavailable."}
    )
    stream = f"event: token\ndata: {data}\n\n: heartbeat\n\nevent: error\ndata: {error}\n\n"
    foreask, _ = client(httpx.Response(200, content=stream.encode(), headers=EVENTS))

    events = foreask.query_events("Is it?")

    assert next(events).data == {"text": f"a{separator}b"}
    with pytest.raises(ApiError, match="The model is unavailable") as raised:
        next(events)
    assert (raised.value.status, raised.value.type) == (503, "unavailable")


async def test_async_client_retries_with_key(monkeypatch):
    server = RecordingServer(problem(503), httpx.Response(202, json=ERASURE))
    monkeypatch.setattr("foreask_client.transport.seconds_until_next", lambda *_: 0.0)
    async with AsyncClient(URL, "secret", http_transport=httpx.MockTransport(server)) as foreask:
        erasure = await foreask.delete_collection("a/b")

    assert erasure.documents_left == 1
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer secret"] * 2


def test_client_acts_for_several_persons_over_one_connection():
    foreask, server = client(httpx.Response(404, json={}), key="secret")
    ada = foreask.acting_for("ada@example.org", ["legal", "Zürich, Nord"])

    for each in (foreask, ada, ada.acting_for("eve"), ada.acting_for(None)):
        with pytest.raises(ApiError):
            each.document("1")
    with pytest.raises(ValueError, match="there is no user"):
        foreask.acting_for(None, ["legal"])

    named = [(r.headers.get("x-foreask-user"), r.headers.get("x-foreask-groups")) for r in server.requests]
    assert named == [(None, None), ("ada@example.org", "legal,Z%C3%BCrich%2C%20Nord"), ("eve", ""), (None, None)]
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer secret"}
    assert ada._http is foreask._http


def test_client_is_closed_when_it_is_collected():
    foreask, _ = client(httpx.Response(200))
    http = foreask._http
    ada = foreask.acting_for("ada")
    del foreask
    gc.collect()
    assert not http.is_closed  # the other client still uses it

    closed = []
    http._transport.close = lambda: closed.append(True)
    del ada, http
    gc.collect()
    assert closed == [True]


def test_html_reply_to_stream_raises_error():
    foreask, _ = client(httpx.Response(200, html="<p>Please log in.</p>"))

    with pytest.raises(ApiError, match="does not send events like a foreask server"):
        next(foreask.query_events("How much leave?"))


def test_upload_with_unknown_field_is_rejected():
    foreask, server = client(problem(422))

    with pytest.raises(TypeError, match="'metdata'"):
        foreask.upload_text("Tea is in the kitchen.", metdata={})

    assert server.requests == []


def test_collection_of_newer_server_is_read():
    options = {"questions_per_chunk": "a_new_word", "a_new_option": 1}
    foreask, _ = client(httpx.Response(200, json=COLLECTION | {"options": options, "documents": {"a_new_state": 2}}))

    collection = foreask.collection("handbook")

    assert (collection.options.questions_per_chunk, collection.documents) == ("a_new_word", {"a_new_state": 2})
    assert collection.options.model_extra == {"a_new_option": 1}


def test_collection_of_older_server_is_read():
    foreask, _ = client(httpx.Response(200, json=COLLECTION))

    collection = foreask.collection("handbook")

    assert (collection.points, collection.languages, collection.options.filterable) == (None, [], {})


@pytest.mark.parametrize("generator", ["generate_models.py", "generate_sync.py"])
def test_generated_files_of_client_are_current(generator):
    check = subprocess.run([sys.executable, CLIENT / generator, "--check"], capture_output=True, text=True, check=False)

    assert check.returncode == 0, check.stdout + check.stderr
