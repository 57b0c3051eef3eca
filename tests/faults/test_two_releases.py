"""Processes of two releases run under load on the newer release's schema, and are restarted at random."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from shared.ledger.postgres.revision import REVISION
from tests.faults.conftest import SETTINGS
from tests.support.deployment import ROOT
from tests.support.forkserver import ForkServer
from tests.support.releases import (
    APIS,
    NEW_CREW,
    OLD_CREW,
    Load,
    TwoReleases,
    next_release,
    previous_release,
    revision_of,
)

RESTARTS = 16
PARTS_BEFORE = 4  # parts of the documents that are uploaded before the first restart; later one part in each
NEXT_RUN = "SELECT token, lost_leases FROM job_claims WHERE kind = 'next'"
OLD, NEW = (*OLD_CREW, "api"), (*NEW_CREW, "api-new")


@pytest.fixture(scope="module")
def fleet(provider_process, tmp_path_factory, scale, request) -> Iterator[TwoReleases]:
    """A deployment of the previous release with its own engines, because its schema changes."""
    tmp_path = tmp_path_factory.mktemp("releases")
    previous = previous_release(request.config.getoption("--previous-release"), tmp_path / "previous")
    following = ROOT if revision_of(previous) < REVISION else next_release(tmp_path / "next")
    tuning = {**SETTINGS["tuning"], **scale.tuning, "lease": scale.lease_seconds}
    settings = provider_process.settings(**SETTINGS | {"tuning": tuning})
    with ExitStack() as stack:
        old, new = (stack.enter_context(ForkServer(tree)) for tree in (previous, following))
        yield stack.enter_context(
            TwoReleases(settings, tmp_path / "fleet", old=old.launch, new=new.launch, revision=revision_of(previous))
        )


def test_two_releases_under_load_lose_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("19", "two releases on the newer schema")
    provider.script(latency_seconds=0.05, questions=2)
    chance = random.Random(scenario.seed)
    documents = scale.release_documents
    part = documents // (PARTS_BEFORE + RESTARTS)
    load = Load(scenario, fleet, scenario.corpus(documents, sections=1), chance)
    options = {"questions_per_chunk": 2}

    def set_options(api):
        fleet.clients[api].put(f"/v1/collections/{scenario.collection}", json=options).raise_for_status()

    with load.uploading() as upload:
        set_options("api")
        upload(PARTS_BEFORE * part)
        fleet.wait_until(lambda: len(load.ids) >= part, "no documents were uploaded")
        fleet.upgrade()
        set_options("api-new")  # the old release reads the options that the new one has written
        for number in range(RESTARTS):
            upload(part)
            name = chance.choice((OLD, NEW)[number % 2])
            fleet.end(name, chance.choice((signal.SIGKILL, signal.SIGTERM)))
            load.change(3, version=number + 2)
            load.delete(2)

    scenario.settle(swept=True)
    scenario.check(note=f"{scenario.deaths()} restarts, {load.changed} changed, {load.deleted} deleted")
    assert load.failures == []
    assert fleet.errors() == []
    assert len(load.ids) == documents - load.deleted
    assert scenario.deaths() == RESTARTS
    assert load.counts().keys() == set(APIS)
    assert fleet.query(NEXT_RUN) == [{"token": None, "lost_leases": 0}]  # no worker has claimed the unknown run


def test_release_older_than_required_exits_with_sentence(fleet):
    fleet.migrate()
    (schema,) = fleet.query("SELECT min_revision, (SELECT version_num FROM alembic_version) FROM schema_compat")
    try:
        fleet.query("UPDATE schema_compat SET min_revision = $1", schema["version_num"])
        outputs = [fleet.refusal(name) for name in OLD]
    finally:
        fleet.query("UPDATE schema_compat SET min_revision = $1", schema["min_revision"])

    needed = schema["version_num"]
    sentence = (
        f"The ledger's schema is at revision {needed}, which needs code of revision {needed} or newer,"
        f" and this code has {fleet.revision}: run the release that migrated it, or a newer one.\n"
    )
    assert outputs == [sentence] * len(OLD)
