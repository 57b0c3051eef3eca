// Charts show the API's numbers: in words for each point, as a table, and as columns of the right height.

import assert from "node:assert/strict";
import test from "node:test";
import { Store, attribute, drawn, elements, openPage, settled, stopClock, textOf } from "./browser.mjs";

const START = Date.parse("2026-10-01T08:00:00Z");
const minutesOf = (count) => Array.from({ length: count }, (_, n) => ({
  minute: new Date(START + n * 60_000).toISOString(), chunks: 7 * n, dead_chunks: n % 3, documents: n, failed_documents: n % 2,
}));
const MINUTES = minutesOf(60);
const NAMES = ["chunks", "dead_chunks", "documents", "failed_documents"];

/** Return the charts of a page that has read these replies. */
async function chartsOf({ history = [], usage = [] }) {
  const load = openPage({ replies: (path) => ({ items: path.includes("/usage") ? usage : typeof history === "function" ? history(path) : history }) });
  const charts = await load("parts/charts.js");
  await Promise.all([charts.readThroughput(), charts.readCosts()]);
  return charts;
}

const press = (view, key) => view().handler("keydown")({ key, preventDefault() {}, stopPropagation() {} });
const spoken = (view) => attribute(view().html, "aria-valuetext");

/** Return the words of all points, which the arrow keys visit. */
function readAlong(view) {
  press(view, "Home");
  const found = [spoken(view)];
  while (attribute(view().html, "aria-valuenow") !== attribute(view().html, "aria-valuemax")) {
    press(view, "ArrowRight");
    found.push(spoken(view));
  }
  return found.map((words) => words.slice(words.indexOf(": ") + 2));
}

/** Open the table of a chart, and return the cells of its rows, newest first. */
function tableOf(view) {
  view().handler("toggle")({ target: { open: true } });
  return elements(elements(view().html, "tbody").at(-1), "tr").map((row) => [...elements(row, "th"), ...elements(row, "td")].map(textOf));
}

const number = (html, name) => Number(attribute(html, name));
const columns = (html, colour) => elements(elements(html, "g").find((each) => each.includes(`of-${colour}`)), "rect");

const { ticks } = await openPage()("parts/chart.js");

test("axis has two to four round numbers", () => {
  for (const [low, high, whole, expected] of [
    [0, 0, true, [0, 1]], [0, 1, true, [0, 1]], [0, 7, true, [0, 5, 10]], [0, 413, true, [0, 200, 400, 600]], [0, 2310, true, [0, 1000, 2000, 3000]],
    [0, 0.031, false, [0, 0.02, 0.04]], [0, 7.5, false, [0, 2.5, 5, 7.5]], [0.72, 1, false, [0.7, 0.8, 0.9, 1]], [0.9, 1, false, [0.9, 0.95, 1]],
    [0, 0.0000004, false, [0, 2e-7, 4e-7]], [0, 31_000_000, true, [0, 20_000_000, 40_000_000]],
  ]) assert.deepEqual(ticks(low, high, whole), expected);
});

test("keyboard reads the value of every minute", async () => {
  const { throughput } = await chartsOf({ history: MINUTES });
  const view = () => drawn(throughput());
  assert.deepEqual(readAlong(view), MINUTES.map((each) => (
    `ready ${each.chunks}, failed ${each.dead_chunks}, documents ${each.documents}, failed documents ${each.failed_documents}`)));
  press(view, "ArrowRight"); // the last point stays
  press(view, "ArrowLeft");
  assert.match(view().html, /class="shown-values/);
  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  assert.ok(spoken(view).startsWith(`${clock.format(Date.parse(MINUTES[58].minute))}: ready 406`));
  press(view, "Escape");
  assert.doesNotMatch(view().html, /class="shown-values/);
});

test("pointer shows the values below it", async () => {
  const { throughput } = await chartsOf({ history: MINUTES });
  const currentTarget = { getBoundingClientRect: () => ({ left: 100, width: 300 }) };
  for (const [clientX, index] of [[99, 0], [102.5, 0], [247.5, 29], [397.5, 59], [401, 59]]) {
    drawn(throughput()).handler("pointermove")({ clientX, currentTarget });
    const shown = elements(drawn(throughput()).html, "table")[0];
    assert.deepEqual(elements(shown, "td").map(textOf), NAMES.map((name) => `${MINUTES[index][name]}`), `at ${clientX}`);
  }
  drawn(throughput()).handler("pointerleave")({ pointerType: "touch" });
  assert.match(drawn(throughput()).html, /class="shown-values/);
  drawn(throughput()).handler("pointerleave")({ pointerType: "mouse" });
  assert.doesNotMatch(drawn(throughput()).html, /class="shown-values/);
});

test("table has the numbers of the chart", async () => {
  const { throughput } = await chartsOf({ history: MINUTES });
  const rows = tableOf(() => drawn(throughput()));
  assert.deepEqual(rows.map(([, ...cells]) => cells), MINUTES.slice(1).toReversed().map((each) => NAMES.map((name) => `${each[name]}`)));
});

test("columns have the heights of their values", async () => {
  const { html } = drawn((await chartsOf({ history: MINUTES })).throughput());
  assert.match(textOf(html), /600 400 200 0/);
  const heights = columns(html, "main").map((column) => number(column, "height"));
  assert.equal(heights.length, 59);
  for (const [index, height] of heights.entries()) assert.ok(Math.abs(height - (100 * MINUTES[index + 1].chunks) / 600) < 0.01);
  const failed = columns(html, "bad").at(-1); // is at least 2 % high, above the ready chunks
  assert.ok(Math.abs(number(failed, "y") - (98 - (100 * 7 * 59) / 600)) < 0.01);
});

test("day is summed up by quarters of an hour", async () => {
  const day = minutesOf(1440);
  const { throughput } = await chartsOf({ history: (path) => (path.includes("minutes=1440") ? day : []) });
  drawn(throughput()).handler("click", "24 h")();
  await settled();
  const view = () => drawn(throughput());
  assert.match(view().text, /^Chunks per 15 minutes/);
  const rows = tableOf(view);
  assert.equal(rows.length, 96);
  const sum = (values) => values.reduce((all, each) => all + each, 0);
  assert.equal(sum(rows.map(([, chunks]) => Number(chunks.replaceAll(",", "")))), sum(day.map(({ chunks }) => chunks)));
  assert.ok(rows.every(([time]) => /(?:00|15|30|45)$/.test(time)));
});

test("last hour names its chunks and failures", async () => {
  const { text } = drawn((await chartsOf({ history: MINUTES.slice(1, 4) })).throughput());
  assert.match(text, /42 chunks of 6 documents, 3 chunks and 2 documents failed/);
});

test("calls in flight are those of the status", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const { callsInFlight, sample } = await chartsOf({});
  const limits = [{ name: "llm requests", in_flight: 7, in_flight_limit: 9 }, { name: "embedding requests", in_flight: 2, in_flight_limit: null }];
  sample(limits, { generate: { due: 40, delayed: 5 }, index: { due: 3, delayed: 1 } });
  assert.deepEqual(readAlong(() => drawn(callsInFlight())), [
    "language model 7, language model limit 9, embedding 2, items waiting 43, waiting for a retry 6",
  ]);
  t.mock.timers.tick(20_000); // without a sample
  sample(limits, { generate: { due: 0, delayed: 0 }, index: { due: 0, delayed: 0 } });
  const [, missing] = readAlong(() => drawn(callsInFlight()));
  assert.equal(missing, "language model \u2013, language model limit \u2013, embedding \u2013, items waiting \u2013, waiting for a retry \u2013");
});

const USED = { prompt_tokens: 1000, completion_tokens: 1000, cached_tokens: 1000, cache_write_tokens: 1000, calls: 3, collection: null, model: null };
const usageOf = (...days) => days.map(([day, kind, tier, cost]) => ({ ...USED, day, kind, tier, cost, unpriced_calls: cost ? 0 : 3 }));

test("costs of days are split by kind", async (t) => {
  stopClock(t, "2026-10-02T08:00:00Z");
  const usage = usageOf(["2026-10-01", "generate", "standard", 1.5], ["2026-10-01", "generate", "batch", 0.25], ["2026-10-01", "embed", "standard", 0.125], ["2026-10-02", "embed", "standard", null]);
  const { costs } = await chartsOf({ usage });
  const { html, text } = drawn(costs());
  assert.match(text, /^Cost per day \$1\.88 in 30 days, 3 calls without a price/);
  assert.deepEqual(elements(elements(html, "div").find((each) => each.includes("axis")), "span").map(textOf), ["$2", "$1", "$0"]);
  const days = readAlong(() => drawn(costs()));
  assert.equal(days.length, 30);
  assert.equal(days.at(-2), "questions $1.75, embedding $0.13, tokens 6,000, calls 9");
});

test("usage without prices is shown in tokens", async (t) => {
  stopClock(t, "2026-10-02T08:00:00Z");
  const { costs } = await chartsOf({ usage: usageOf(["2026-10-02", "generate", "standard", null], ["2026-10-02", "embed", "standard", null]) });
  assert.match(drawn(costs()).text, /^Tokens per day 4,000 tokens in 30 days/);
  assert.equal(readAlong(() => drawn(costs())).at(-1), "questions 2,000, embedding 2,000, calls 6");
});

test("empty charts say so", async () => {
  const { costs, throughput } = await chartsOf({ history: MINUTES.map((each) => ({ ...each, chunks: 0, dead_chunks: 0, documents: 0, failed_documents: 0 })) });
  for (const [chart, words] of [[throughput, "No work finished in this time."], [costs, "No calls in the last 30 days."]]) {
    const { html, text } = drawn(chart());
    assert.ok(text.includes(words));
    assert.doesNotMatch(html, /role="slider"/);
  }
});

const rowOf = (strategy, quality) => ({ strategy, "ndcg@10": quality, "recall@10": 1, "mrr@10": 1, milliseconds_per_query: 250 * quality });
const runOf = (created_at, qualities) => ({ created_at, labelled_set: "help", results: { rows: Object.entries(qualities).map(([name, quality]) => rowOf(name, quality)) } });
const RUNS = [runOf("2026-10-02T08:00:00Z", { default: 0.9, text: 0.8 }), runOf("2026-10-01T08:00:00Z", { default: 0.5 })]; // newest first

test("quality is drawn over the runs", async () => {
  const { trend } = await openPage()("parts/trend.js");
  const view = () => drawn(trend(RUNS, "help"));
  assert.match(view().text, /^nDCG@10 over the runs of help/);
  assert.deepEqual(readAlong(view), ["default 0.50, text \u2013", "default 0.90, text 0.80"]);
});

test("query time is drawn if it is chosen", async () => {
  const store = new Store();
  const { trend } = await openPage({ store })("parts/trend.js");
  drawn(trend(RUNS, "help")).handler("change")({ target: { value: "milliseconds_per_query" } });
  const view = () => drawn(trend(RUNS, "help"));
  assert.match(view().text, /2 runs, oldest first: median of a query/);
  assert.deepEqual(readAlong(view), ["default 125 ms, text \u2013", "default 225 ms, text 200 ms"]);
  assert.equal(store.getItem("foreask.metric"), "milliseconds_per_query");
});

test("runs of other sets are not drawn", async () => {
  const { trend } = await openPage()("parts/trend.js");
  assert.match(drawn(trend(RUNS, "other")).text, /No finished run of this set yet\./);
});
