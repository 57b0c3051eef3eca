// Bar charts: scores and rate-limit usage on a scale from 0 to 1.

import { html, nothing, svg } from "../vendor/lit-html.js";
import { count, score } from "./format.js";
import { say } from "./words.js";

const CHANNELS = /** @type {const} */ ([
  ["questions", say`questions`],
  ["text", say`text`],
  ["bm25", say`words`],
]);

/** @param {number} share @param {string} kind names the colour */
export function bar(share, kind) {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return svg`<svg class="bar ${kind}" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width="100" height="8"></rect><rect class="fill" width=${width} height="8"></rect></svg>`;
}

/**
 * Draw a mean with its 95 % confidence interval, on a scale that ends at 1.
 * @param {{mean: number, low: number, high: number}} measured @param {number} from start of the scale
 * @param {boolean} [main]
 */
export function whisker({ mean, low, high }, from, main = false) {
  /** @param {number} value */
  const at = (value) => Math.max(0, (100 * (value - from)) / (1 - from));
  const look = main ? "main" : "";
  return svg`<svg class="whisker ${look}" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">
    <line class="track" x1="0" x2="100" y1="8" y2="8"></line><line x1=${at(low)} x2=${at(high)} y1="8" y2="8"></line>
    <line x1=${at(low)} x2=${at(low)} y1="4" y2="12"></line><line x1=${at(high)} x2=${at(high)} y1="4" y2="12"></line>
    <rect x=${Math.max(0, at(mean) - 0.7)} width="1.4" y="2" height="12"></rect></svg>`;
}

/**
 * Draw a column per value, scaled to the largest. The second value is stacked on top of the first.
 * @param {{good: number, bad: number}[]} values @param {"bad-part" | "other-part"} [lost]
 * @param {(index: number) => void} [chosen] called with the index of the clicked column
 */
export function columns(values, lost = "bad-part", chosen) {
  /** @param {MouseEvent & {currentTarget: Element}} event */
  const clicked = (event) => chosen?.(Math.floor((event.offsetX / event.currentTarget.clientWidth) * values.length));
  const most = Math.max(1, ...values.map((each) => each.good + each.bad));
  const width = 100 / values.length;
  /** @param {string} kind @param {number} index @param {number} value @param {number} from */
  const column = (kind, index, value, from) =>
    value
      ? svg`<rect class=${kind}
          x=${index * width} width=${width * 0.8}
          y=${32 - ((from + value) / most) * 32} height=${(value / most) * 32}></rect>`
      : nothing;
  return svg`<svg class="columns ${chosen ? "along" : ""}" @click=${clicked}
      viewBox="0 0 100 32" preserveAspectRatio="none" aria-hidden="true">
    <line class="track" x1="0" x2="100" y1="32" y2="32"></line>
    ${values.map(
      ({ good, bad }, index) => svg`${column("good-part", index, good, 0)}${column(lost, index, bad, good)}`,
    )}</svg>`;
}

/**
 * Draw a chunk's score and rank in each channel.
 * @param {Record<string, {rank: number, score: number}> | null | undefined} ranks by channel
 * @param {string | null} question matched question
 */
export function channelBars(ranks, question) {
  if (!ranks) return nothing;
  return html`<table class="channels">
    <caption class="hidden">${say`Scores of the channels`}</caption>
    <tbody>
      ${CHANNELS.map(([channel, name]) => {
        const match = ranks[channel];
        return html`<tr>
          <th scope="row">${name}</th>
          <td>${bar(match?.score ?? 0, channel)}</td>
          <td class="number">${match ? score(match.score) : "\u2013"}</td>
          <td class="soft">${match ? say`rank ${count(match.rank)}` : say`not found`}</td>
        </tr>`;
      })}
    </tbody>
  </table>
  ${question
    ? html`<p class="soft small">${say`Closest question: ${html`<q dir="auto">${question}</q>`}`}</p>`
    : nothing}`;
}
