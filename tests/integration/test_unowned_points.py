"""Points without a document: they are listed and deleted, and points of documents stay."""

from uuid import uuid4

import pytest

from features.erasure.ledger.erasures import Erasures
from features.verification.unowned_points import PointCheck
from shared.ledger.documents.audit import Audit
from shared.ledger.model.collections import Collections
from shared.vectors import writes
from tests.conftest import Library
from tests.integration.test_interleavings import run
from tests.support.api import work
from tests.support.pages import commands_of, foreask_with_background
from tests.support.qdrant import headers_of

PAGE = "verify-the-index.md"


async def restore_older(services):
    """Index a document of alice and one of bob, and forget alice's, as after a restore of an older ledger.

    Returns:
        The location of bob's points, in the same Qdrant collection.
    """
    for tenant in ("alice", "bob"):
        library = Library(services, tenant)
        await library.add("# Harbour\n\nThe harbour opens at six.", "a.md", questions=["When does the harbour open?"])
    await work(services, "parse", "index")
    await run(services, "DELETE FROM collections WHERE tenant = 'alice'")
    return (await services.ledger[Collections].get("bob", "default")).location


@pytest.fixture
async def location(once):
    return await once(restore_older)


@pytest.fixture
def check(services, location, monkeypatch):
    """Return a function that checks all points, in pages smaller than a document."""
    monkeypatch.setattr("features.verification.unowned_points._PAGE", 1)

    async def checked(**options):
        return await PointCheck(services.index, services.ledger[Audit]).run(location.index_name, **options)

    return checked


async def test_points_of_missing_collection_are_listed_and_deleted(services, location, check):
    kept = await services.index.count_points(location)
    found = await check()
    ((owner, points),) = found.unowned.items()
    assert (owner.tenant, points, found.points, found.deleted) == ("alice", found.points - kept, points + kept, 0)

    assert (await check(delete=True)).deleted == points

    assert (await check()).unowned == {}
    assert await services.index.count_points(location) == (await check()).points == kept


async def test_stray_point_of_owned_document_is_deleted_alone(services, location, check):
    await check(delete=True)
    kept = await services.index.count_points(location)
    ((document,),) = await run(services, "SELECT id FROM documents")
    stray = {"group": f"{uuid4().hex}/t", "tenant": "bob", "document_id": str(document), "token": 1}
    await services.index.upsert(location.index_name, [writes.Point(str(uuid4()), {}, stray)])

    assert (await check(delete=True)).deleted == 1

    assert await services.index.count_points(location) == kept


async def test_unreadable_point_is_deleted(services, location, check):
    await check(delete=True)
    point = writes.Point(str(uuid4()), {}, {"group": "text", "document_id": 7, "token": 1})
    await services.index.upsert(location.index_name, [point])

    found = await check(delete=True)

    assert [tuple(owner) for owner in found.unowned] == [(None, None, None)]
    assert (await check()).unowned == {}


@pytest.mark.parametrize("scope", ["document", "build"])
async def test_points_that_cleanup_will_delete_are_not_listed(services, location, check, scope):
    await check(delete=True)
    if scope == "document":  # its points were deleted once, and a late writer's will be deleted
        await run(
            services,
            """INSERT INTO sweeps
                   (collection_id, tenant, index_name, document_id, obsolete_version, below_version, due_at)
               SELECT l.id, l.tenant, l.index_name, d.id, 1, 2, now() + interval '1 hour'
               FROM documents d JOIN collections l ON l.id = d.collection_id""",
        )
    else:
        await services.ledger[Erasures].start("bob")
    await run(services, "DELETE FROM documents")

    assert (await check()).unowned == {}


async def test_documented_commands_list_and_delete(services, settings, location, capsys, monkeypatch):
    monkeypatch.setenv("FOREASK_DATABASE_URL", settings.database_url.get_secret_value())
    monkeypatch.setenv("FOREASK_REDIS_URL", settings.redis_url.get_secret_value())
    monkeypatch.setenv("FOREASK_QDRANT_URL", settings.qdrant_url)
    monkeypatch.setenv("FOREASK_QDRANT_API_KEY", headers_of(settings).get("api-key", ""))

    async def nothing():
        return

    foreask = foreask_with_background(nothing, capsys, monkeypatch)
    listing, deletion = commands_of(PAGE, "How do I find points without a document?")

    code, output = await foreask(listing)
    assert (code, "tenant alice" in output, "tenant bob" in output) == (4, True, False), output
    assert (await foreask(f"{deletion} --yes"))[0] == 0
    assert await services.index.count_points(location)
    assert (await foreask(listing))[0] == 0
