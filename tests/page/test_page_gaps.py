"""Gaps from 500 logged questions: the page groups, assigns, resolves and exports them."""

import csv
import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import until, visiting
from tests.page.test_page import _require_accessible
from tests.page.test_page_charts import shows
from tests.page.test_page_late import held
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
COUNTS = [6 + 2 * number for number in range(len(SUBJECTS))]  # of the queries of each subject, 500 in total


@pytest.fixture(scope="module")
def logged(deployment):
    """Log 500 questions about 20 subjects, which the documents do not answer."""
    deployment.ingest({"dogs.md": "# Dogs\n\nA dog may come along to the office.\n"}, collection=COLLECTION)
    deployment.wait_until_settled(1, collection=COLLECTION)
    assert sum(COUNTS) == 500
    for subject, times in zip(SUBJECTS, COUNTS, strict=True):
        for number in range(times):
            question = WORDINGS[number % len(WORDINGS)].format(subject)
            body = {"question": question, "collection": COLLECTION, "min_score": 1.0}
            reply = deployment.client.post("/v1/retrieve", json=body).raise_for_status().json()
            assert reply["chunks"] == []
            assert reply["metadata"]["query_id"]
    return deployment


async def test_page_shows_assigns_resolves_and_exports_gaps(visit, logged, tmp_path):
    page = visit.page
    await visit.go(f"/gaps?collection={COLLECTION}")
    cards = page.locator("li.gap")
    await expect(cards).to_have_count(len(SUBJECTS))
    await expect(page.get_by_role("button", name="Open 20")).to_be_visible()
    shown = await page.locator("li.gap .bar-line .number").all_text_contents()
    assert shown == [f"{times} times" for times in sorted(COUNTS, reverse=True)]
    for card, subject in zip(await cards.all(), reversed(SUBJECTS), strict=True):
        await expect(card.locator("strong")).to_contain_text(subject)
    first = cards.first
    await expect(first).to_contain_text("44 times in the last 7 days, 0 in the 7 days before")
    await first.locator("summary").click()
    await expect(first.locator(".questions li")).to_have_count(4)
    await expect(first.locator("tbody tr")).to_have_count(1)

    await page.locator("li.gap", has_text=SUBJECTS[0]).get_by_label("Assigned to").fill("Ann")
    await page.keyboard.press("Enter")
    await expect(page.locator(".notice")).to_contain_text("Assigned to Ann.")
    await expect(cards).to_have_count(len(SUBJECTS) - 1)
    await page.get_by_role("button", name="Assigned 1").click()
    await expect(cards).to_have_count(1)
    await expect(cards.get_by_label("Assigned to")).to_have_value("Ann")

    await cards.get_by_label("Resolved by").fill("dogs")
    await cards.get_by_role("button", name="dogs").click()
    await expect(page.locator(".notice")).to_contain_text("Resolved by")
    await expect(page.locator("main")).to_contain_text("No gap is assigned.")
    await page.get_by_role("button", name="Resolved 1").click()
    await expect(cards).to_contain_text("Resolved by dogs.md")

    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Export as CSV").click()
    table = tmp_path / "gaps.csv"
    await (await downloading.value).save_as(table)
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["times"]) for row in rows] == sorted(COUNTS, reverse=True)
    assert [(row["assigned_to"], row["resolved_by"]) for row in rows if row["state"] == "resolved"] == [
        ("Ann", "dogs.md")
    ]

    body = {"question": WORDINGS[0].format(SUBJECTS[0]), "collection": COLLECTION, "min_score": 1.0}
    logged.client.post("/v1/retrieve", json=body).raise_for_status()
    await expect(page.get_by_role("button", name="Assigned 1")).to_be_visible()  # without a reload
    await page.get_by_role("button", name="Assigned 1").click()
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_gaps_are_accessible_on_small_display(browser, logged, scheme):
    options = {"color_scheme": scheme, "viewport": {"width": 360, "height": 740}, "bypass_csp": True}
    async with visiting(browser, f"http://127.0.0.1:{logged.port}", **options) as visit:
        await visit.go(f"/gaps?collection={COLLECTION}")
        await visit.page.locator("li.gap summary").first.click()
        await visit.page.get_by_label("Resolved by").first.fill("dogs")
        await expect(visit.page.get_by_role("button", name="Dogs")).to_be_visible()
        await _require_accessible(visit, "gaps")


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


def reads_of_gaps(page):
    """Return a list that grows with each request of the page for gaps."""
    requests = []
    page.on("request", lambda each: "/gaps?state=" in each.url and requests.append(each.url))
    return requests


@guards(
    "api/web/routes/gaps.js",
    "if (now === visit) await restart();",
    "await restart();",
    means="late collections start the list of a closed screen",
)
async def test_screen_closed_before_list_starts_never_polls(visit, deployment):
    page = visit.page
    reads = reads_of_gaps(page)
    async with held(page, "**/v1/collections?limit=200") as late:
        await visit.go("/gaps")
        await late.taken()
        await page.get_by_role("link", name="API", exact=True).click()
        await expect(page.locator("h1")).to_have_text("API")
        await late.release_and_wait()
        assert reads == []


@guards(
    "api/web/parts/polling.js",
    "    if (!isOpen) return;\n",
    "",
    means="an action of a closed screen starts its polling again",
)
async def test_late_change_does_not_poll_closed_screen(visit, many):
    page = visit.page
    await visit.go(f"/gaps?collection={many}")
    card = page.locator("li.gap").first
    async with held(page, "**/gaps/*", lambda request: request.method == "PATCH") as late:
        await card.get_by_label("Assigned to").fill("Zoe")
        await page.keyboard.press("Enter")
        await late.taken()
        await page.get_by_role("link", name="API", exact=True).click()
        await expect(page.locator("h1")).to_have_text("API")
        reads = reads_of_gaps(page)
        await late.release_and_wait()
        await expect(page.locator(".notice")).to_contain_text("Assigned to Zoe.")
        assert reads == []


# Records the time of each request for gaps by the clock of the page.
RECORD_READS = """{
    const send = fetch;
    window.readAt = [];
    window.fetch = (address, init) => {
        if (address.includes("/gaps?state=")) readAt.push(performance.now());
        return send(address, init);
    };
}"""


@guards(
    "api/web/routes/gaps.js",
    "seen.page?.ungrouped && !seen.page.delayed_by",
    "seen.page?.ungrouped",
    means="gaps are read every two seconds although nothing can be grouped",
)
async def test_delayed_grouping_is_read_every_ten_seconds(visit, deployment, many):
    gaps = deployment.client.get(f"/v1/collections/{many}/gaps?state=open").raise_for_status().json()
    delayed = {"ungrouped": 3, "delayed_by": "The budget is used up."}

    async def is_read_twice():
        return await visit.page.evaluate("readAt.length") > 1

    await visit.page.add_init_script(RECORD_READS)
    await shows(visit.page, re.compile(r"/gaps\?state="), gaps | delayed)
    await visit.go(f"/gaps?collection={many}")
    await expect(visit.page.get_by_text("3 questions still to be grouped")).to_contain_text("The budget is used up.")
    await until(is_read_twice)
    first, second, *_ = await visit.page.evaluate("readAt")
    assert second - first >= 10_000


@guards(
    "api/web/routes/gaps.js",
    ".toISOString().slice(0, 10) }]",
    ".toISOString() }]",
    means="the days of a gap have the dates of the time zone",
)
async def test_gap_days_are_utc_in_any_time_zone(browser, deployment, many):
    gaps = deployment.client.get(f"/v1/collections/{many}/gaps?state=open").raise_for_status().json()
    gaps["items"] = [each | {"per_day": [0, 2, 5]} for each in gaps["items"]]
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}", timezone_id="Pacific/Honolulu") as visit:
        await visit.page.clock.set_fixed_time("2026-10-02T05:00:00Z")  # the evening before in Honolulu
        await shows(visit.page, re.compile(r"/gaps\?state="), gaps)
        await visit.go(f"/gaps?collection={many}")
        card = visit.page.locator("li.gap").first
        await card.locator("summary").click()
        await expect(card.locator("tbody th")).to_have_text(["2 Oct", "1 Oct"])
        await expect(card.locator("tbody td")).to_have_text(["5", "2"])


@guards(
    "api/web/routes/gaps.js",
    'if (state !== "resolved") return',
    "if (state) return",
    means="the page says that a gap is open which stays resolved",
)
async def test_reopening_answered_gap_reports_that_it_stays(visit, deployment):
    name = "gaps-answered"
    deployment.ingest({"cats.md": "# Cats\n\nA cat may not come along to the office.\n"}, collection=name)
    (document,) = deployment.wait_until_settled(1, collection=name)

    def ask(min_score):
        body = {"question": "May a cat come along to the office?", "collection": name, "min_score": min_score}
        reply = deployment.client.post("/v1/retrieve", json=body).raise_for_status().json()
        assert reply["metadata"]["query_id"]
        return reply["chunks"]

    assert ask(1.0) == []
    gaps = f"/v1/collections/{name}/gaps"
    (gap,) = deployment.client.get(gaps).raise_for_status().json()["items"]
    deployment.client.patch(f"{gaps}/{gap['id']}", json={"resolved_by": document["id"]}).raise_for_status()
    assert ask(0.0)

    await visit.go(f"/gaps?collection={name}&show=resolved")
    card = visit.page.locator("li.gap")
    await expect(card).to_contain_text("Resolved by cats.md")
    await card.get_by_role("button", name="Reopen").click()
    await expect(visit.page.locator(".notice")).to_contain_text("The gap stays resolved. Its questions were answered")
    await expect(card).to_contain_text("Its questions were answered when they were asked last.")


@guards(
    "api/web/routes/gaps.js",
    "    await gaps.poll();",
    "    await gaps.load();",
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

    following = await cards.nth(53).locator("strong").inner_text()
    await cards.nth(52).get_by_label("Assigned to").fill("Ann")
    await page.keyboard.press("Enter")
    await expect(cards).to_have_count(count - 1)
    await expect(cards.nth(52).locator("strong")).to_have_text(following)
    await expect(cards.nth(52).get_by_label("Assigned to")).to_be_focused()

    following = await cards.nth(53).locator("strong").inner_text()
    await cards.nth(52).get_by_label("Resolved by").fill("dogs")
    await cards.nth(52).get_by_role("button", name="dogs").click()
    await expect(cards).to_have_count(count - 2)
    await expect(cards.nth(52).locator("strong")).to_have_text(following)
    await expect(cards.nth(52).get_by_label("Resolved by")).to_be_focused()
    await expect(page.get_by_role("button", name=f"Open {count - 2}")).to_be_visible()
    await expect(cards).to_have_count(count - 2)

    await page.get_by_role("button", name=re.compile("^Assigned \\d")).click()
    card = cards.filter(has_text=assigned["question"])
    await card.get_by_label("Assigned to").fill("Eva")
    await page.keyboard.press("Enter")
    await expect(page.locator(".notice")).to_contain_text("Assigned to Eva.")
    await expect(card.get_by_label("Assigned to")).to_be_focused()
    await page.get_by_role("button", name=re.compile("^Resolved \\d")).click()
    await expect(cards).to_have_count(1)
    await cards.get_by_role("button", name="Reopen").click()
    await expect(cards).to_have_count(0)
    await expect(page.locator("#main")).to_be_focused()
