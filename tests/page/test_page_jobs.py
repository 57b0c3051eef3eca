"""Jobs and batches are shown with their progress; jobs are paused and resumed, and both are cancelled on the page."""

import pytest
from playwright.async_api import expect

from tests.page.conftest import visiting
from tests.support.deployment import Deployment, ScriptedProvider


async def test_page_pauses_resumes_and_cancels_a_job(browser, deployment: Deployment):
    load = {"collection": "jobs-page", "documents": 40}
    job = deployment.client.post("/v1/jobs", json=load).raise_for_status().json()
    deployment.client.post(f"/v1/jobs/{job['id']}/pause").raise_for_status()
    for number in range(4):
        body = {"external_id": f"{number}", "text": f"Text {number}.", "collection": "jobs-page", "job": job["id"]}
        deployment.client.post("/v1/documents", json=body).raise_for_status()
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}") as visit:
        await visit.go("/jobs")
        card = visit.page.get_by_role("listitem", name="Load of jobs-page")
        await expect(card).to_contain_text("0 of 40 documents")
        await expect(card).to_contain_text("Paused by a user.")

        await card.get_by_role("button", name="Resume: Load of jobs-page").click()
        await expect(card).to_contain_text("4 of 40 documents")
        await expect(card).to_contain_text("All 4 uploaded documents are finished.")
        await card.get_by_role("button", name="Pause: Load of jobs-page").click()
        await expect(card).to_contain_text("Paused by a user.")
        visit.page.on("dialog", lambda dialog: dialog.accept())
        await card.get_by_role("button", name="Cancel: Load of jobs-page").click()
        await expect(card).to_contain_text("cancelled")
        await expect(card.get_by_role("button")).to_have_count(0)
        visit.faults = [fault for fault in visit.faults if not fault.startswith("dialog: Cancel this job?")]


@pytest.fixture
def provider():
    """A separate provider, whose batches do not end."""
    provider = ScriptedProvider()
    yield provider
    provider.close()


@pytest.fixture
def batching(provider, forks, tmp_path):
    """A deployment with batches, whose provider has passed the probe."""
    times = {"batch_min_chunks": 1, "batch_wait": 0.4, "batch_poll": 0.2, "reconcile_every": 0.5}
    settings = provider.settings(llm_batches=True, tuning=times)
    with Deployment(settings, tmp_path, launch=forks.launch, durable=False) as deployment:
        deployment.wait_for_workers()
        submit(deployment, "first")
        deployment.wait_until_settled(1)
        yield deployment


def submit(deployment, name):
    body = {"external_id": name, "text": f"The {name} lighthouse stands on a cliff.", "lane": "batch"}
    deployment.client.post("/v1/documents", json=body).raise_for_status()


async def test_page_shows_and_cancels_a_batch(browser, batching: Deployment, provider):
    provider.batch_script(stuck=True)
    submit(batching, "second")
    async with visiting(browser, f"http://127.0.0.1:{batching.port}") as visit:
        await visit.go("/jobs")
        cards = visit.page.get_by_role("listitem", name="Batch of 1 request")
        await expect(cards.first).to_contain_text("The provider works on it, for up to 24 hours.")
        await expect(cards.last).to_contain_text("done")
        visit.page.on("dialog", lambda dialog: dialog.accept())
        await visit.page.get_by_role("button", name="Cancel: Batch of 1 request").click()
        await expect(visit.page.get_by_role("button", name="Cancel: Batch of 1 request")).to_have_count(0)
        provider.batch_script(stuck=False)  # its request is answered, by this batch or by the next one
        visit.faults = [fault for fault in visit.faults if not fault.startswith("dialog: Cancel this batch?")]
    batching.wait_until_settled(2)
