"""The commands and the client's methods for batches: requests, and the sentences that a user reads."""

import json

import httpx
import pytest
from foreask_client import Batch, Client

from cli import output
from cli.client import CliClient
from cli.commands import batches as batch_commands
from tests.support import replies
from tests.unit.test_cli import foreask

BATCH = replies.batch()
ENDED = "The batch 7 has ended already."


class BatchServer:
    """A server that has one batch, and records the requests."""

    def __init__(self):
        self.requests = []
        self.has_ended = False

    def __call__(self, request):
        self.requests.append((request.method, request.url.path, dict(request.url.params)))
        if request.method == "POST" and self.has_ended:
            return httpx.Response(
                409, json={"type": "urn:foreask:problem:conflict", "title": "Conflict", "detail": ENDED}
            )
        if request.method == "POST":
            return httpx.Response(202, json=BATCH | {"cancelled_at": "2026-10-01T11:00:00Z"})
        return httpx.Response(200, json=BATCH if request.url.path.endswith(BATCH["id"]) else replies.page(BATCH))


@pytest.fixture
def server(monkeypatch):
    server = BatchServer()
    transport = httpx.MockTransport(server)
    monkeypatch.setattr(batch_commands, "client_of", lambda *_: CliClient("http://foreask.test", transport=transport))
    monkeypatch.setenv("COLUMNS", "200")
    return server


def test_batches_are_listed_by_state_and_job(capsys, monkeypatch, server):
    code, out, _ = foreask(capsys, monkeypatch, "batches", "list", "--state", "running", "--job", "1")

    assert code == 0
    assert all(part in out for part in (BATCH["id"], "running", "18,250", "11,400", "66.9 MB", "70 min"))
    assert server.requests == [("GET", "/v1/batches", {"limit": "200", "state": "running", "job": "1"})]


def test_batch_is_shown_with_next_step(capsys, monkeypatch, server):
    code, out, _ = foreask(capsys, monkeypatch, "batches", "show", BATCH["id"])

    assert code == 0
    assert f"provider's batch: {BATCH['provider_id']}" in out
    assert f"jobs: {BATCH['jobs'][0]}" in out
    assert "The provider works on it, for up to 24 hours." in out


def test_batch_is_printed_as_json(capsys, monkeypatch, server):
    code, out, _ = foreask(capsys, monkeypatch, "batches", "show", BATCH["id"], "--json")

    assert code == 0
    assert json.loads(out) == BATCH


@pytest.mark.parametrize(("options", "lane"), [((), "batch"), (("--live",), "bulk")])
def test_batch_is_cancelled_for_a_lane(capsys, monkeypatch, server, options, lane):
    code, out, _ = foreask(capsys, monkeypatch, "batches", "cancel", BATCH["id"], *options)

    assert code == 0
    assert "being cancelled" in out
    assert "results that the provider has by then are stored" in out
    assert server.requests == [("POST", f"/v1/batches/{BATCH['id']}/cancel", {"lane": lane})]


def test_cancellation_of_ended_batch_prints_one_sentence(capsys, monkeypatch, server):
    server.has_ended = True
    code, out, err = foreask(capsys, monkeypatch, "batches", "cancel", "7")

    assert code == 1
    assert out == ""
    assert err.strip().endswith(ENDED)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"state": "planning"}, "Chunks are added"),
        ({"state": "collecting"}, "Its results are being stored."),
        ({"state": "collecting", "cancelled_at": "2026-10-01T11:00:00Z"}, "Its results are being stored."),
        ({"state": "done"}, None),
        ({"state": "failed", "error": "a reason"}, None),
    ],
)
def test_next_step_depends_on_state(fields, sentence):
    following = output.next_of_batch(Batch.model_validate(BATCH | fields))

    assert following is None if sentence is None else following.startswith(sentence)


def test_client_reads_and_cancels_batches():
    server = BatchServer()
    foreask = Client("http://foreask.test", http_transport=httpx.MockTransport(server))

    assert [batch.id for batch in foreask.batches(job="1")] == [BATCH["id"]]
    assert foreask.batch(BATCH["id"]).done == 11_400
    assert foreask.cancel_batch("a/b", lane="bulk").cancelled_at is not None
    assert [request[1] for request in server.requests] == [
        "/v1/batches",
        f"/v1/batches/{BATCH['id']}",
        "/v1/batches/a/b/cancel",  # httpx decodes %2F
    ]
