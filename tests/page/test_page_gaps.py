"""Gaps from 210 logged questions: the page groups, assigns, resolves and exports them."""

import csv
import re

import pytest
from playwright.async_api import expect

from tests.page.screens import require_accessible
from tests.support.planted import guards

COLLECTION = "gaps-page"
SUBJECTS = (
    *("dog kennel office floor bowl leash", "lunch receipt canteen voucher tray menu"),
    *("parking garage barrier ticket bicycle rack", "visa passport embassy stamp travel form"),
    *("printer toner cartridge paper jam tray2", "holiday carry over december unused days"),
    *("pension fund payout age statement letter", "badge lost replacement door reader fee"),
    *("monitor arm desk cable adapter order", "training budget conference course approval hours"),
    *("sick note doctor third day upload", "parental absence twins months partner split"),
    *("laptop disk encryption recovery key prompt", "payroll slip bonus tax column march"),
    *("meeting room booking projector cancel sign", "fire drill assembly point warden vest"),
    *("coffee machine filter beans descale light", "expense mileage private car rate border"),
    *("intern contract length wage mentor school", "newsletter photo consent archive intranet gallery"),
)
WORDINGS = ("how about {}", "what of {}", "who knows {}", "any rule on {}")
COUNTS = [1 + number for number in range(len(SUBJECTS))]  # of the queries of each subject, 210 in total


@pytest.fixture(scope="module")
def logged(deployment):
    """Log 210 questions about 20 subjects, which the documents do not answer."""
    deployment.ingest({"dogs.md": "# Dogs\n\nA dog may come along to the office.\n"}, collection=COLLECTION)
    deployment.wait_until_settled(1, collection=COLLECTION)
    assert sum(COUNTS) == 210
    for subject, times in zip(SUBJECTS, COUNTS, strict=True):
        for number in range(times):
            question = WORDINGS[number % len(WORDINGS)].format(subject)
            body = {"question": question, "collection": COLLECTION, "min_score": 1.0}
            reply = deployment.client.post("/v1/retrieve", json=body).raise_for_status().json()
            assert reply["chunks"] == []
            assert reply["metadata"]["query_id"]
    return deployment


async def exported(page, table):
    """Export the gaps into a file, and return its rows."""
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Export as CSV").click()
    await (await downloading.value).save_as(table)
    with table.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


async def test_page_shows_assigns_resolves_and_exports_gaps(visit, logged, tmp_path):
    page = visit.page
    await visit.go(f"/gaps?collection={COLLECTION}")
    cards = page.locator("li.gap")
    await expect(cards).to_have_count(len(SUBJECTS))
    await expect(page.get_by_role("button", name="Open 20")).to_be_visible()
    shown = await page.locator("li.gap .gap-times").all_text_contents()
    assert shown == ["1 time" if times == 1 else f"{times} times" for times in sorted(COUNTS, reverse=True)]
    for card, subject in zip(await cards.all(), reversed(SUBJECTS), strict=True):
        await expect(card.locator(".gap-question")).to_contain_text(subject)
    first = cards.first
    await first.locator(".gap-toggle").click()
    await expect(first).to_contain_text("20 times in the last 7 days, 0 in the 7 days before")
    await expect(first.locator(".questions li")).to_have_count(4)
    await expect(first.locator("tbody tr")).to_have_count(1)

    last = page.locator("li.gap", has_text=SUBJECTS[0])
    await last.locator(".gap-toggle").click()
    await expect(page.locator(".gap-details")).to_have_count(1)
    await last.get_by_role("button", name="Assign").click()
    await expect(last.get_by_label("Assigned to")).to_have_attribute("aria-invalid", "true")
    await last.get_by_label("Assigned to").fill("Ann")
    await page.keyboard.press("Enter")
    await expect(page.locator(".notice")).to_contain_text("Assigned to Ann.")
    await expect(cards).to_have_count(len(SUBJECTS) - 1)
    await page.get_by_role("button", name="Assigned 1").click()
    await expect(cards).to_have_count(1)
    await expect(cards.locator(".gap-owner")).to_have_text("Ann")
    await cards.locator(".gap-toggle").click()
    await expect(cards.get_by_label("Assigned to")).to_have_value("Ann")
    await expect(cards.get_by_role("button", name="Unassign")).to_be_visible()

    await cards.get_by_role("button", name="Choose a document").click()
    await expect(cards.get_by_role("button", name="Dogs")).to_be_visible()  # without a search
    await cards.get_by_label("Search documents").fill("dogs")
    await cards.get_by_role("button", name="dogs").click()
    await expect(page.locator(".notice")).to_contain_text("Resolved by")
    await expect(page.locator("main")).to_contain_text("No gap is assigned.")
    await page.get_by_role("button", name="Resolved 1").click()
    await expect(cards.locator(".gap-owner")).to_have_text("dogs.md")
    await cards.locator(".gap-toggle").click()
    await expect(cards).to_contain_text("Resolved by dogs.md")

    rows = await exported(page, tmp_path / "gaps.csv")
    assert [int(row["times"]) for row in rows] == sorted(COUNTS, reverse=True)
    assert [(row["assigned_to"], row["resolved_by"]) for row in rows if row["state"] == "resolved"] == [
        ("Ann", "dogs.md")
    ]

    body = {"question": WORDINGS[0].format(SUBJECTS[0]), "collection": COLLECTION, "min_score": 1.0}
    logged.client.post("/v1/retrieve", json=body).raise_for_status()
    await expect(page.get_by_role("button", name="Assigned 1")).to_be_visible()  # without a reload
    await page.get_by_role("button", name="Assigned 1").click()
    await cards.locator(".gap-toggle").click()
    await expect(cards).to_contain_text("Not answered again after it was resolved by dogs.md")
    await cards.get_by_role("button", name="Remove the document").click()
    await expect(page.locator(".notice")).to_contain_text("Document removed.")
    await expect(cards).not_to_contain_text("Not answered again")


async def test_reader_lists_users_questions_of_chunk(visit, deployment):
    body = {"question": "Who has thirty days of leave a year?", "top_k": 1}
    (chunk,) = deployment.client.post("/v1/retrieve", json=body).raise_for_status().json()["chunks"]

    await visit.go(f"/documents/{chunk['document_id']}?chunk={chunk['chunk_id']}")

    asked = visit.page.get_by_role("list", name="Asked by users")
    await expect(asked).to_contain_text(body["question"])
    await expect(asked).to_contain_text(f"{chunk['score']:.2f}")
    await expect(visit.page.get_by_role("heading", name="Questions answered by this chunk")).to_be_visible()


async def test_gaps_are_accessible_on_small_display(visit, logged):
    page = visit.page
    await page.set_viewport_size({"width": 360, "height": 740})
    await visit.go(f"/gaps?collection={COLLECTION}")
    await page.locator(".gap-toggle").first.click()
    await page.get_by_role("button", name="Choose a document").click()
    await expect(page.get_by_role("button", name="Dogs")).to_be_visible()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # colours change at once
        await require_accessible(page, scheme, only_colours=scheme == "dark")


@pytest.fixture(scope="module")
def many(deployment):
    """Log 60 questions that the documents do not answer: two pages of gaps. Return the collection's name."""
    name = "gaps-many"
    deployment.ingest({"dogs.md": "# Dogs\n\nA dog may come along to the office.\n"}, collection=name)
    deployment.wait_until_settled(1, collection=name)
    for number in range(60):
        question = " ".join(f"{word}{number}" for word in ("moss", "lamp", "tin", "reed", "salt", "kiln"))
        body = {"question": question, "collection": name, "min_score": 1.0}
        reply = deployment.client.post("/v1/retrieve", json=body).raise_for_status().json()
        assert reply["metadata"]["query_id"]
    return name


@guards(
    "api/web/routes/gaps.js",
    "  await gaps.poll();",
    "  await gaps.load();",
    means="a changed gap closes the older pages of the list",
)
@guards("api/web/routes/gaps.js", "    next?.focus();\n", "", means="the focus is lost when a gap leaves the list")
async def test_changed_gaps_keep_pages_and_pass_focus_on(visit, deployment, many):
    gaps = f"/v1/collections/{many}/gaps"
    (assigned, *_) = deployment.client.get(f"{gaps}?state=open").raise_for_status().json()["items"]
    deployment.client.patch(f"{gaps}/{assigned['id']}", json={"assigned_to": "Eve"}).raise_for_status()
    count = deployment.client.get(gaps).raise_for_status().json()["counts"]["open"]
    page = visit.page
    cards = page.locator("li.gap")
    await visit.go(f"/gaps?collection={many}")
    await expect(cards).to_have_count(50)
    await page.get_by_role("button", name="Show more gaps").click()
    await expect(cards).to_have_count(count)

    following = await cards.nth(53).locator(".gap-question").inner_text()
    await cards.nth(52).locator(".gap-toggle").click()
    await cards.nth(52).get_by_label("Assigned to").fill("Ann")
    await page.keyboard.press("Enter")
    await expect(cards).to_have_count(count - 1)
    await expect(cards.nth(52).locator(".gap-question")).to_have_text(following)
    await expect(cards.nth(52).locator(".gap-toggle")).to_be_focused()

    following = await cards.nth(53).locator(".gap-question").inner_text()
    await page.keyboard.press("Enter")  # opens the focused gap
    await cards.nth(52).get_by_role("button", name="Choose a document").click()
    await cards.nth(52).get_by_role("button", name="dogs").click()
    await expect(cards).to_have_count(count - 2)
    await expect(cards.nth(52).locator(".gap-question")).to_have_text(following)
    await expect(cards.nth(52).locator(".gap-toggle")).to_be_focused()
    await expect(page.get_by_role("button", name=f"Open {count - 2}")).to_be_visible()
    await expect(cards).to_have_count(count - 2)

    await page.get_by_role("button", name=re.compile("^Assigned \\d")).click()
    card = cards.filter(has_text=assigned["question"])
    await card.locator(".gap-toggle").click()
    await card.get_by_label("Assigned to").fill("Eva")
    await page.keyboard.press("Enter")
    await expect(page.locator(".notice")).to_contain_text("Assigned to Eva.")
    await expect(card.get_by_label("Assigned to")).to_be_focused()
    await page.get_by_role("button", name=re.compile("^Resolved \\d")).click()
    await expect(cards).to_have_count(1)
    await cards.locator(".gap-toggle").click()
    await cards.get_by_role("button", name="Reopen").click()
    await expect(cards).to_have_count(0)
    await expect(page.locator("#main")).to_be_focused()
