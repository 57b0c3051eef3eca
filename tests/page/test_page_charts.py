"""Charts show the API's numbers: to the pointer, to the keyboard, and as a table."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect

from tests.page.conftest import until, visiting
from tests.page.screens import fits, require_accessible

SET = "charted"
LABELLED = {
    "questions": [
        {"question": "How many days of leave does everybody have?", "external_ids": ["leave.md"]},
        {"question": "What does the per diem abroad follow?", "external_ids": ["travel.md"]},
    ]
}
MINUTES = [
    {"chunks": 7 * n, "dead_chunks": n % 3, "documents": n, "failed_documents": n % 2}
    | {"minute": (datetime(2026, 10, 1, 8, tzinfo=UTC) + timedelta(minutes=n)).isoformat()}
    for n in range(60)
]


async def read_along(chart):
    """Return the announcement of each point to screen readers, oldest first."""
    reader = chart.get_by_role("slider")
    await reader.focus()
    await reader.press("Home")
    await expect(reader).to_have_attribute("aria-valuenow", "0")
    spoken = [await reader.get_attribute("aria-valuetext")]
    for index in range(1, int(await reader.get_attribute("aria-valuemax")) + 1):
        await reader.press("ArrowRight")
        await expect(reader).to_have_attribute("aria-valuenow", str(index))
        spoken.append(await reader.get_attribute("aria-valuetext"))
    return spoken


async def point_at(page, chart, share):
    """Point at the position of a chart, as a share of its width, and return the shown values by name."""
    box = await chart.locator(".plot").bounding_box()
    await page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    await expect(chart.locator(".shown-values")).to_be_visible()
    rows = await chart.locator(".shown-values tbody tr").all()
    names = [(await row.locator("th").inner_text()).strip() for row in rows]
    return dict(zip(names, [await row.locator("td").inner_text() for row in rows], strict=True))


async def table_of(chart):
    """Open the table of a chart and return its cells, newest row first."""
    await chart.get_by_text("Show as table").click()
    await expect(chart.locator(".by-time tbody tr").first).to_be_visible()
    rows = await chart.locator(".by-time tbody tr").all()
    return [(await row.inner_text()).split("\t") for row in rows]


async def shows(page, path, reply):
    """Replace a reply of the API by one of the same form, so that its numbers do not change."""

    async def fulfil(route):
        await route.fulfill(json=reply)

    await page.route(path, fulfil)


@pytest.fixture
async def throughput(visit):
    await shows(visit.page, "**/v1/status/history*", {"items": MINUTES})
    await visit.go("/work")
    chart = visit.page.get_by_role("figure", name="Chunks per minute")
    await expect(chart.get_by_role("slider")).to_be_visible()
    return chart


async def test_keyboard_and_pointer_show_values_within_plot(visit, throughput):
    reader = throughput.get_by_role("slider")
    await reader.focus()
    await reader.press("Home")
    await reader.press("ArrowRight")
    await expect(reader).to_have_attribute("aria-valuenow", "1")
    await reader.press("Escape")
    await expect(throughput.locator(".shown-values")).to_have_count(0)

    await visit.page.set_viewport_size({"width": 360, "height": 740})
    await throughput.scroll_into_view_if_needed()
    for index in (0, 29, 59):
        each = MINUTES[index]
        assert await point_at(visit.page, throughput, (index + 0.5) / 60) == {
            "ready": str(each["chunks"]),
            "failed": str(each["dead_chunks"]),
            "documents": str(each["documents"]),
            "failed documents": str(each["failed_documents"]),
        }
        plot = await throughput.locator(".plot").bounding_box()
        box = await throughput.locator(".shown-values table").bounding_box()
        assert plot["x"] - 1 <= box["x"]
        assert box["x"] + box["width"] <= plot["x"] + plot["width"] + 1
    await visit.page.mouse.move(1, 1)
    await expect(throughput.locator(".shown-values")).to_have_count(0)


async def test_touch_shows_values_until_next_touch(browser, deployment):
    options = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}", **options) as visit:
        await shows(visit.page, "**/v1/status/history*", {"items": MINUTES})
        await visit.go("/work")
        chart = visit.page.get_by_role("figure", name="Chunks per minute")
        await chart.scroll_into_view_if_needed()
        box = await chart.get_by_role("slider").bounding_box()
        for index in (10, 40):
            await visit.page.touchscreen.tap(box["x"] + box["width"] * (index + 0.5) / 60, box["y"] + 20)
            await expect(chart.locator(".shown-values td").first).to_have_text(str(MINUTES[index]["chunks"]))


async def test_usage_of_days_equals_api(visit, deployment):
    await visit.go("/work")
    chart = visit.page.locator("#costs")
    await expect(chart.get_by_role("slider")).to_be_visible()
    spoken = await read_along(chart)

    items = deployment.client.get("/v1/usage?by=day&days=30").json()["items"]
    assert len(spoken) == 30
    is_priced = any(each["cost"] is not None for each in items)
    assert await chart.get_attribute("aria-label") == ("Cost per day" if is_priced else "Tokens per day")
    calls = sum(each["calls"] for each in items)
    assert calls > 0
    assert sum(int(each.rpartition("calls ")[2].replace(",", "")) for each in spoken) == calls
    if not is_priced:
        tokens = sum(each["prompt_tokens"] + each["completion_tokens"] for each in items if each["kind"] == "generate")
        assert spoken[-1].partition("questions ")[2].startswith(f"{tokens:,}, embedding ")


async def test_quality_over_runs_equals_evaluations(visit, deployment):
    runs = await _evaluated(deployment, 2)
    await visit.go("/lab/compare?collection=default")
    await visit.page.locator(".tools label.inline select").select_option(SET)
    chart = visit.page.get_by_role("figure", name=f"nDCG@10 over the runs of {SET}")

    spoken = await read_along(chart)

    assert [each.partition(", ")[2].partition(": ")[2] for each in spoken[-2:]] == [
        ", ".join(f"{row['strategy']} {row['ndcg@10']:.2f}" for row in run["results"]["rows"]) for run in runs
    ]
    await chart.get_by_label("Metric").select_option("Query time")
    chart = visit.page.locator("#trend")
    await expect(chart).to_contain_text("median of a query")
    assert "ms" in (await read_along(chart))[0]
    await require_accessible(visit.page)
    await visit.page.set_viewport_size({"width": 360, "height": 740})
    assert await fits(visit.page)


async def _evaluated(deployment, number):
    """Return finished runs of a labelled set, oldest first."""
    base = "/v1/collections/default"
    ids = []
    for _ in range(number):
        deployment.client.put(f"{base}/labelled-sets/{SET}", json=LABELLED).raise_for_status()
        body = {"labelled_set": SET, "strategies": ["default", "text"]}
        run = deployment.client.post(f"{base}/evaluations", json=body).raise_for_status().json()["id"]

        async def is_done(run=run):
            return deployment.client.get(f"{base}/evaluations/{run}").json()["state"] == "done"

        await until(is_done)
        ids.append(run)
    return [deployment.client.get(f"{base}/evaluations/{run}").json() for run in ids]


async def test_chart_keeps_its_height_when_data_arrives(visit):
    zeros = [each | {name: 0 for name in each if name != "minute"} for each in MINUTES]
    await shows(visit.page, "**/v1/status/history*", {"items": zeros})
    await visit.go("/work")
    chart = visit.page.locator("#throughput")
    await expect(chart).to_be_visible()
    before = await chart.bounding_box()
    await shows(visit.page, "**/v1/status/history*", {"items": MINUTES})
    await chart.get_by_role("button", name="1 h").click()
    await expect(chart.get_by_role("slider")).to_be_visible()
    after = await chart.bounding_box()
    assert after["height"] == before["height"]


async def test_charts_are_accessible_and_have_contrast(visit, throughput):
    page = visit.page
    await table_of(throughput)
    await throughput.get_by_role("slider").focus()
    await expect(throughput.locator(".shown-values")).to_be_visible()
    await page.emulate_media(reduced_motion="reduce")  # colours change at once
    for width in (360, 1440):
        await page.set_viewport_size({"width": width, "height": 800})
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            await require_accessible(page, f"{width} {scheme}", only_colours=scheme == "dark")
            assert await page.evaluate(CONTRASTS) == []


# Colours of drawn values that have less than 3:1 to the paper (WCAG 1.4.11), which axe does not check.
CONTRASTS = """() => {
    const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const luminance = (colour) => {
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const [red, green, blue] = [...context.getImageData(0, 0, 1, 1).data].map((value) => value / 255)
            .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const box = document.createElement("div");
    document.querySelector(".plot").append(box);
    const paper = luminance(getComputedStyle(document.documentElement).backgroundColor);
    const low = ["main", "bad", "questions", "text", "words", "ready"].filter((name) => {
        box.className = `of-${name}`;
        const [bright, dark] = [luminance(getComputedStyle(box).color), paper].sort((one, two) => two - one);
        return (bright + 0.05) / (dark + 0.05) < 3;
    });
    box.remove();
    return low;
}"""
