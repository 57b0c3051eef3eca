// An evaluation report: the scores of each strategy with confidence intervals, and the differences by question.

import { html, nothing, svg } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { table } from "../kit/table.js";
import { whisker } from "./bars.js";
import { count, decimal, duration, plural, score } from "./format.js";
import { describe } from "./strategies.js";
import { say } from "./words.js";

const METRICS = /** @type {const} */ ([["mrr@10", "MRR"], ["recall@1", "R@1"], ["recall@10", "R@10"]]);
const FEW = 30;
const SHOWN = 10;
// Weights that make Explain rank as the strategy does.
/** The other strategies use the collection's weights. @type {Record<string, string>} */
const WEIGHTS = { questions: "1,0,0", text: "0,1,0", bm25: "0,0,1" };

/**
 * @typedef {Record<string, any>} Row results of one strategy
 * @typedef {{question: string, now: number, before: number}} Difference
 * @typedef {{queries: number, baseline: string | null, default: string, rows: Row[], notes: string[],
 *   left_out: {strategy: string, reason: string}[], per_query: Record<string, Record<string, number>>}} Results
 */

/**
 * @param {Results} results
 * @param {string} chosen strategy whose questions are shown
 * @param {(strategy: string) => void} choose
 */
export function report(results, chosen, choose) {
  const low = Math.min(0.9, Math.floor(Math.min(...results.rows.map((row) => row["ndcg@10_low"])) * 10) / 10);
  const baseline = results.baseline ?? say`none`;
  const scale = say`Scale: ${decimal(low, 1)} to 1. p: probability of a difference from ${baseline} at least this large by chance. Time: median of a query, without embedding.`;
  const few = say`${plural(results.queries, "question")} is too few to detect small differences. Label at least ${FEW}.`;
  const skipped = results.left_out.map((each) => say`${each.strategy} was skipped: ${each.reason}`);
  const notes = new Set([...skipped, ...results.notes]);
  return html`${results.queries < FEW ? html`<p class="warning">${few}</p>` : nothing}
    <div class="compared scrolls" tabindex="0" role="region" aria-label=${say`Strategies`}>
      ${measured(results, low, chosen, choose)}</div>
    <p class="soft small">${scale}</p>
    ${[...notes].map((note) => html`<p class="soft small" dir="auto">${note}</p>`)}
    ${chosen && results.baseline && results.per_query[chosen]
      ? questions(results, chosen, results.baseline)
      : nothing}`;
}

/**
 * @param {Results} results @param {number} low start of the scale
 * @param {string} chosen @param {(strategy: string) => void} choose
 */
function measured({ rows, baseline, default: usual }, low, chosen, choose) {
  const other = baseline ?? say`none`;
  /** @param {Row} row */
  function interval(row) {
    const of = { mean: row["ndcg@10"], low: row["ndcg@10_low"], high: row["ndcg@10_high"] };
    return whisker(of, low, row.strategy === usual);
  }
  /** @param {string} strategy */
  const button = (strategy) => html`<button class="quiet" aria-pressed=${String(strategy === chosen)}
    @click=${() => choose(strategy)}>${strategy}</button>`;
  /** @param {Row} row */
  const name = ({ strategy }) => html`<span class="kit-words">
    <span>${strategy === baseline ? strategy : button(strategy)}</span>
    <span class="kit-hint">${describe(strategy)}</span></span>`;
  const metrics = METRICS.map(([metric, words]) => ({
    words, cell: (/** @type {Row} */ row) => score(row[metric]), number: true,
  }));
  return table({ label: say`Results of each strategy, and the difference from ${other}`, rows, columns: [
    { words: say`strategy`, cell: name, main: true, width: "minmax(10rem, 2fr)" },
    { words: say`nDCG@10 with its 95\u00a0% interval`, cell: interval, width: "minmax(7rem, 1fr)", silent: true },
    { words: "nDCG@10", cell: (row) => html`<strong>${score(row["ndcg@10"])}</strong>`, number: true },
    ...metrics,
    { words: say`vs. ${other}`, cell: (row) => difference(row, baseline), number: true },
    { words: "p", cell: (row) => probability(row.p_value), number: true },
    { words: say`time`, cell: (row) => duration(row.milliseconds_per_query / 1000), number: true },
  ] });
}

/** @param {Row} row @param {string | null} baseline */
function difference(row, baseline) {
  if (row.strategy === baseline) return html`<span class="soft">${say`baseline`}</span>`;
  if (row.difference === null || row.difference === undefined) return "";
  const chance = row.difference_low <= 0 && row.difference_high >= 0;
  return html`<span>${withInterval(row.difference, row.difference_low, row.difference_high)}
    ${chance ? html`<span class="soft">${say`not significant`}</span>` : nothing}</span>`;
}

/** @param {number} mean @param {number} low @param {number} high */
const withInterval = (mean, low, high) => html`<span>${signed(mean)}
  <span class="soft">[${signed(low)}, ${signed(high)}]</span></span>`;

export const signed = (/** @type {number} */ value) => `${value < 0 ? "\u2212" : "+"}${score(Math.abs(value))}`;
/** @param {number | null | undefined} value none: of the baseline */
export function probability(value) {
  if (value === null || value === undefined) return "\u2013";
  return value < 0.001 ? `<${decimal(0.001, 3)}` : decimal(value, 3);
}

/** @param {Results} results @param {string} chosen @param {string} baseline */
function questions(results, chosen, baseline) {
  const [own, other] = [results.per_query[chosen], results.per_query[baseline]];
  const changes = Object.keys(own).map((question) => ({ question, now: own[question], before: other[question] ?? 0 }));
  changes.sort((one, two) => two.now - two.before - (one.now - one.before));
  const better = changes.filter((each) => each.now > each.before);
  const worse = changes.filter((each) => each.now < each.before).reverse();
  const equal = changes.length - better.length - worse.length;
  return html`<h2>${say`${chosen} vs. ${baseline}, by question`}</h2>
    ${differences(changes)}
    <p><span class="good">${say`${count(better.length)} better`}</span> \u00b7
      ${say`${count(equal)} equal`} \u00b7
      <span class="bad">${say`${count(worse.length)} worse`}</span></p>
    ${listed(say`Worse`, worse, chosen, baseline, true)} ${listed(say`Better`, better, chosen, baseline, false)}`;
}

/**
 * Draw each question's difference as a bar, best first. The lists below show the same in text.
 * @param {Difference[]} changes
 */
function differences(changes) {
  const width = 100 / changes.length;
  const most = Math.max(0.1, ...changes.map(({ now, before }) => Math.abs(now - before)));
  return svg`<svg class="differences" viewBox="0 0 100 40" preserveAspectRatio="none"
      role="img" aria-label=${say`Difference per question, best first`}>
    <line class="track" x1="0" x2="100" y1="20" y2="20"></line>
    ${changes.map(({ now, before }, index) => svg`<rect class=${now < before ? "worse" : "better"}
      x=${index * width}
      width=${width * 0.85}
      y=${now < before ? 20 : 20 - ((now - before) / most) * 20}
      height=${Math.max(0.4, (Math.abs(now - before) / most) * 20)}></rect>`)}</svg>`;
}

/**
 * @param {string} words
 * @param {Difference[]} changes
 * @param {string} chosen
 * @param {string} baseline
 * @param {boolean} isOpen
 */
function listed(words, changes, chosen, baseline, isOpen) {
  if (!changes.length) return nothing;
  const explain = (/** @type {string} */ question, /** @type {string} */ strategy) => {
    if (!(strategy in WEIGHTS)) return nothing;
    const address = `${ROOT}/lab/explain#q=${encodeURIComponent(question)}&weights=${WEIGHTS[strategy]}`;
    return html`<a href=${address}>${say`as ${strategy}`}</a>`;
  };
  return html`<details ?open=${isOpen}><summary>${words}: ${plural(changes.length, "question")}</summary>
    <ul class="questions wrapping" role="list">${changes.slice(0, SHOWN).map(({ question, now, before }) => html`<li>
      <span class="grow" dir="auto">${question}</span><span class="number">${score(before)} \u2192 ${score(now)}</span>
      <span class="small">${say`Explain`} ${explain(question, chosen)} ${explain(question, baseline)}</span>
    </li>`)}</ul>
    ${changes.length > SHOWN
      ? html`<p class="soft small">${say`and ${count(changes.length - SHOWN)} more with smaller differences`}</p>`
      : nothing}</details>`;
}

/** @param {Api["DifferenceView"][]} items */
export const runsCompared = (items) => table({ label: say`Two runs, strategy by strategy`, rows: items, columns: [
  { words: say`strategy`, cell: (each) => each.strategy, main: true },
  { words: say`before`, cell: (each) => score(each.before), number: true },
  { words: say`now`, cell: (each) => score(each.now), number: true },
  { words: say`difference`, cell: ({ difference: by }) => withInterval(by.mean, by.low, by.high), number: true },
  { words: "p", cell: (each) => probability(each.p_value), number: true },
  { words: say`questions`, cell: (each) => count(each.queries), number: true },
] });
