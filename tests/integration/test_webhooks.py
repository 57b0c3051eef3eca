"""Webhooks receive signed events, are retried, and are never sent to private addresses."""

import asyncio
import base64
import hashlib
import hmac
import ssl
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import asyncpg
import httpx
import orjson
import pytest
import time_machine
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from features.verification.ledger import Verifications
from features.webhooks.addresses import parse, resolve
from features.webhooks.delivery import Deliverer
from features.webhooks.domain import DeliveryAttempt
from features.webhooks.ledger import PAUSES, Webhooks
from features.webhooks.sender import Sender
from features.webhooks.signature import draw_secret
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.errors import InvalidInput
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.finishing import Finishing
from shared.outside import addresses
from shared.outside.addresses import ForbiddenAddress
from tests.conftest import Library
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.erasing import clean
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "external_id": "leave.md", "questions": []}
EMPTY = {"content_base64": base64.b64encode(b" \n").decode(), "filename": "empty.txt"}


@dataclass
class Receiver:
    """A server on loopback that records its requests."""

    url: str = ""
    status: int = 204
    body: bytes = b""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def take(self, request):
        self.received.append(({name.lower(): value for name, value in request.headers.items()}, await request.read()))
        headers = {"location": self.url} if 300 <= self.status < 400 else {}
        return web.Response(status=self.status, body=self.body, headers=headers)


@asynccontextmanager
async def receiving(certificate=None):
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/hook", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    encrypted = None
    if certificate is not None:
        encrypted = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        encrypted.load_cert_chain(certificate)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=encrypted)
    await site.start()
    receiver.url = f"{'https' if encrypted else 'http'}://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()


@pytest.fixture
async def receiver():
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
def certificate(tmp_path):
    """Return a file with a certificate of hook.invalid and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hook.invalid")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hook.invalid")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = tmp_path / "hook.pem"
    file.write_bytes(private + made.public_bytes(Encoding.PEM))
    return file


@pytest.fixture
async def open_client(services, settings):
    """Yield a client of an API that allows webhooks on loopback."""
    async with calling(settings.model_copy(update={"webhooks_private_networks": True}), services) as client:
        yield client


@pytest.fixture
async def deliverer(services):
    sender = Sender(private=True, timeout=timedelta(seconds=5))
    yield Deliverer(services.ledger[Webhooks], lambda: sender)
    await sender.aclose()


async def make(client, url, **more):
    reply = await client.post("/v1/webhooks", json={"url": url} | more)
    assert reply.status_code == 201, reply.text
    return reply.json()


async def delivered_to(client, hook):
    return (await client.get(f"/v1/webhooks/{hook['id']}/deliveries")).json()["items"]


async def make_due(services):
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE webhook_deliveries SET due_at = now() WHERE due_at IS NOT NULL"))


def verified(secret, headers, body):
    """Check a message's signature as the standard describes, and return the decoded body."""
    key = base64.b64decode(secret.split("_", 1)[1])
    assert 24 <= len(key) <= 64
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    return orjson.loads(body)


class RaisingSender(Sender):
    """A sender with a bug that one webhook's address reveals."""

    async def send(self, due):
        if "odd" in due.url:
            raise UnicodeError("label too long")
        return await super().send(due)


async def test_failing_message_does_not_delay_other_messages(open_client, services, receiver):
    hooks = [await make(open_client, f"{receiver.url}?{name}", events=["document.ready"]) for name in ("odd", "even")]
    await open_client.post("/v1/documents", json=LEAVE)
    await work(services, "parse", "index")
    await services.ledger[Finishing].find_ended()
    sender = RaisingSender(private=True, timeout=timedelta(seconds=5))

    assert await Deliverer(services.ledger[Webhooks], lambda: sender).deliver()

    await sender.aclose()
    (odd,), (even,) = [await delivered_to(open_client, hook) for hook in hooks]
    assert (even["state"], even["status"]) == ("delivered", 204)
    assert (odd["state"], odd["attempts"], odd["error"]) == ("waiting", 1, "not sent: UnicodeError")


async def test_finished_document_sends_signed_message(open_client, services, deliverer, receiver):
    hook = await make(open_client, receiver.url)
    failures = await make(open_client, f"{receiver.url}?failed", events=["document.failed"])
    taken = (await open_client.post("/v1/documents", json=LEAVE)).json()
    await open_client.post("/v1/documents", json=EMPTY)
    assert not await deliverer.deliver()
    await work(services, "parse", "index")
    await services.ledger[Finishing].find_ended()
    await open_client.delete(f"/v1/documents/{taken['id']}")

    assert await deliverer.deliver()
    assert not await deliverer.deliver()

    received_events = {}
    for headers, body in receiver.received:
        secrets = [made["secret"] for made in (hook, failures)]
        for secret in secrets:
            try:
                event = verified(secret, headers, body)
            except AssertionError:
                continue
            received_events.setdefault(secret, []).append((event["type"], event["data"]["external_id"]))
            assert headers["content-type"] == "application/json"
    assert sorted(received_events[hook["secret"]]) == [
        ("document.deleted", "leave.md"),
        ("document.failed", "empty.txt"),
        ("document.ready", "leave.md"),
    ]
    assert received_events[failures["secret"]] == [("document.failed", "empty.txt")]
    deliveries = await delivered_to(open_client, hook)
    assert {(d["state"], d["status"], d["attempts"]) for d in deliveries} == {("delivered", 204, 1)}
    assert {headers["webhook-id"] for headers, _ in receiver.received} >= {d["message_id"] for d in deliveries}
    assert "secret" not in (await open_client.get("/v1/webhooks")).text


@guards(
    "features/webhooks/sender.py",
    "int(due.claimed_at.timestamp())",
    "int(asyncio.get_running_loop().time())",
    means="receivers reject messages of a scheduler whose clock is wrong",
)
@pytest.mark.parametrize("minutes", [-6, 6])
async def test_message_has_time_of_ledger(open_client, services, deliverer, receiver, minutes):
    """Receivers tolerate five minutes."""
    hook = await make(open_client, receiver.url)
    await open_client.post("/v1/documents", json=EMPTY)
    await work(services, "parse")

    with time_machine.travel(timedelta(minutes=minutes)):
        assert await deliverer.deliver()

    ((headers, body),) = receiver.received
    assert verified(hook["secret"], headers, body)["type"] == "document.failed"


async def test_failed_message_keeps_id_in_retries_until_abandoned(open_client, services, deliverer, receiver):
    hook = await make(open_client, receiver.url)
    await open_client.post("/v1/documents", json=EMPTY)
    await work(services, "parse")
    receiver.status, receiver.body = 503, b"\0" * 5_000

    await deliverer.deliver()
    (delivery,) = await delivered_to(open_client, hook)
    assert (delivery["state"], delivery["status"], delivery["attempts"]) == ("waiting", 503, 1)
    assert len(delivery["response"]) == 1_024
    assert not await deliverer.deliver()  # the retry is not due yet
    receiver.status, receiver.url = 302, f"{receiver.url}/elsewhere"
    for _ in PAUSES:
        await make_due(services)
        assert await deliverer.deliver()
    (delivery,) = await delivered_to(open_client, hook)
    assert (delivery["state"], delivery["error"]) == ("failed", "the reply has status 302")
    assert len(receiver.received) == len(PAUSES) + 1
    assert len({(headers["webhook-id"], body) for headers, body in receiver.received}) == 1

    receiver.status = 200
    again = await open_client.post(f"/v1/webhooks/{hook['id']}/deliveries/{delivery['id']}/retry")
    assert again.status_code == 202
    await deliverer.deliver()
    (delivery,) = await delivered_to(open_client, hook)
    assert (delivery["state"], delivery["attempts"]) == ("delivered", 1)


async def test_message_of_killed_scheduler_is_delivered_by_another(open_client, services, deliverer, receiver):
    hook = await make(open_client, receiver.url)
    await open_client.post("/v1/documents", json=EMPTY)
    await work(services, "parse")
    hooks = services.ledger[Webhooks]
    (late,) = await hooks.claim(webhooks=10, of_one=10, lease=timedelta(seconds=0))  # killed here
    attempt = await deliverer.sender().send(late)

    assert await deliverer.deliver()

    await hooks.settle(late.delivery, replace(attempt, status=500, error="late"))
    (delivery,) = await delivered_to(open_client, hook)
    assert (delivery["state"], delivery["attempts"], delivery["error"]) == ("delivered", 2, None)
    assert len({headers["webhook-id"] for headers, _ in receiver.received}) == 1


@guards(
    "features/webhooks/ledger.sql",
    " AND due_at = :claimed_until RETURNING",
    " AND (due_at = :claimed_until OR true) RETURNING",
    means="the late result of a message replaces the result of its retry",
)
async def test_late_result_does_not_replace_result_of_retry(open_client, services, deliverer, receiver):
    hook = await make(open_client, receiver.url)
    await open_client.post("/v1/documents", json=EMPTY)
    await work(services, "parse")
    hooks = services.ledger[Webhooks]
    (late,) = await hooks.claim(webhooks=10, of_one=10, lease=timedelta(minutes=1))
    await hooks.send_again("default", UUID(hook["id"]), late.delivery.id)
    assert await deliverer.deliver()

    await hooks.settle(late.delivery, DeliveryAttempt(error="late"))

    (delivery,) = await delivered_to(open_client, hook)
    assert (delivery["state"], delivery["attempts"], delivery["error"]) == ("delivered", 1, None)


async def test_webhook_is_deleted_during_settlement(open_client, services, deliverer, receiver):
    """The settlement locks the delivery first, the deletion the webhook."""
    hook = await make(open_client, receiver.url)
    await open_client.post("/v1/documents", json=EMPTY)
    await work(services, "parse")
    statement = "UPDATE {} SET created_at = created_at"

    async with services.database.transaction() as settling:
        await settling.execute(Statement(statement.format("webhook_deliveries")))
        deleting = asyncio.create_task(services.ledger[Webhooks].delete("default", UUID(hook["id"])))
        await eventually(partial(is_waiting, services))
        with suppress(asyncpg.PostgresError):  # PostgreSQL may end either transaction
            await settling.execute(Statement(statement.format("webhooks")))
    await deleting

    assert await services.ledger[Webhooks].list("default") == []


async def test_result_is_recorded_despite_deadlock(open_client, services, deliverer, receiver):
    hook = await make(open_client, receiver.url)
    await open_client.post("/v1/documents", json=EMPTY)
    await work(services, "parse")
    hooks = services.ledger[Webhooks]
    (due,) = await hooks.claim(webhooks=10, of_one=10, lease=timedelta(minutes=1))
    statement = "UPDATE {} SET created_at = created_at"

    async with services.database.transaction() as other:
        await other.execute(Statement(statement.format("webhooks")))
        settling = asyncio.create_task(hooks.settle(due.delivery, DeliveryAttempt(error="refused")))
        await eventually(partial(is_waiting, services))
        with suppress(asyncpg.PostgresError):  # PostgreSQL may end either transaction
            await other.execute(Statement(statement.format("webhook_deliveries")))
    await settling

    (delivery,) = await delivered_to(open_client, hook)
    assert (delivery["state"], delivery["error"]) == ("waiting", "refused")


async def is_waiting(services):
    """Return whether a transaction waits for a lock."""
    return await services.database.rows(Statement("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))


async def test_webhook_is_disabled_after_410_or_long_failure(open_client, services, deliverer, receiver):
    hook = await make(open_client, receiver.url)
    for name in ("a.txt", "b.txt"):
        await open_client.post("/v1/documents", json=EMPTY | {"filename": name})
    await work(services, "parse")
    receiver.status = 500
    await deliverer.deliver()
    shown = (await open_client.get(f"/v1/webhooks/{hook['id']}")).json()
    assert shown["failing_since"]
    assert shown["disabled_at"] is None
    assert len(receiver.received) == 2
    await make_due(services)
    await deliverer.deliver()
    assert len(receiver.received) == 3  # a failing webhook gets a single attempt
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE webhooks SET failing_since = now() - interval '6 days'"))
    await make_due(services)

    await deliverer.deliver()

    assert (await open_client.get(f"/v1/webhooks/{hook['id']}")).json()["disabled_at"]
    await make_due(services)
    assert not await deliverer.deliver()
    assert (await open_client.post(f"/v1/webhooks/{hook['id']}/resume")).json()["disabled_at"] is None
    receiver.status = 410
    assert await deliverer.deliver()
    assert (await open_client.get(f"/v1/webhooks/{hook['id']}")).json()["disabled_at"]


async def test_private_addresses_are_rejected_at_creation_and_delivery(
    client, open_client, services, receiver, monkeypatch
):
    for url in (receiver.url, "http://localhost/", "http://[::1]/", "http://169.254.169.254/latest", "http://0x7f.1/"):
        reply = await client.post("/v1/webhooks", json={"url": url})
        assert reply.status_code == 422, url
        assert "FOREASK_WEBHOOKS_PRIVATE_NETWORKS" in reply.json()["detail"]
    for url in ("ftp://example.org/", "https://", "https://u:p@example.org/", "https://exa mple.org/", "file:///etc"):
        reply = await client.post("/v1/webhooks", json={"url": url})
        assert (reply.status_code, reply.json()["field"]) == (422, "url"), url

    hook = await make(open_client, receiver.url)
    await open_client.post("/v1/documents", json=EMPTY)
    await work(services, "parse")
    sender = Sender(private=False)
    await Deliverer(services.ledger[Webhooks], lambda: sender).deliver()
    await sender.aclose()
    (delivery,) = await delivered_to(open_client, hook)
    assert "private address" in delivery["error"]
    assert receiver.received == []


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "ff02::1",
        "168.63.129.16",
        "192.0.0.1",
        "192.0.0.9",
        "192.0.0.192",
        "192.0.2.1",
        "192.31.196.1",
        "192.52.193.1",
        "192.88.99.1",
        "192.175.48.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "240.0.0.1",
        "::a00:1",
        "::ffff:0:a00:1",
        "::ffff:0:808:808",
        "::ffff:168.63.129.16",
        "64:ff9b:1::1",
        "100::1",
        "100:0:0:1::1",
        "2001::1",
        "2001:1::1",
        "2001:2::1",
        "2001:4:112::1",
        "2001:10::1",
        "2001:20::1",
        "2001:30::1",
        "2001:db8::1",
        "2620:4f:8000::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "fe80::1",
        "fec0::1",
    ],
)
def test_special_address_is_not_public(address):
    assert not addresses.is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.216.34",
        "168.63.129.17",
        "192.0.1.1",
        "::ffff:8.8.8.8",
        "2001:200::1",
        "2606:2800:220:1::1",
        "2a00:1450:4001::1",
    ],
)
def test_ordinary_address_is_public(address):
    assert addresses.is_public(address)


async def test_host_with_one_private_address_is_refused(monkeypatch):
    found = ["93.184.216.34", "10.0.0.1"]
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (a, 443)) for a in found])
    with pytest.raises(ForbiddenAddress, match="private"):
        await resolve(parse("https://example.org/"), private=False)
    found[:] = ["2606:2800:220:1::1", "93.184.216.34"]
    assert await resolve(parse("https://example.org/"), private=False) == "2606:2800:220:1::1"
    with pytest.raises(InvalidInput):
        parse("https://example.org:99999/")


async def test_slow_lookups_of_one_host_share_one_thread(monkeypatch):
    """Many messages to a host whose name server does not answer must not delay messages to other hosts."""
    answers, lookups = threading.Event(), Counter()

    def find(host, port, **_):
        lookups[host] += 1
        if host == "slow.example":
            answers.wait(TIMEOUT_SECONDS)
        return [(2, 1, 6, "", ("93.184.216.34", port))]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", find)
    slow = [asyncio.create_task(resolve(parse("https://slow.example/"), private=False)) for _ in range(200)]
    try:
        await eventually(lambda: lookups["slow.example"])
        slow.pop().cancel()  # a message that timed out; the others still wait for the same lookup
        assert await resolve(parse("https://quick.example/"), private=False) == "93.184.216.34"
    finally:
        answers.set()

    assert set(await asyncio.gather(*slow)) == {"93.184.216.34"}
    assert lookups == {"slow.example": 1, "quick.example": 1}
    await resolve(parse("https://quick.example/"), private=False)
    assert lookups["quick.example"] == 2  # a later message must see a new address


async def test_connection_uses_checked_address(services, deliverer, receiver, certificate, monkeypatch):
    """The name has no address, so only the checked address is reachable; the certificate must match the name."""
    resolved_names = []

    async def resolve_to_loopback(parts, *, private):
        resolved_names.append(parts.hostname)
        return "127.0.0.1"

    monkeypatch.setattr("features.webhooks.sender.resolve", resolve_to_loopback)
    trusting = httpx.AsyncClient(verify=ssl.create_default_context(cafile=certificate), trust_env=False)
    monkeypatch.setattr(deliverer.sender(), "_client", trusting)
    library = Library(services)
    async with trusting, receiving(certificate) as encrypted:
        for server in (receiver, encrypted):
            for name in ("hook.invalid", "other.invalid"):
                url = server.url.replace("127.0.0.1", name)
                await services.ledger[Webhooks].make("default", url, draw_secret(), ["document.deleted"])
        document = await library.add("A text.")
        await services.ledger[Documents].delete("default", document.id)
        assert await deliverer.deliver()

    assert sorted(resolved_names) == ["hook.invalid"] * 2 + ["other.invalid"] * 2
    hosts = [
        sorted(headers["host"].partition(":")[0] for headers, _ in received.received)
        for received in (receiver, encrypted)
    ]
    assert hosts == [["hook.invalid", "other.invalid"], ["hook.invalid"]]


async def test_builds_and_erasures_send_messages_without_erased_names(open_client, services):
    hook = await make(open_client, "http://127.0.0.1:9/")
    taken = (await open_client.post("/v1/documents", json=LEAVE)).json()
    await work(services, "parse", "index")
    model = services.settings.embedding_model
    started = await services.ledger[Builds].start(
        "default", "default", options=CollectionOptions(), embedding_model=model
    )
    while await services.ledger[Builds].fill():
        pass
    await work(services, "parse", "index")
    events = [(delivery["type"], delivery["data"]) for delivery in await delivered_to(open_client, hook)]
    assert [name for name, _ in events] == ["build.filled", "document.ready"]  # only of the live build
    assert events[0][1] == {"collection": "default", "build": started.number}
    assert events[1][1]["document_id"] == taken["id"]

    erasure = (await open_client.delete("/v1/collections/default")).json()
    for _ in range(30):
        await clean(services)
        async with services.database.begin() as connection:
            for table in ("sweeps", "outdated_objects", "abandoned_calls"):
                await connection.execute(Statement(f"UPDATE {table} SET due_at = now()"))
            await connection.execute(Statement("UPDATE collections SET emptied_at = now() - interval '1 hour'"))
            await connection.execute(Statement("UPDATE erasures SET fenced_at = fenced_at - interval '1 minute'"))
        if (await open_client.get(f"/v1/erasures/{erasure['id']}")).json()["finished_at"]:
            break

    (delivery,) = await delivered_to(open_client, hook)
    assert (delivery["type"], delivery["data"]) == ("erasure.finished", {"erasure_id": erasure["id"]})


async def test_jobs_send_messages_when_paused_and_ended(open_client, services):
    hook = await make(open_client, "http://127.0.0.1:9/", events=["job.paused", "job.ended"])
    job = (await open_client.post("/v1/jobs", json={"idempotency_key": "export"})).json()["id"]
    await open_client.post("/v1/documents", json=LEAVE | {"job": job})
    for action in ("close", "pause", "resume"):
        assert (await open_client.post(f"/v1/jobs/{job}/{action}")).status_code == 200
    await work(services, "parse", "index")
    await services.ledger[Jobs].settle()

    ended, paused = [(each["type"], each["data"]) for each in await delivered_to(open_client, hook)]

    common = {"job_id": job, "kind": "load", "collection": "default"}
    assert paused == ("job.paused", common | {"state": "paused", "pause_reason": "user", "documents": None})
    assert ended == ("job.ended", common | {"state": "done", "pause_reason": None, "documents": {"ready": 1}})


@guards(
    "shared/ledger/postgres/migrations/schema.sql",
    " AND n.number IS NOT NULL",
    "",
    means="the end of a verification is reported as the end of a load",
)
async def test_jobs_without_documents_send_no_message(open_client, services):
    hook = await make(open_client, "http://127.0.0.1:9/", events=["job.paused", "job.ended"])
    (await open_client.put("/v1/collections/default", json={})).raise_for_status()
    collection = await services.ledger[Collections].get("default", "default")
    await services.ledger[Verifications].start(collection, repair=False)

    await services.ledger[Verifications].cancel(collection)

    assert await delivered_to(open_client, hook) == []


async def test_tenants_cannot_use_each_others_webhooks(services, settings):
    keyed = with_keys(settings).model_copy(update={"webhooks_private_networks": True})
    async with calling(keyed, services) as client:
        body = {"url": "http://127.0.0.1:9/"}
        hook = (await client.post("/v1/webhooks", json=body, headers=as_tenant("alice"))).json()
        bob = as_tenant("bob")
        assert (await client.get("/v1/webhooks", headers=bob)).json() == {"items": []}
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/resume"), ("GET", "/deliveries")):
            reply = await client.request(method, f"/v1/webhooks/{hook['id']}{path}", headers=bob)
            assert reply.status_code == 404
        await client.post("/v1/documents", json=EMPTY, headers=bob)
        await work(services, "parse")
        assert await services.ledger[Webhooks].page("alice", UUID(hook["id"])) == []
        path = f"/v1/webhooks/{hook['id']}"
        assert (await client.delete(path, headers=as_tenant("alice"))).status_code == 204
        assert (await client.get(path, headers=as_tenant("alice"))).status_code == 404
