"""Charts show the API's numbers: to the pointer, to the keyboard, and as a table."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect

from tests.page.conftest import until, visiting
from tests.page.test_page import AXE, RULES, SCREENS
from tests.support.planted import guards

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


@guards(
    "api/web/parts/chart.js",
    "ArrowRight: from + 1",
    "ArrowRight: from + 2",
    means="an arrow key skips a point of a chart",
)
async def test_keyboard_reads_value_of_every_minute(throughput):
    spoken = await read_along(throughput)

    clock = "{:%H:%M}".format
    assert [each.partition(": ")[2] for each in spoken] == [
        f"ready {each['chunks']}, failed {each['dead_chunks']}, documents {each['documents']},"
        f" failed documents {each['failed_documents']}"
        for each in MINUTES
    ]
    assert spoken[7].startswith(clock(datetime.fromisoformat(MINUTES[7]["minute"]).astimezone()))
    await throughput.get_by_role("slider").press("Escape")
    await expect(throughput.locator(".shown-values")).to_have_count(0)


@guards(
    "api/web/parts/chart.js",
    "/ box.width) * times.length)",
    "/ box.width) * last)",
    means="the pointer shows the value of a neighbour",
)
@pytest.mark.parametrize("index", [0, 29, 59])
async def test_pointer_shows_values_within_plot(visit, throughput, index):
    await visit.page.set_viewport_size({"width": 360, "height": 740})
    await throughput.scroll_into_view_if_needed()

    shown = await point_at(visit.page, throughput, (index + 0.5) / 60)

    each = MINUTES[index]
    assert shown == {
        "ready": str(each["chunks"]),
        "failed": str(each["dead_chunks"]),
        "documents": str(each["documents"]),
        "failed documents": str(each["failed_documents"]),
    }
    plot, values = await throughput.locator(".plot").bounding_box(), throughput.locator(".shown-values table")
    box = await values.bounding_box()
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


@guards(
    "api/web/parts/chart.js",
    "series.some(({ values: all })",
    "series.every(({ values: all })",
    means="the table of a chart lacks points without failures",
)
async def test_table_has_numbers_of_chart(throughput):
    rows = await table_of(throughput)

    names = ("chunks", "dead_chunks", "documents", "failed_documents")
    assert [row[1:] for row in rows] == [[str(each[name]) for name in names] for each in reversed(MINUTES[1:])]


@guards(
    "api/web/parts/chart.js",
    "drawn.slice(0, order).reduce",
    "drawn.slice(0, 0).reduce",
    means="stacked columns overlap",
)
async def test_columns_have_heights_of_their_values(throughput):
    ready = throughput.locator(".plot .of-main rect")
    await expect(ready).to_have_count(59)
    assert await throughput.locator(".axis span").all_inner_texts() == ["600", "400", "200", "0"]
    heights = [float(await each.get_attribute("height")) for each in await ready.all()]
    assert heights == pytest.approx([100 * each["chunks"] / 600 for each in MINUTES[1:]], abs=0.01)
    failed = throughput.locator(".plot .of-bad rect").last
    at_least_2_percent_high = pytest.approx(98 - 100 * 7 * 59 / 600, abs=0.01)
    assert float(await failed.get_attribute("y")) == at_least_2_percent_high


async def test_day_is_summed_by_quarter_of_hour(visit, deployment, throughput):
    await visit.page.unroute_all()
    await throughput.get_by_role("button", name="24 h").click()
    chart = visit.page.get_by_role("figure", name="Chunks per 15 minutes")
    await expect(chart.get_by_role("slider")).to_be_visible()

    rows = await table_of(chart)

    minutes = deployment.client.get("/v1/status/history?minutes=1440").json()["items"]
    assert sum(int(row[1].replace(",", "")) for row in rows) == sum(each["chunks"] for each in minutes) > 0
    assert {row[0][-2:] for row in rows} <= {"00", "15", "30", "45"}


@guards(
    "api/web/parts/charts.js",
    'values: of(name, "running") }',
    'values: of(name, "most") }',
    means="the chart of running calls shows their limit",
)
async def test_calls_in_flight_equal_status(visit, deployment):
    status = deployment.client.get("/v1/status").json()
    [limit, *_] = status["limits"]
    status["limits"] = [
        limit | {"name": "llm requests", "in_flight": 7, "in_flight_limit": 9},
        limit | {"name": "embedding requests", "in_flight": 2, "in_flight_limit": None},
    ]
    status["stages"]["generate"] |= {"due": 40, "later": 5}
    status["stages"]["index"] |= {"due": 3, "later": 1}
    await shows(visit.page, "**/v1/status", status)
    await visit.go("/work")

    spoken = await read_along(visit.page.get_by_role("figure", name="Calls in flight"))

    waiting, later = (sum(each[name] for each in status["stages"].values()) for name in ("due", "later"))
    assert spoken[0].partition(": ")[2] == (
        f"language model 7, language model limit 9, embedding 2, items waiting {waiting}, waiting for a retry {later}"
    )


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


@guards(
    "api/web/parts/charts.js",
    "each.day === day && isOf(each)",
    'each.day === day && each.tier === "standard" && isOf(each)',
    means="the cost of a day lacks a tier",
)
async def test_costs_of_days_are_split_by_kind(visit):
    today = datetime.now(UTC).date()
    usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens", "written_tokens"), 1000)
    days = [
        usage | {"day": str(today - timedelta(days=ago)), "kind": kind, "tier": tier, "calls": 3, "cost": cost}
        for ago, kind, tier, cost in (
            (1, "generate", "standard", 1.5),
            (1, "generate", "batch", 0.25),
            (1, "embed", "standard", 0.125),
            (0, "embed", "standard", None),
        )
    ]
    items = [each | {"unpriced_calls": 0 if each["cost"] else 3, "collection": None, "model": None} for each in days]
    await shows(visit.page, "**/v1/usage*", {"by": "day", "days": 30, "items": items})
    await visit.go("/work")
    chart = visit.page.get_by_role("figure", name="Cost per day")

    await expect(chart).to_contain_text("$1.88 in 30 days, 3 calls without a price")
    spoken = await read_along(chart)
    assert spoken[-2].partition(": ")[2] == "questions $1.75, embedding $0.13, tokens 6,000, calls 9"
    assert await chart.locator(".axis span").all_inner_texts() == ["$2", "$1", "$0"]


@guards(
    "api/web/parts/trend.js",
    "each.results?.rows).reverse();",
    "each.results?.rows);",
    means="runs are drawn newest first",
)
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
    assert (await AXE.run(visit.page, options=RULES)).violations_count == 0
    await visit.page.set_viewport_size({"width": 360, "height": 740})
    assert await visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def _evaluated(deployment, number):
    """Return finished runs of a labelled set, oldest first."""
    base = "/v1/collections/default"
    ids = []
    for _ in range(number):
        deployment.client.put(f"{base}/labelled/{SET}", json=LABELLED).raise_for_status()
        body = {"labelled_set": SET, "strategies": ["default", "text"]}
        run = deployment.client.post(f"{base}/evaluations", json=body).raise_for_status().json()["id"]

        async def is_done(run=run):
            return deployment.client.get(f"{base}/evaluations/{run}").json()["state"] == "done"

        await until(is_done)
        ids.append(run)
    return [deployment.client.get(f"{base}/evaluations/{run}").json() for run in ids]


async def test_empty_charts_say_so(visit):
    zeros = [each | {name: 0 for name in each if name != "minute"} for each in MINUTES]
    await shows(visit.page, "**/v1/status/history*", {"items": zeros})
    await shows(visit.page, "**/v1/usage*", {"by": "day", "days": 30, "items": []})
    await visit.go("/work")

    throughput = visit.page.get_by_role("figure", name="Chunks per minute")
    await expect(throughput.get_by_text("No work finished in this time.")).to_be_visible()
    await expect(throughput.get_by_role("slider")).to_have_count(0)
    await expect(visit.page.locator("#costs").get_by_text("No calls in the last 30 days.")).to_be_visible()


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
async def test_charts_are_accessible(browser, deployment, scheme, width):
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "bypass_csp": True}
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}", **options) as visit:
        await shows(visit.page, "**/v1/status/history*", {"items": MINUTES})
        await visit.go("/work")
        chart = visit.page.get_by_role("figure", name="Chunks per minute")
        await table_of(chart)
        await chart.get_by_role("slider").focus()
        await expect(chart.locator(".shown-values")).to_be_visible()
        found = await AXE.run(visit.page, options=RULES)
        assert [each["id"] for each in found.response["violations"]] == []
        assert await visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await visit.page.evaluate(CONTRASTS) == []


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


@guards(
    "api/web/parts/chart.js",
    "Math.ceil(high / step)",
    "Math.floor(high / step)",
    means="a value is higher than its axis",
)
@pytest.mark.parametrize(
    ("low", "high", "whole", "ticks"),
    [
        (0, 0, True, [0, 1]),
        (0, 1, True, [0, 1]),
        (0, 7, True, [0, 5, 10]),
        (0, 413, True, [0, 200, 400, 600]),
        (0, 2310, True, [0, 1000, 2000, 3000]),
        (0, 0.031, False, [0, 0.02, 0.04]),
        (0, 7.5, False, [0, 2.5, 5, 7.5]),
        (0.72, 1, False, [0.7, 0.8, 0.9, 1]),
        (0.9, 1, False, [0.9, 0.95, 1]),
        (0, 0.0000004, False, [0, 2e-7, 4e-7]),
        (0, 31_000_000, True, [0, 20_000_000, 40_000_000]),
    ],
)
async def test_axis_has_two_to_four_round_numbers(visit, low, high, whole, ticks):
    await visit.go("/work")
    source = await visit.page.locator("link[href$='/parts/chart.js']").evaluate("(link) => link.href")
    script = "async ([source, ...given]) => (await import(source)).ticks(...given)"
    assert await visit.page.evaluate(script, [source, low, high, whole]) == ticks


async def test_screens_have_at_most_one_primary_action(visit):
    for path in SCREENS:
        await visit.go(path)
        await expect(visit.page.locator("main")).not_to_be_empty()
        assert await visit.page.locator(":is(button, .button).main:visible").count() <= 1, path


async def test_durations_are_written_in_common_units(visit):
    await visit.go("/work")
    source = await visit.page.locator("link[href$='/parts/format.js']").evaluate("(link) => link.href")
    script = "async ([source, given]) => given.map((await import(source)).duration)"
    spoken = {
        0.0031: "3.1 ms",
        0.25: "250 ms",
        2: "2 s",
        89: "89 s",
        2550: "43 min",
        7500: "2 h 5 min",
        273600: "3 d 4 h",
    }
    assert await visit.page.evaluate(script, [source, list(spoken)]) == list(spoken.values())
