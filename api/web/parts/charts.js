// The charts of the screen Work: finished chunks, calls in flight, and costs per day.

import { html, nothing } from "../vendor/lit-html.js";
import { get, latest } from "../api.js";
import { redraw } from "../store.js";
import { chart } from "./chart.js";
import { clockSeconds, clockTime, count, dayOf, dayTime, money, plural, shortMoney } from "./format.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

// Minutes of the chart, minutes of a column, the name of the time and the title.
const SPANS = /** @type {const} */ ([
  [60, 1, say`${1} h`, say`Chunks per minute`],
  [360, 5, say`${6} h`, say`Chunks per 5 minutes`],
  [1440, 15, say`${24} h`, say`Chunks per 15 minutes`],
]);
const NAMES = /** @type {const} */ (["chunks", "dead_chunks", "documents", "failed_documents"]);
const DAYS = 30;
const SAMPLES = 300; // ten minutes
const GAP = 10_000; // milliseconds without a sample that interrupt the line
const COMPONENTS = ["llm", "embedding"];
/** The names of components and of their limits. @type {Record<string, {name: string, limit: string}>} */
const CALLS = {
  llm: { name: say`language model`, limit: say`language model limit` },
  embedding: { name: say`embedding`, limit: say`embedding limit` },
};

/**
 * @typedef {{
 *   time: string,
 *   calls: Record<string, {running: number, most: number | null}> | null,
 *   waiting: number,
 *   delayed: number,
 * }} Sample
 */

/** @type {{minutes: number, history: Api["MinuteView"][], days: Api["UsageGroupView"][], samples: Sample[]}} */
const drawn = { minutes: 60, history: [], days: [], samples: [] };

const newest = latest();

/** @param {number} minutes */
const historyOf = async (minutes) => (await get(`/v1/status/history?minutes=${minutes}`)).items;

export async function readThroughput() {
  const { minutes } = drawn;
  const history = await historyOf(minutes);
  if (minutes === drawn.minutes) drawn.history = history;
}

export async function readCosts() {
  drawn.days = (await get(`/v1/usage?by=day&days=${DAYS}`)).items;
}

/** @param {number} minutes */
async function choose(minutes) {
  try {
    const history = await newest(historyOf(minutes));
    Object.assign(drawn, { minutes, history });
  } catch (problem) {
    notify(problem.message);
  }
  redraw();
}

/**
 * Sum up minutes into columns that start at round times.
 * @param {Api["MinuteView"][]} minutes
 * @param {number} width of a column in minutes
 */
function columnsOf(minutes, width) {
  /** @type {Map<string, Record<typeof NAMES[number], number>>} */
  const columns = new Map();
  for (const each of minutes) {
    const start = new Date(Math.floor(Date.parse(each.minute) / (width * 60_000)) * width * 60_000).toISOString();
    const column = columns.get(start) ?? { chunks: 0, dead_chunks: 0, documents: 0, failed_documents: 0 };
    for (const name of NAMES) column[name] += each[name];
    columns.set(start, column);
  }
  return columns;
}

export function throughput() {
  const [, width, , words] = SPANS.find(([minutes]) => minutes === drawn.minutes) ?? SPANS[0];
  const columns = columnsOf(drawn.history, width);
  const all = [...columns.values()];
  /** @param {typeof NAMES[number]} name */
  const of = (name) => all.map((each) => each[name]);
  /** @param {typeof NAMES[number]} name */
  const sum = (name) => of(name).reduce((total, each) => total + each, 0);
  const [chunks, dead, documents, failed] = NAMES.map(sum);
  return chart({
    id: "throughput",
    title: words,
    times: [...columns.keys()],
    at: width > 1 ? dayTime : clockTime,
    mark: clockTime,
    when: width > 1 ? say`from` : say`minute`,
    whole: true,
    empty: say`No work finished in this time.`,
    tools: html`<div role="group" aria-label=${say`Time shown`} class="tabs">${SPANS.map(
      ([minutes, , name]) => html`<button class="quiet"
        aria-pressed=${String(minutes === drawn.minutes)} @click=${() => choose(minutes)}>${name}</button>`,
    )}</div>`,
    facts: html`${say`${plural(chunks, "chunk")} of ${plural(documents, "document")}`}${dead || failed
      ? html`, <span class="bad">${failedOf(dead, failed)}</span>`
      : nothing}`,
    series: [
      { name: say`ready`, colour: "main", values: of("chunks") },
      { name: say`failed`, colour: "bad", values: of("dead_chunks") },
      { name: say`documents`, values: of("documents") },
      { name: say`failed documents`, values: of("failed_documents") },
    ],
  });
}

/** Name the failures of a time. @param {number} chunks @param {number} documents */
function failedOf(chunks, documents) {
  const [ofChunks, ofDocuments] = [plural(chunks, "chunk"), plural(documents, "document")];
  if (!chunks || !documents) return say`${chunks ? ofChunks : ofDocuments} failed`;
  return say`${ofChunks} and ${ofDocuments} failed`;
}

/**
 * Remember the calls in flight, because the server reports only the current ones.
 * @param {Api["LimitView"][] | null} limits
 * @param {Record<string, Api["StageView"]>} stages
 */
export function sample(limits, stages) {
  const now = Date.now();
  const latest = drawn.samples.at(-1);
  const before = latest ? Date.parse(latest.time) : now;
  if (now - before > GAP) {
    drawn.samples.push({ time: new Date(before + 1).toISOString(), calls: null, waiting: 0, delayed: 0 });
  }
  /** @type {Sample["calls"]} */
  const calls = {};
  for (const { name, in_flight: running, in_flight_limit: most } of limits ?? []) {
    const component = name.split(" ")[0];
    if (COMPONENTS.includes(component)) calls[component] = { running, most };
  }
  const sum = (/** @type {"due" | "delayed"} */ name) =>
    Object.values(stages).reduce((total, stage) => total + stage[name], 0);
  drawn.samples.push({
    time: new Date(now).toISOString(),
    calls: limits && calls,
    waiting: sum("due"),
    delayed: sum("delayed"),
  });
  drawn.samples = drawn.samples.slice(-SAMPLES);
}

export function callsInFlight() {
  const { samples } = drawn;
  const components = COMPONENTS.filter((name) => samples.some(({ calls }) => calls?.[name]));
  /** @param {string} name @param {"running" | "most"} field */
  const of = (name, field) => samples.map(({ calls }) => calls?.[name]?.[field] ?? null);
  const known = (/** @type {"waiting" | "delayed"} */ field) =>
    samples.map((each) => (each.calls ? each[field] : null));
  /** @type {import("./chart.js").Series[]} */
  const lines = components.flatMap((name, index) => {
    const colour = /** @type {const} */ (["main", "words"])[index];
    const limit = of(name, "most");
    const isLimited = limit.some((each) => each !== null);
    return [
      { name: CALLS[name].name, colour, values: of(name, "running") },
      ...(isLimited ? [{ name: CALLS[name].limit, colour, dashed: true, values: limit }] : []),
    ];
  });
  return chart({
    id: "calls",
    title: say`Calls in flight`,
    times: samples.map((each) => each.time),
    at: clockSeconds,
    when: say`time`,
    whole: true,
    lines: true,
    range: [0, 1],
    facts: say`since you opened this screen, at most 10 min`,
    empty: say`Unknown: the broker is unavailable.`,
    series: [
      ...lines,
      { name: say`items waiting`, values: known("waiting") },
      { name: say`waiting for a retry`, values: known("delayed") },
    ],
  });
}

/** Return the last days in UTC, oldest first. @param {Api["UsageGroupView"][]} items */
function lastDays(items) {
  const today = Math.max(Date.now(), ...items.map((each) => Date.parse(each.day ?? "1970-01-01")));
  const day = (/** @type {number} */ index) => new Date(today - (DAYS - 1 - index) * 86_400_000);
  return Array.from({ length: DAYS }, (_, index) => day(index).toISOString().slice(0, 10));
}


/** Draw the costs, or the tokens if no price is known. */
export function costs() {
  const { days } = drawn;
  const times = lastDays(days);
  /** @param {(each: Api["UsageGroupView"]) => boolean} isOf @param {(each: Api["UsageGroupView"]) => number} amount */
  const by = (isOf, amount) =>
    times.map((day) =>
      days.filter((each) => each.day === day && isOf(each)).reduce((sum, each) => sum + amount(each), 0),
    );
  const tokens = (/** @type {Api["UsageGroupView"]} */ each) => each.prompt_tokens + each.completion_tokens;
  const cost = (/** @type {Api["UsageGroupView"]} */ each) => each.cost ?? 0;
  const isPriced = days.some((each) => each.cost); // embedded models are free
  const main = isPriced ? cost : tokens;
  const total = days.reduce((sum, each) => sum + main(each), 0);
  const unpriced = days.reduce((sum, each) => sum + each.unpriced_calls, 0);
  const inTable = isPriced ? [{ name: say`tokens`, values: by(() => true, tokens), amount: count }] : [];
  return chart({
    id: "costs",
    title: isPriced ? say`Cost per day` : say`Tokens per day`,
    times,
    at: dayOf,
    when: say`day (UTC)`,
    whole: !isPriced,
    empty: say`No calls in the last ${DAYS} days.`,
    ...(isPriced ? { amount: money, tick: shortMoney } : {}),
    facts: [
      say`${isPriced ? money(total) : plural(total, "token")} in ${DAYS} days`,
      ...(unpriced ? [say`${plural(unpriced, "call")} without a price`] : []),
    ].join(", "),
    series: [
      { name: say`questions`, colour: "questions", values: by((each) => each.kind === "generate", main) },
      { name: say`embedding`, colour: "text", values: by((each) => each.kind === "embed", main) },
      ...inTable,
      { name: say`calls`, values: by(() => true, (each) => each.calls), amount: count },
    ],
  });
}
