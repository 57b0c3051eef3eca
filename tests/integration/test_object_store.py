"""Documents in an object store from upload to retrieval, and the settings of the page about object stores."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import orjson
import pytest

from shared.buckets.connection import RETRIES
from shared.domain.errors import Unavailable
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.statements import Statement
from shared.ledger.tenants.deployment import DeploymentIdentity
from shared.maintenance import orphans
from shared.maintenance.orphans import Orphans
from shared.settings import TenantLimits, load
from shared.storage.bucket import _PART_BYTES
from shared.storage.opening import open_uploads
from tests.support.api import WITHOUT_CERTIFICATES, as_tenant, calling, with_keys, work
from tests.support.pages import settings_of
from tests.support.planted import guards
from tests.support.proxy import Fault, Link
from tests.support.waiting import TIMEOUT_SECONDS

LAMP = b"# Lamp\n\nThe lamp burns."


@pytest.fixture
def bucket(s3):
    return s3.make(f"bucket-{uuid4().hex}")


def with_store(services, uploads):
    """Return the services with another store."""
    return replace(
        services,
        uploads=uploads,
        parser=replace(services.parser, uploads=uploads),
        cleaner=replace(services.cleaner, uploads=uploads),
        orphans=Orphans(uploads, services.ledger[Documents], services.ledger[DeploymentIdentity]),
    )


@pytest.fixture
def stored(services, s3, bucket):
    """Return the services with a store in a bucket."""
    folder = services.settings.data_dir
    return with_store(services, open_uploads(bucket, s3.options(), folder, services.ledger[DeploymentIdentity]))


@pytest.fixture
async def client(settings, stored):
    async with calling(settings, stored) as client:
        yield client


def objects(s3, bucket):
    return [key for key in s3.keys(bucket.split("/")[2]) if "/." not in key]


async def found(client):
    reply = await client.post("/v1/retrieve", json={"question": "Does the lamp burn?"})
    return [chunk["external_id"] for chunk in reply.json()["chunks"]]


async def test_object_of_deleted_document_is_deleted(client, stored, s3, bucket):
    uploaded = await client.post("/v1/documents", files={"file": ("lamp.md", LAMP)})
    assert uploaded.status_code == 202
    assert len(objects(s3, bucket)) == 1

    await work(stored, "parse", "index")
    assert await found(client) == ["lamp.md"]

    same = await client.post("/v1/documents", files={"file": ("lamp.md", LAMP)})
    assert same.status_code == 200
    assert len(objects(s3, bucket)) == 1

    assert (await client.delete(f"/v1/documents/{uploaded.json()['id']}")).status_code == 204
    await stored.cleaner.clean()
    await stored.cleaner.clean()
    assert objects(s3, bucket) == []


async def test_batch_documents_are_read_from_pack(client, stored, s3, bucket):
    batch = b'{"external_id": "lamp", "text": "The lamp burns."}\n{"external_id": "bell", "text": "The bell rings."}\n'
    reply = await client.post("/v1/documents:batch", content=batch, headers={"content-type": "application/x-ndjson"})
    assert reply.content.count(b'"status":202') == 2
    assert len(objects(s3, bucket)) == 1

    await work(stored, "parse", "index")

    assert sorted(await found(client)) == ["bell", "lamp"]


async def request_upload(client, size=100, **headers):
    reply = await client.post("/v1/uploads", json={"size_bytes": size}, headers=headers)
    assert reply.status_code == 201, reply.text
    return reply.json()


async def send(offer, content):
    async with httpx.AsyncClient(trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=TIMEOUT_SECONDS) as browser:
        reply = await browser.request(offer["method"], offer["url"], headers=offer["headers"], content=content)
        return reply.status_code


async def test_direct_upload_becomes_document_and_cannot_change_it(client, stored, s3, bucket):
    offer = await request_upload(client)
    assert await send(offer, LAMP) == 200

    body = {"upload": offer["upload"], "filename": "lamp.md"}
    uploaded = await client.post("/v1/documents", json=body)
    assert (uploaded.status_code, uploaded.json()["external_id"]) == (202, "lamp.md")
    await send(offer, b"something else")  # the address remains valid, but the document does not change
    await work(stored, "parse", "index")

    assert await found(client) == ["lamp.md"]
    chunks = await client.get(f"/v1/documents/{uploaded.json()['id']}/chunks")
    assert chunks.json()["items"][0]["text"] == LAMP.decode()
    same = await client.post("/v1/documents", json={"text": LAMP.decode(), "filename": "lamp.md"})
    assert (same.status_code, same.json()["id"]) == (200, uploaded.json()["id"])


async def test_submitted_upload_cannot_be_submitted_again(client, s3, bucket):
    offer = await request_upload(client)
    await send(offer, LAMP)
    body = {"upload": offer["upload"]}
    assert (await client.post("/v1/documents", json=body)).status_code == 202
    assert len(objects(s3, bucket)) == 1

    again = await client.post("/v1/documents", json=body)
    assert (again.status_code, again.json()["field"]) == (422, "upload")


@pytest.mark.parametrize(
    ("content", "status"),
    [(None, 422), (b"", 422), (b"x" * 2_001, 413)],
)
async def test_invalid_direct_upload_is_rejected_and_orphaned(*, settings, stored, s3, bucket, content, status):
    async with calling(settings.model_copy(update={"max_upload_bytes": 2_000}), stored) as client:
        offer = await request_upload(client)
        if content is not None:
            await send(offer, content)
        reply = await client.post("/v1/documents", json={"upload": offer["upload"]})

    assert reply.status_code == status
    assert len(objects(s3, bucket)) == (content is not None)  # only the sent object, until it is tidied
    assert set((await stored.orphans.count()).orphans) == {
        f"sent/default/{offer['upload']}" for _ in range(content is not None)
    }


async def test_other_tenants_uploads_cannot_be_submitted(settings, stored):
    async with calling(with_keys(settings), stored) as client:
        offer = await request_upload(client, **as_tenant("alice"))
        await send(offer, LAMP)
        assert "/sent/alice/" in offer["url"]
        for token in (offer["upload"], f"../alice/{offer['upload']}", "", "a" * 32):
            reply = await client.post("/v1/documents", json={"upload": token}, headers=as_tenant("bob"))
            assert (reply.status_code, reply.json()["field"]) == (422, "upload")
        hers = await client.post("/v1/documents", json={"upload": offer["upload"]}, headers=as_tenant("alice"))
        assert hers.status_code == 202


async def test_submission_requires_exactly_one_content(client):
    for body in ({"upload": "a" * 32, "text": "a"}, {"upload": None}):
        reply = await client.post("/v1/documents", json=body)
        assert (reply.status_code, "once" in reply.json()["detail"]) == (422, True)


@pytest.fixture
def limited(settings, stored):
    """Return a function that calls an API whose tenant may upload so many bytes a day."""

    def limited(most, **more):
        limits = {"*": TenantLimits(upload_bytes_per_day=most, **more)}
        return calling(settings.model_copy(update={"tenant_limits": limits}), stored)

    return limited


async def offered(client, size):
    return await client.post("/v1/uploads", json={"size_bytes": size})


async def age_offers(stored, age):
    """Make all open offers of the tenant so much older."""
    use = stored.tenant_use
    for each in await use.close_offers("default", [offer.token for offer in await use.offers("default")]):
        await use.add_offer("default", replace(each, created_at=each.created_at - age), 1_000)


@guards(
    "shared/http/access/quotas.py",
    "await self._count_bytes(tenant, size_bytes, counted=size_bytes)",
    "await self._count_bytes(tenant, size_bytes, counted=0)",
    means="direct uploads exceed the limit of a day",
)
async def test_offered_bytes_count_at_once_and_only_once(limited, s3, bucket):
    async with limited(2 * len(LAMP)) as client:
        offers = [(await offered(client, len(LAMP))).json() for _ in range(2)]
        refused, too_large = await offered(client, 1), await offered(client, 2 * len(LAMP) + 1)
        for offer in offers:
            await send(offer, LAMP)
        submitted = [
            await client.post("/v1/documents", json={"upload": offer["upload"], "external_id": offer["upload"]})
            for offer in offers
        ]
        text = await client.post("/v1/documents", json={"text": "a"})

    assert (refused.status_code, too_large.status_code) == (429, 413)
    assert [reply.status_code for reply in submitted] == [202, 202]
    assert text.status_code == 429


async def test_bytes_of_unused_offer_are_given_back(limited, stored, s3, bucket):
    async with limited(200) as client:
        used, unused = (await offered(client, 100)).json(), await offered(client, 100)
        await send(used, b"x" * 100)
        assert unused.status_code == 201
        assert (await offered(client, 100)).status_code == 429
        await age_offers(stored, timedelta(hours=2))

        replies = [(await offered(client, 100)).status_code for _ in range(2)]

    today = datetime.now(UTC) - timedelta(hours=2)
    assert replies == ([201, 429] if today.date() == datetime.now(UTC).date() else [429, 429])
    assert len(objects(s3, bucket)) == 1


async def test_offer_of_rejected_document_stays_open(limited, stored, s3, bucket):
    async with limited(100, documents=1) as client:
        assert (await client.post("/v1/documents", json={"text": "a"})).status_code == 202
        offer = (await offered(client, 99)).json()
        await send(offer, b"x" * 99)

        rejected = await client.post("/v1/documents", json={"upload": offer["upload"]})

        assert rejected.status_code == 409
        assert [each.token for each in await stored.tenant_use.offers("default")] == [offer["upload"]]
        assert (await offered(client, 1)).status_code == 429


@guards(
    "shared/http/access/quotas.py",
    "_OPEN_OFFERS = 100",
    "_OPEN_OFFERS = 101",
    means="a tenant has any number of addresses",
)
async def test_tenant_has_hundred_open_offers(client, stored):
    replies = [(await offered(client, 1)).status_code for _ in range(101)]

    assert replies == [201] * 100 + [429]
    await age_offers(stored, timedelta(hours=2))
    assert (await offered(client, 1)).status_code == 201


@guards(
    "shared/maintenance/orphans.py",
    "len(self.due) - len(self.unsubmitted) >",
    "len(self.due) >",
    means="many unsubmitted uploads are never deleted",
)
async def test_unsubmitted_uploads_are_deleted_whatever_their_number(stored, s3, bucket, monkeypatch):
    monkeypatch.setattr(orphans, "_ALWAYS", 2)
    sent = [f"sent/default/{number:032x}" for number in range(5)]
    others = [f"{number:032x}" for number in range(3)]
    for name in sent + others[:2]:
        await stored.uploads._write(name, b"x")
    await stored.orphans.tidy()
    monkeypatch.setattr(orphans, "APART", timedelta())

    assert (await stored.orphans.tidy()).deleted == 7
    for name in sent + others:
        await stored.uploads._write(name, b"x")
    inventory = await stored.orphans.tidy()

    assert (inventory.too_many, inventory.deleted) == (True, 5)
    assert len(objects(s3, bucket)) == 3


async def test_folder_store_refuses_direct_uploads(services, settings):
    async with calling(settings, services) as client:
        for reply in (
            await client.post("/v1/uploads", json={"size_bytes": 9}),
            await client.post("/v1/documents", json={"upload": "a" * 32}),
        ):
            assert (reply.status_code, "which has no addresses" in reply.json()["detail"]) == (409, True)


async def test_documented_minio_settings_open_the_store(services, settings, s3, bucket, monkeypatch):
    for name, value in settings_of("object-store.md", "How do I use MinIO").items():
        monkeypatch.setenv(
            name,
            value.replace("s3://my-bucket/foreask", bucket).replace("http://minio:9000", s3.url).replace("…", "key"),
        )

    read = load()
    uploads = open_uploads(read.store_url, read.store_config(), settings.data_dir, services.ledger[DeploymentIdentity])

    await uploads.ready()
    assert objects(s3, bucket) == []


async def test_copied_folder_works_as_object_store(services, stored, settings, s3, bucket):
    async with calling(settings, services) as client:
        await client.post("/v1/documents", files={"file": ("lamp.md", LAMP)})
    folder = services.settings.data_dir / "uploads"
    for path in [*folder.glob("??/*"), folder / ".foreask-deployment"]:
        httpx.put(
            f"{s3.url}/{bucket.removeprefix('s3://')}/{path.name}",
            content=path.read_bytes(),
            trust_env=False,
            verify=WITHOUT_CERTIFICATES,
            timeout=TIMEOUT_SECONDS,
        )

    async with calling(settings, stored) as client:
        await work(stored, "parse", "index")
        assert await found(client) == ["lamp.md"]


LEASED_OR_ATTEMPTED = Statement("SELECT 1 FROM documents WHERE leased_by IS NOT NULL OR attempts > 0")
MAKE_DUE = Statement("UPDATE documents SET due_at = now() RETURNING 1")


@pytest.fixture
async def link(s3):
    """Yield a link to the object store that can be interrupted."""
    link = Link(s3.url.removeprefix("http://"))
    link.url = f"http://127.0.0.1:{await link.listen()}"
    yield link
    await link.aclose()


async def upload_batch(client, *names):
    lines = b"".join(orjson.dumps({"external_id": name, "text": f"The {name} burns."}) + b"\n" for name in names)
    reply = await client.post("/v1/documents:batch", content=lines, headers={"content-type": "application/x-ndjson"})
    return [orjson.loads(line) for line in reply.content.splitlines()]


@pytest.fixture
def linked(services, s3, bucket, link, monkeypatch):
    """Return the services with a store that is reached over the link, with short timeouts."""
    monkeypatch.setitem(RETRIES, "max_retries", 0)
    options = s3.options(aws_endpoint_url=link.url, read_timeout="700ms")
    return with_store(
        services, open_uploads(bucket, options, services.settings.data_dir, services.ledger[DeploymentIdentity])
    )


@pytest.mark.parametrize("mode", ["cut", "hole"])
async def test_unavailable_store_delays_but_loses_nothing(*, settings, linked, s3, bucket, link, mode):
    stored = linked
    async with calling(settings, stored) as client:
        assert (await client.post("/v1/documents", json={"external_id": "lamp", "text": "The lamp burns."})).is_success
        assert [line["status"] for line in await upload_batch(client, "oil", "wick")] == [202, 202]

        link.change(Fault(mode))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            alone, batch, stopped = await asyncio.gather(
                client.post("/v1/documents", json={"external_id": "bell", "text": "The bell rings."}),
                upload_batch(client, "candle", "torch"),
                work(stored, "parse"),
                return_exceptions=True,
            )
        assert isinstance(stopped, Unavailable)  # nothing is claimed while the store is unavailable
        refused = [alone.json(), *(line["error"] for line in batch)]
        assert [problem["status"] for problem in refused] == [503, 503, 503]
        assert {problem["detail"].partition(":")[0] for problem in refused} == {"The document could not be stored"}
        assert await stored.database.rows(LEASED_OR_ATTEMPTED) == []

        link.change(Fault())
        await stored.database.rows(MAKE_DUE)
        await work(stored, "parse", "index")
        assert sorted(await found(client)) == ["lamp", "oil", "wick"]
        assert len(objects(s3, bucket)) == 2 or mode == "hole"  # objects delayed by the hole belong to no document


async def test_large_upload_fails_when_store_stops_answering(linked, s3, bucket, link):
    async def pieces():
        for mode in ("pass", "hole", "hole"):
            link.change(Fault(mode))
            yield b"x" * _PART_BYTES

    async with asyncio.timeout(TIMEOUT_SECONDS):
        with pytest.raises(Unavailable, match="could not be stored: the store does not answer"):
            await linked.uploads.store(pieces(), max_bytes=3 * _PART_BYTES)

    assert objects(s3, bucket) == []
