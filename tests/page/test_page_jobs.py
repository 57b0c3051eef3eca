"""Jobs are shown with their progress, and paused, resumed and cancelled on the page."""

from playwright.async_api import expect

from tests.page.conftest import visiting
from tests.support.deployment import Deployment


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
        await expect(card).to_contain_text("The uploaded documents are finished.")
        await card.get_by_role("button", name="Pause: Load of jobs-page").click()
        await expect(card).to_contain_text("Paused by a user.")
        await card.get_by_role("button", name="Cancel: Load of jobs-page").click()
        await visit.page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        await expect(card).to_contain_text("cancelled")
        await expect(card.get_by_role("button")).to_have_count(0)
