"""Documents whose bytes are in an object store, from their upload until they are found."""

from dataclasses import replace
from uuid import uuid4

import pytest

from shared.maintenance.orphans import Orphans
from shared.storage.opening import open_uploads
from tests.api import calling, work


@pytest.fixture
def bucket(s3):
    return s3.make(f"bucket-{uuid4().hex}")


@pytest.fixture
async def stored(services, s3, bucket):
    """The services over a store in a bucket."""
    uploads = open_uploads(bucket, s3.options(), services.settings.data_dir, services.ledger.deployment)
    return replace(
        services,
        uploads=uploads,
        parser=replace(services.parser, uploads=uploads),
        cleaner=replace(services.cleaner, uploads=uploads),
        orphans=Orphans(uploads, services.ledger.documents, services.ledger.deployment),
    )


def objects(s3, bucket):
    return [key for key in s3.keys(bucket.split("/")[2]) if "/." not in key]


async def test_a_document_is_found_by_its_text_and_its_bytes_go_with_it(stored, settings, s3, bucket):
    async with calling(settings, stored) as client:
        handed_in = await client.post("/v1/documents", files={"file": ("lamp.md", b"# Lamp\n\nThe lamp burns.")})
        assert handed_in.status_code == 202
        assert len(objects(s3, bucket)) == 1

        await work(stored)
        found = await client.post("/v1/retrieve", json={"question": "Does the lamp burn?"})
        assert [chunk["external_id"] for chunk in found.json()["chunks"]] == ["lamp.md"]

        same = await client.post("/v1/documents", files={"file": ("lamp.md", b"# Lamp\n\nThe lamp burns.")})
        assert same.status_code == 200
        assert len(objects(s3, bucket)) == 1

        assert (await client.delete(f"/v1/documents/{handed_in.json()['document_id']}")).status_code == 204
        await stored.cleaner.clean()
        await stored.cleaner.clean()
    assert objects(s3, bucket) == []
