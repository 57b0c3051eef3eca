// The results of a labelled set over its runs: quality and query time of each strategy.

import { html } from "../vendor/lit-html.js";
import { redraw, remember, remembered } from "../store.js";
import { chart } from "./chart.js";
import { clockTime, dayOf, duration, plural, score } from "./format.js";
import { say } from "./words.js";

/** @type {[string, string][]} */
const METRICS = [
  ["ndcg@10", "nDCG@10"],
  ["recall@10", "Recall@10"],
  ["mrr@10", "MRR@10"],
  ["milliseconds_per_query", say`Query time`],
];
// Further strategies are in the table only.
const COLOURS = /** @type {const} */ (["main", "text", "words", "questions", "ready"]);

/** @param {string} time */
const at = (time) => `${dayOf(time)}, ${clockTime(time)}`;
const milliseconds = (/** @type {number} */ value) => duration(value / 1000);

/** @param {string} metric */
const choose = (metric) => (remember("metric", metric), redraw());

/** @param {import("../routes/compare.js").Run[]} runs newest first @param {string} set name of the labelled set */
export function trend(runs, set) {
  const done = runs.filter((each) => each.labelled_set === (set || null) && each.results?.rows).reverse();
  const [metric, title] = METRICS.find(([name]) => name === remembered("metric")) ?? METRICS[0];
  const isTime = metric === "milliseconds_per_query";
  const strategies = [...new Set(done.flatMap((each) => (each.results?.rows ?? []).map((row) => row.strategy)))];
  const series = strategies.map((name, index) => ({ name, colour: COLOURS[index],
    values: done.map((each) => each.results?.rows?.find((row) => row.strategy === name)?.[metric] ?? null) }));
  const isOneDay = done.length > 0 && dayOf(done[0].created_at) === dayOf(done[done.length - 1].created_at);
  const known = series.flatMap((each) => each.values.filter((value) => value !== null));
  /** @type {[number, number]} */
  const range = isTime ? [0, 0] : [Math.min(0.9, ...known), 1];
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => choose(event.target.value);
  const runsShown = plural(done.length, "run");
  return chart({
    id: "trend",
    title: set ? say`${title} over the runs of ${set}` : say`${title} over the runs`,
    times: done.map((each) => each.created_at),
    at,
    mark: isOneDay ? clockTime : dayOf,
    when: say`run`,
    series,
    lines: true,
    range,
    tools: html`<label class="inline small">${say`Metric`} <select @change=${chosen}>${METRICS.map(
      ([name, words]) => html`<option value=${name} ?selected=${name === metric}>${words}</option>`,
    )}</select></label>`,
    facts: isTime
      ? say`${runsShown}, oldest first: median of a query, without embedding`
      : say`${runsShown}, oldest first`,
    empty: say`No finished run of this set yet.`,
    ...(isTime ? { amount: milliseconds, tick: milliseconds } : { amount: score, tick: score }),
  });
}
