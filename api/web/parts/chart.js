// Charts of time series. A module of 3 kB instead of uPlot (23 kB): a canvas has neither text nor colours of the page.

import { html, nothing, svg } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { count } from "./format.js";
import { locale, once, say } from "./words.js";

/**
 * @typedef {"main" | "bad" | "questions" | "text" | "words" | "ready"} Colour
 * @typedef {{
 *   name: string,
 *   colour?: Colour,
 *   values: (number | null)[],
 *   dashed?: boolean,
 *   amount?: (value: number) => string,
 * }} Series a series without a colour is only in the table and in the shown values
 * @typedef {{
 *   id: string,
 *   title: string,
 *   times: string[],
 *   series: Series[],
 *   empty: string,
 *   at: (time: string) => string,
 *   when: string,
 *   mark?: (time: string) => string,
 *   lines?: boolean,
 *   range?: [number, number],
 *   whole?: boolean,
 *   amount?: (value: number) => string,
 *   tick?: (value: number) => string,
 *   facts?: unknown,
 *   tools?: unknown,
 * }} Chart
 *   `at` writes the time of a point and `mark` the labels below the plot; `when` is the heading of the times in the
 *   table; `lines` instead of stacked columns; `range` is shown if the values are within it; `whole`: no fraction of a
 *   value exists; `amount` writes a value and `tick` a label of the vertical axis
 */

const MARKS = 4; // labels below the plot
const VISIBLE = 2; // minimum height of failures, in percent: one among a thousand must be seen
const DOTTED = 40; // a line of more points has no dots

/** @type {{id: string, time: string} | null} the point whose values are shown */
let shown = null;

/** @type {Set<string>} ids of the charts with an open table */
const opened = new Set();

/** @param {string} id @param {string | undefined} time none: hide the values */
function show(id, time) {
  if (shown?.id === id ? shown.time === time : !time) return;
  shown = time ? { id, time } : null;
  redraw();
}

const short = once(() => new Intl.NumberFormat(locale, { notation: "compact", maximumSignificantDigits: 3 }));

/** @param {number} value */
export const shortly = (value) => short().format(value);

/**
 * Return two to four round numbers: the first is at most `low`, the last at least `high`.
 * @param {number} low @param {number} high @param {boolean} [whole]
 */
export function ticks(low, high, whole = false) {
  for (let power = Number(`1e${Math.floor(Math.log10(high - low || 1)) - 1}`); ; power *= 10) {
    for (const step of [power, 2 * power, 2.5 * power, 5 * power]) {
      const first = Math.floor(low / step);
      const last = Math.max(first + 1, Math.ceil(high / step));
      if (last - first > 3 || (whole && step % 1)) continue;
      return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
    }
  }
}

/** @param {Chart} given */
export function chart(given) {
  const { id, title, times, series, empty, when, at, mark = at, lines = false, amount = count, tick = shortly } = given;
  const drawn = series.filter((each) => each.colour);
  const isEmpty = !drawn.some(({ values }) => values.some((value) => (lines ? value !== null : value)));
  const marked = Math.min(MARKS, times.length);
  const marks = Array.from({ length: marked }, (_, index) => times[Math.floor((index * times.length) / marked)]);
  const scale = scaleOf(given, drawn);
  const index = shown?.id === id ? times.indexOf(shown.time) : -1;
  /** @param {On<HTMLDetailsElement>} event */
  const toggled = ({ target }) => (target.open ? opened.add(id) : opened.delete(id), redraw());
  return html`<figure class="chart" id=${id} aria-label=${title}>
    <figcaption>
      <h2>${title}</h2>${given.tools ?? nothing}<p class="soft small number">${given.facts ?? nothing}</p>
    </figcaption>
    ${drawn.length > 1
      ? html`<ul class="legend small" role="list">
          ${drawn.map((each) => html`<li>${swatch(each)} ${each.name}</li>`)}
        </ul>`
      : nothing}
    <div class="axis small soft" aria-hidden="true">
      ${scale.toReversed().map((value) => html`<span>${isEmpty ? "\u00a0" : tick(value)}</span>`)}
    </div>
    <div class="plot">
      ${drawing(drawn, scale, times.length, lines, isEmpty ? -1 : index)}
      ${isEmpty ? html`<p class="soft small">${empty}</p>` : reader(given, index)}
      ${isEmpty || index < 0 ? nothing : values(given, index, amount)}
    </div>
    <div class="marks small soft" aria-hidden="true">
      ${isEmpty ? "\u00a0" : marks.map((time) => html`<span>${mark(time)}</span>`)}
    </div>
    <details class=${isEmpty ? "unseen" : ""} @toggle=${toggled}><summary class="small">${say`Show as table`}</summary>
      <div class="scrolls by-time" tabindex="0" role="region" aria-label=${say`${title} as a table`}><table>
        <thead><tr>
          <th scope="col">${when}</th>${series.map((each) => html`<th scope="col" class="number">${each.name}</th>`)}
        </tr></thead>
        <tbody>${opened.has(id) ? rows(given, at, amount) : nothing}</tbody></table></div></details></figure>`;
}

/** Return the numbers of the vertical axis. @param {Chart} given @param {Series[]} drawn */
function scaleOf({ times, lines, range = [0, 0], whole }, drawn) {
  const known = lines ? drawn.flatMap((each) => each.values.filter((value) => value !== null))
    : times.map((_, index) => drawn.reduce((sum, each) => sum + (each.values[index] ?? 0), 0));
  return ticks(Math.min(range[0], ...known), Math.max(range[1], ...known), whole);
}

/** @param {Series} each */
const swatch = ({ colour, dashed }) => svg`<svg class="swatch of-${colour}" viewBox="0 0 12 12" aria-hidden="true">
  ${dashed
    ? svg`<path class="line dashed" d="M0 6h12"></path>`
    : svg`<rect width="12" height="12" rx="3"></rect>`}</svg>`;

/**
 * @param {Series[]} drawn
 * @param {number[]} scale
 * @param {number} many points
 * @param {boolean} lines
 * @param {number} shownAt index, or -1
 */
function drawing(drawn, scale, many, lines, shownAt) {
  const [low, high] = [scale[0], scale[scale.length - 1]];
  const width = 100 / Math.max(1, many);
  /** @param {number} value */
  const y = (value) => Number((100 - (100 * (value - low)) / (high - low)).toFixed(3));
  return svg`<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
    ${scale.map((value) => svg`<line class="grid" x1="0" x2="100" y1=${y(value)} y2=${y(value)}></line>`)}
    ${shownAt < 0 ? nothing : svg`<rect class="chosen" x=${shownAt * width} width=${width} height="100"></rect>`}
    ${lines
      ? drawn.map((each) => line(each, width, y, shownAt))
      : drawn.map((each, order) => columns(drawn, each, order, width, y))}</svg>`;
}

/**
 * @param {Series[]} drawn
 * @param {Series} each
 * @param {number} order from the bottom
 * @param {number} width
 * @param {(value: number) => number} y
 */
function columns(drawn, each, order, width, y) {
  return svg`<g class="of-${each.colour}">${each.values.map((value, index) => {
    if (!value) return nothing;
    const below = drawn.slice(0, order).reduce((sum, other) => sum + (other.values[index] ?? 0), 0);
    const height = Math.max(y(below) - y(below + value), each.colour === "bad" ? VISIBLE : 0);
    return svg`<rect x=${(index + 0.1) * width} width=${0.8 * width} y=${y(below) - height} height=${height}></rect>`;
  })}</g>`;
}

/** @param {Series} each @param {number} width @param {(value: number) => number} y @param {number} shownAt */
function line({ colour, dashed, values }, width, y, shownAt) {
  /** @param {number} index */
  const x = (index) => Number(((index + 0.5) * width).toFixed(3));
  /** A limit is drawn in steps. @param {number} value @param {number} index */
  const place = (value, index) => (dashed ? `${index * width} ${y(value)}h${width}` : `${x(index)} ${y(value)}`);
  const path = values
    .map((value, index) =>
      value === null ? "" : `${index && values[index - 1] !== null ? "L" : "M"}${place(value, index)}`,
    )
    .join("");
  const dots = values
    .map((value, index) => {
      const isDotted = !dashed && (values.length <= DOTTED || index === shownAt);
      return value === null || !isDotted ? "" : `M${x(index)} ${y(value)}h0`;
    })
    .join("");
  return svg`<g class="of-${colour}"
    ><path class="line ${dashed ? "dashed" : ""}" d=${path}></path><path class="dots" d=${dots}></path></g>`;
}

/**
 * Render the layer that is pointed at, touched, or read with the arrow keys.
 * @param {Chart} given
 * @param {number} index shown one, or -1
 */
function reader({ id, title, times, series, at, amount = count }, index) {
  const last = times.length - 1;
  const now = index < 0 ? last : index;
  /** @param {PointerEvent & {currentTarget: Element}} event */
  const pointed = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    show(id, times[Math.max(0, Math.min(last, Math.floor(((event.clientX - box.left) / box.width) * times.length)))]);
  };
  /** @param {PointerEvent} event */
  const left = (event) => event.pointerType === "mouse" && show(id, undefined);
  /** @param {KeyboardEvent} event */
  const pressed = (event) => {
    // The shown point may differ from the rendered one after a fast key press.
    const from = shown?.id === id ? times.indexOf(shown.time) : last;
    /** @type {Record<string, number | undefined>} */
    const moves = {
      ArrowLeft: from - 1,
      ArrowDown: from - 1,
      ArrowRight: from + 1,
      ArrowUp: from + 1,
      Home: 0,
      End: last,
    };
    const next = moves[event.key];
    if (event.key === "Escape" && shown?.id === id) event.stopPropagation();
    if (event.key === "Escape") show(id, undefined);
    if (next === undefined) return;
    event.preventDefault();
    show(id, times[Math.max(0, Math.min(last, next))]);
  };
  const spoken = `${at(times[now])}: ${series.map((each) => `${each.name} ${written(each, now, amount)}`).join(", ")}`;
  return html`<div class="reader" role="slider" tabindex="0"
    aria-label=${say`${title}, one point at a time`}
    aria-valuemin="0"
    aria-valuemax=${last}
    aria-valuenow=${now}
    aria-valuetext=${spoken}
    @pointermove=${pointed}
    @pointerdown=${pointed}
    @pointerleave=${left}
    @keydown=${pressed}
    @focus=${() => shown?.id !== id && show(id, times[last])}
    @blur=${() => show(id, undefined)}></div>`;
}

/**
 * Render the values of a point above it: the space at its sides is divided like the plot, so that it never leaves the
 * plot.
 * @param {Chart} given
 * @param {number} index
 * @param {(value: number) => string} amount
 */
function values({ times, series, at }, index, amount) {
  const before = (100 * (index + 0.5)) / times.length;
  return html`<div class="shown-values small" aria-hidden="true"
    .style=${`grid-template-columns:minmax(0,${before}fr) auto minmax(0,${100 - before}fr)`}><table>
    <thead><tr><th colspan="2">${at(times[index])}</th></tr></thead>
    <tbody>${series.map(
      (each) => html`<tr>
        <th>${each.colour ? swatch(each) : nothing} ${each.name}</th>
        <td class="number">${written(each, index, amount)}</td>
      </tr>`,
    )}</tbody></table></div>`;
}

/** @param {Series} each @param {number} index @param {(value: number) => string} amount */
function written({ values: all, amount: own }, index, amount) {
  const value = all[index];
  return value === null || value === undefined ? "\u2013" : (own ?? amount)(value);
}

/**
 * Render a row for each point that is not empty, newest first.
 * @param {Chart} given
 * @param {(time: string) => string} at
 * @param {(value: number) => string} amount
 */
function rows({ times, series, lines }, at, amount) {
  return times
    .map((time, index) =>
      series.some(({ values: all }) => (lines ? all[index] !== null : all[index]))
        ? html`<tr><th scope="row">${at(time)}</th>
            ${series.map((each) => html`<td class="number">${written(each, index, amount)}</td>`)}</tr>`
        : nothing,
    )
    .reverse();
}
