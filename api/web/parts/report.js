// An evaluation report: the scores of each strategy with confidence intervals, and the differences by question.

import { html, nothing, svg } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { whisker } from "./bars.js";
import { count, decimal, duration, plural, score } from "./format.js";
import { say } from "./words.js";

const METRICS = /** @type {const} */ ([["mrr@10", "MRR"], ["recall@1", "R@1"], ["recall@10", "R@10"]]);
const FEW = 30;
const SHOWN = 10;
// Weights that make Explain rank as the strategy does.
/** @type {Record<string, string>} */
const WEIGHTS = { questions: "1,0,0", text: "0,1,0", bm25: "0,0,1" }; // the other strategies use the collection's weights

/**
 * @typedef {Record<string, any>} Row results of one strategy
 * @typedef {{question: string, now: number, before: number}} Difference
 * @typedef {{queries: number, baseline: string | null, default: string, rows: Row[], notes: string[],
 *   left_out: {strategy: string, reason: string}[], per_query: Record<string, Record<string, number>>}} Results
 */

/** @param {Results} results @param {string} chosen strategy whose questions are shown @param {(strategy: string) => void} choose */
export function report(results, chosen, choose) {
  const low = Math.min(0.9, Math.floor(Math.min(...results.rows.map((row) => row["ndcg@10_low"])) * 10) / 10);
  return html`${results.queries < FEW ? html`<p class="warning">${say`${plural(results.queries, "question")} is too few to detect small differences. Label at least ${FEW}.`}</p>` : nothing}
    <div class="scrolls" tabindex="0" role="region" aria-label=${say`Strategies`}><table class="compared">
      <caption class="hidden">${say`Results of each strategy, and the difference from ${results.baseline ?? say`none`}`}</caption>
      <thead><tr><th scope="col">${say`strategy`}</th><th scope="col">${say`nDCG@10 with its 95\u00a0% interval`}</th><th scope="col" class="number"><span class="hidden">nDCG@10</span></th>
        ${METRICS.map(([, name]) => html`<th scope="col" class="number">${name}</th>`)}<th scope="col" class="number">${say`vs. ${results.baseline ?? say`none`}`}</th><th scope="col" class="number">p</th><th scope="col" class="number">${say`time`}</th></tr></thead>
      <tbody>${results.rows.map((row) => html`<tr>
        <th scope="row">${row.strategy === results.baseline ? row.strategy : html`<button class="quiet" aria-pressed=${String(row.strategy === chosen)} @click=${() => choose(row.strategy)}>${row.strategy}</button>`}</th>
        <td class="interval">${whisker({ mean: row["ndcg@10"], low: row["ndcg@10_low"], high: row["ndcg@10_high"] }, low, row.strategy === results.default)}</td><td class="number"><strong>${score(row["ndcg@10"])}</strong></td>
        ${METRICS.map(([metric]) => html`<td class="number">${score(row[metric])}</td>`)}
        <td class="number">${difference(row, results.baseline)}</td><td class="number">${probability(row.p_value)}</td>
        <td class="number">${duration(row.milliseconds_per_query / 1000)}</td></tr>`)}</tbody>
    </table></div>
    <p class="soft small">${say`Scale: ${decimal(low, 1)} to 1. p: probability of a difference from ${results.baseline ?? say`none`} at least this large by chance. Time: median of a query, without embedding.`}</p>
    ${[...new Set([...results.left_out.map((each) => say`${each.strategy} was skipped: ${each.reason}`), ...results.notes])].map((note) => html`<p class="soft small" dir="auto">${note}</p>`)}
    ${chosen && results.baseline && results.per_query[chosen] ? questions(results, chosen, results.baseline) : nothing}`;
}

/** @param {Row} row @param {string | null} baseline */
function difference(row, baseline) {
  if (row.strategy === baseline) return html`<span class="soft">${say`baseline`}</span>`;
  if (row.difference === null || row.difference === undefined) return "";
  const chance = row.difference_low <= 0 && row.difference_high >= 0;
  return html`${signed(row.difference)} <span class="soft">[${signed(row.difference_low)}, ${signed(row.difference_high)}]</span>${chance ? html` <span class="soft">${say`not significant`}</span>` : nothing}`;
}

export const signed = (/** @type {number} */ value) => `${value < 0 ? "\u2212" : "+"}${score(Math.abs(value))}`;
export const probability = (/** @type {number | null | undefined} */ value) => (value === null || value === undefined ? "" : value < 0.001 ? `<${decimal(0.001, 3)}` : decimal(value, 3));

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
    <p><span class="good">${say`${count(better.length)} better`}</span> \u00b7 ${say`${count(equal)} equal`} \u00b7 <span class="bad">${say`${count(worse.length)} worse`}</span></p>
    ${listed(say`Worse`, worse, chosen, baseline, true)} ${listed(say`Better`, better, chosen, baseline, false)}`;
}

/** Draw each question's difference as a bar, best first. The lists below show the same in text. @param {Difference[]} changes */
function differences(changes) {
  const width = 100 / changes.length;
  const most = Math.max(0.1, ...changes.map(({ now, before }) => Math.abs(now - before)));
  return svg`<svg class="differences" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label=${say`Difference per question, best first`}>
    <line class="track" x1="0" x2="100" y1="20" y2="20"></line>
    ${changes.map(({ now, before }, index) => svg`<rect class=${now < before ? "worse" : "better"} x=${index * width} width=${width * 0.85}
      y=${now < before ? 20 : 20 - ((now - before) / most) * 20} height=${Math.max(0.4, (Math.abs(now - before) / most) * 20)}></rect>`)}</svg>`;
}

/** @param {string} words @param {Difference[]} changes @param {string} chosen @param {string} baseline @param {boolean} isOpen */
function listed(words, changes, chosen, baseline, isOpen) {
  if (!changes.length) return nothing;
  const explain = (/** @type {string} */ question, /** @type {string} */ strategy) => (strategy in WEIGHTS
    ? html`<a href=${`${ROOT}/lab/explain#q=${encodeURIComponent(question)}&weights=${WEIGHTS[strategy]}`}>${say`as ${strategy}`}</a>` : nothing);
  return html`<details ?open=${isOpen}><summary>${words}: ${plural(changes.length, "question")}</summary>
    <ul class="questions wrapping" role="list">${changes.slice(0, SHOWN).map(({ question, now, before }) => html`<li>
      <span class="grow" dir="auto">${question}</span><span class="number">${score(before)} \u2192 ${score(now)}</span>
      <span class="small">${say`Explain`} ${explain(question, chosen)} ${explain(question, baseline)}</span></li>`)}</ul>
    ${changes.length > SHOWN ? html`<p class="soft small">${say`and ${count(changes.length - SHOWN)} more with smaller differences`}</p>` : nothing}</details>`;
}

/** @param {Api["DifferenceView"][]} items */
export function runsCompared(items) {
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${say`Two runs`}><table>
    <caption class="hidden">${say`Two runs, strategy by strategy`}</caption>
    <thead><tr><th scope="col">${say`strategy`}</th><th scope="col" class="number">${say`before`}</th><th scope="col" class="number">${say`now`}</th><th scope="col" class="number">${say`difference`}</th><th scope="col" class="number">p</th><th scope="col" class="number">${say`questions`}</th></tr></thead>
    <tbody>${items.map((each) => html`<tr><th scope="row">${each.strategy}</th><td class="number">${score(each.before)}</td><td class="number">${score(each.now)}</td>
      <td class="number">${signed(each.difference.mean)} <span class="soft">[${signed(each.difference.low)}, ${signed(each.difference.high)}]</span></td>
      <td class="number">${probability(each.p_value)}</td><td class="number">${each.queries}</td></tr>`)}</tbody></table></div>`;
}
