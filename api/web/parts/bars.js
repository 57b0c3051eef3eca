// Bars on one scale from 0 to 1: the scores of channels, shares of limits.

import { html, nothing, svg } from "../vendor/lit-html.js";
import { score } from "./format.js";

const CHANNELS = /** @type {const} */ ([
  ["questions", "questions"],
  ["text", "text"],
  ["bm25", "words"],
]);

/** @param {number} share @param {string} kind names the colour */
export function bar(share, kind) {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return svg`<svg class="bar ${kind}" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width="100" height="8"></rect><rect class="fill" width=${width} height="8"></rect></svg>`;
}

/**
 * A mean and its 95 % interval, on a scale that ends at 1.
 * @param {{mean: number, low: number, high: number}} measured @param {number} from where the scale begins @param {boolean} [main]
 */
export function whisker({ mean, low, high }, from, main = false) {
  /** @param {number} value */
  const at = (value) => Math.max(0, (100 * (value - from)) / (1 - from));
  return svg`<svg class="whisker ${main ? "main" : ""}" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">
    <line class="track" x1="0" x2="100" y1="8" y2="8"></line><line x1=${at(low)} x2=${at(high)} y1="8" y2="8"></line>
    <line x1=${at(low)} x2=${at(low)} y1="4" y2="12"></line><line x1=${at(high)} x2=${at(high)} y1="4" y2="12"></line>
    <rect x=${Math.max(0, at(mean) - 0.7)} width="1.4" y="2" height="12"></rect></svg>`;
}

/**
 * Numbers in their order, on a scale that ends at the greatest; what was lost stands on top.
 * @param {{good: number, bad: number}[]} values @param {"bad-part" | "other-part"} [lost] @param {(place: number) => void} [chosen] is told where somebody clicked
 */
export function columns(values, lost = "bad-part", chosen) {
  /** @param {MouseEvent & {currentTarget: Element}} event */
  const clicked = (event) => chosen?.(Math.floor((event.offsetX / event.currentTarget.clientWidth) * values.length));
  const most = Math.max(1, ...values.map((each) => each.good + each.bad));
  const width = 100 / values.length;
  /** @param {string} kind @param {number} place @param {number} value @param {number} from */
  const column = (kind, place, value, from) => value ? svg`<rect class=${kind} x=${place * width} width=${width * 0.8} y=${32 - ((from + value) / most) * 32} height=${(value / most) * 32}></rect>` : nothing;
  return svg`<svg class="columns ${chosen ? "along" : ""}" @click=${clicked} viewBox="0 0 100 32" preserveAspectRatio="none" aria-hidden="true">
    <line class="track" x1="0" x2="100" y1="32" y2="32"></line>
    ${values.map(({ good, bad }, place) => svg`${column("good-part", place, good, 0)}${column(lost, place, bad, good)}`)}</svg>`;
}

/**
 * What each channel says of a chunk.
 * @param {Record<string, {rank: number, score: number}> | null | undefined} places
 * @param {string | null} question that matched
 */
export function channelBars(places, question) {
  if (!places) return nothing;
  return html`<table class="channels">
    <caption class="hidden">Scores of the channels</caption>
    <tbody>
      ${CHANNELS.map(([channel, name]) => {
        const place = places[channel];
        return html`<tr>
          <th scope="row">${name}</th>
          <td>${bar(place?.score ?? 0, channel)}</td>
          <td class="number">${place ? score(place.score) : "\u2013"}</td>
          <td class="soft">${place ? `rank ${place.rank}` : "not found"}</td>
        </tr>`;
      })}
    </tbody>
  </table>
  ${question ? html`<p class="soft small">Closest question: <q dir="auto">${question}</q></p>` : nothing}`;
}

const ordinals = new Intl.PluralRules("en", { type: "ordinal" }); // to make one takes as long as to draw a row
const ENDS = { zero: "th", one: "st", two: "nd", few: "rd", many: "th", other: "th" };

/** @param {number} place */
export const ordinal = (place) => `${place}${ENDS[ordinals.select(place)]}`;
