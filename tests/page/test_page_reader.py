"""The screen of a document: its chunks by state, and a chunk opened in Try; and actions on selected documents."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import until

TEXT = "\n\n".join(f"# Part {n}\n\nPart {n} speaks of subject{n}, and of nothing else at all." for n in range(6))


@pytest.fixture(scope="module")
def parts(deployment):
    """The id of a document of six chunks."""
    deployment.client.put("/v1/collections/parts", json={"chunk_max_chars": 200}).raise_for_status()
    deployment.ingest({"parts.md": TEXT}, collection="parts")
    [document] = deployment.wait_until_settled(1, collection="parts")
    assert document["chunks"]["total"] == 6
    return document["id"]


async def test_chunks_are_shown_by_state_along_document(visit, deployment, parts):
    page = visit.page
    await visit.go(f"/documents/{parts}")
    await expect(page.locator(".row")).to_have_count(6)
    chunks = deployment.client.get(f"/v1/documents/{parts}/chunks").json()["items"]
    with_questions = [each for each in chunks if any(question["passed"] for question in each["questions"])]
    await expect(page.locator(".columns .good-part")).to_have_count(len(with_questions))
    await page.get_by_label("Filter chunks").select_option("dead")
    await expect(page.get_by_text("No matching chunks.")).to_be_visible()
    await page.get_by_label("Filter chunks").select_option("")
    await expect(page.locator(".row")).to_have_count(6)


async def test_chunk_opens_in_try(visit, parts):
    page = visit.page
    await visit.go(f"/documents/{parts}")
    await page.locator(".row button").nth(2).click()
    await page.get_by_role("link", name="Try this chunk").click()
    await expect(page.get_by_label("Text", exact=True)).to_have_value(re.compile("Part 2 speaks of subject2"))
    await page.get_by_role("button", name="Generate questions").click()
    await expect(page.locator("[role=status]").filter(has_text="kept")).to_be_visible()


async def test_deep_scroll_position_survives_unseen_changes(visit, deployment):
    page = visit.page
    deployment.client.put("/v1/collections/long", json={"chunk_max_chars": 200}).raise_for_status()
    text = "\n\n".join(f"# Part {n}\n\nPart {n} speaks of subject{n}, and of nothing else at all." for n in range(130))
    deployment.ingest({"long.md": text}, collection="long")
    [document] = deployment.wait_until_settled(1, collection="long")
    changed = asyncio.Event()

    async def send_reset(route):
        await changed.wait()
        await route.fulfill(content_type="text/event-stream", body="event: reset\ndata: {}\n\n")

    await page.route("**/v1/events", send_reset, times=1)
    await visit.go(f"/documents/{document['id']}")
    window, wanted = page.locator(".window"), page.locator('.row[aria-posinset="120"]')
    await expect(page.locator(".row").first).to_be_visible()
    await window.evaluate("window => window.scrollTo(0, 95 * 48)")
    await expect(page.locator('.row[aria-posinset="101"]')).to_be_visible()
    await window.evaluate("window => window.scrollTo(0, 115 * 48)")
    await expect(wanted).to_be_visible()
    before = await wanted.bounding_box()
    async with page.expect_response("**/chunks?*from=*"):
        changed.set()
    await page.wait_for_timeout(300)
    assert await wanted.bounding_box() == before


async def test_selected_documents_are_retried_and_deleted(visit, deployment, files):
    page = visit.page
    deployment.client.put("/v1/collections/picked", json={}).raise_for_status()
    await visit.go("/documents?collection=picked")
    await page.locator("input[type=file]").set_input_files([*files[:3], files[-1]])
    deployment.wait_until_settled(4, collection="picked")
    await expect(page.locator(".row .state.failed")).to_have_count(1)
    for name in ("note-0.txt", "note-1.txt", "nothing.pdf"):
        await page.get_by_label(f"Select {name}").check()
    chosen = page.get_by_role("group", name="Selected documents")
    await expect(chosen).to_contain_text("3 documents selected")
    await chosen.get_by_role("button", name="Retry 1").click()
    await expect(page.locator(".notice")).to_contain_text("Retrying")
    await expect(chosen).to_have_count(0)
    deployment.wait_until_settled(4, collection="picked")

    for name in ("note-0.txt", "note-1.txt"):
        await page.get_by_label(f"Select {name}").check()
    await chosen.get_by_role("button", name="Delete 2").click()
    await expect(page.locator(".row")).to_have_count(2)
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator(".row")).to_have_count(4)
    for name in ("note-0.txt", "note-1.txt"):
        await page.get_by_label(f"Select {name}").check()
    await chosen.get_by_role("button", name="Delete 2").click()
    await page.locator(".notice").get_by_role("button", name="Close").click()
    await expect(page.locator(".row")).to_have_count(2)

    async def two_are_left():
        left = deployment.client.get("/v1/documents?collection=picked").json()["items"]
        return sorted(each["external_id"] for each in left) == ["note-2.txt", "nothing.pdf"]

    await until(two_are_left)


async def test_documents_of_search_are_selected_together(visit, deployment):
    page = visit.page
    names = [f"linde-{number}.md" for number in range(3)]
    deployment.ingest({name: f"# {name}\n\nThis is a note." for name in [*names, "other.md"]}, collection="person")
    deployment.wait_until_settled(4, collection="person")
    await visit.go("/documents?collection=person")
    await expect(page.locator(".row")).to_have_count(4)
    await page.fill("#search", "linde")
    await expect(page.locator(".counts [role=status]")).to_have_text("3 hits")
    await page.get_by_label("Select all documents").check()
    chosen = page.get_by_role("group", name="Selected documents")
    await expect(chosen).to_contain_text("3 documents selected")
    await chosen.get_by_role("button", name="Delete 3").click()
    await expect(page.locator(".notice")).to_contain_text("3 documents will be deleted with their questions.")
    await page.locator(".notice").get_by_role("button", name="Close").click()

    async def other_is_left():
        items = deployment.client.get("/v1/documents?collection=person").json()["items"]
        return [each["external_id"] for each in items] == ["other.md"]

    await until(other_is_left)
