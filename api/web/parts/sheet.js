// The table of a spreadsheet, from the text that the parser made of it, with the rows of a passage marked.

import { html, nothing } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { unitsBefore } from "./cited.js";
import { count } from "./format.js";
import { tableOf } from "./markdown.js";
import { say } from "./words.js";

const BEFORE = 100; // rows above the passage
const STEP = 400;
const DELIMITER = /^\s*\|(?:\s*:?-+:?\s*\|)+\s*$/;

/** @typedef {[number, number]} Span half-open */
/**
 * A table: its lines, the marked rows, and the shown rows.
 * @typedef {{lines: string[], marked: Set<number>, from: number, to: number}} Table
 */

/** @param {string} text of the document @returns {import("./original.js").Viewer} */
export function openSheet(text) {
  /** @type {Table[]} */
  let tables = [];
  let isMarked = false;
  return {
    note: () =>
      isMarked
        ? say`The rows of the passage are marked.`
        : say`The passage has no row in a table, so no row is marked.`,
    tools: () => nothing,
    body: () => html`<div class="sheet-box reading" tabindex="0" role="region"
      aria-label=${say`Spreadsheet`}>${tables.map(drawn)}</div>`,
    show: async (chunk, sentences) => {
      tables = tablesOf(text, spansOf(text, chunk, sentences));
      isMarked = tables.some((table) => table.marked.size);
      if (!tables.length) throw new Error(say`The text of this passage is not a table. You can download the original.`);
      redraw();
      const toRow = () => document.querySelector(".original .cited-row")?.scrollIntoView({ block: "center" });
      requestAnimationFrame(() => requestAnimationFrame(toRow));
    },
    onKey: () => {},
    close: () => {},
  };
}

/**
 * Return the positions of the sentences, or of the passage, in the text. A passage may repeat the head of its table in
 * front of its own text.
 * @param {string} text @param {Api["ChunkView"]} chunk @param {Span[]} sentences @returns {Span[]}
 */
function spansOf(text, { text: own, span: [start, end] }, sentences) {
  const repeated = [...own].length - (end - start);
  const inText = (/** @type {number} */ at) => unitsBefore(text, Math.max(start, start + at - repeated));
  const spans = sentences
    .filter(([, last]) => last > repeated)
    .map(([first, last]) => /** @type {Span} */ ([inText(first), inText(last)]));
  return spans.length ? spans : [[unitsBefore(text, start), unitsBefore(text, end)]];
}

/** Return the tables with text in the spans. @param {string} text @param {Span[]} spans @returns {Table[]} */
function tablesOf(text, spans) {
  /** @type {Table[]} */
  const tables = [];
  /** @type {Table | null} */
  let table = null;
  let start = 0;
  for (const line of text.split("\n")) {
    const end = start + line.length;
    if (!line.trimStart().startsWith("|")) table = null;
    else {
      if (!table) tables.push((table = { lines: [], marked: new Set(), from: 0, to: 0 }));
      const row = table.lines.push(line) - 3; // after the head and its delimiter
      if (spans.some(([first, last]) => first < end && last > start)) table.marked.add(row);
    }
    start = end + 1;
  }
  const found = tables.filter(({ lines, marked }) => marked.size && DELIMITER.test(lines[1] ?? ""));
  for (const each of found) {
    const first = Math.min(...each.marked);
    each.from = Math.max(0, first - BEFORE);
    each.to = Math.min(each.lines.length - 2, Math.max(0, first) + STEP);
    for (const head of [-2, -1]) each.marked.delete(head);
  }
  return found;
}

/** @param {Table} table */
function drawn(table) {
  const { lines, marked, from, to } = table;
  const total = lines.length - 2;
  const rows = tableOf([lines[0], lines[1], ...lines.slice(from + 2, to + 2)], (row) => marked.has(row + from));
  /** @param {Partial<Table>} more */
  const extend = (more) => (Object.assign(table, more), redraw());
  return html`<div>
    ${to - from < total
      ? html`<p class="soft small">${say`Rows ${count(from + 1)} to ${count(to)} of ${count(total)}`}</p>`
      : nothing}
    ${from
      ? html`<p><button
          @click=${() => extend({ from: Math.max(0, from - STEP) })}>${say`Show earlier rows`}</button></p>`
      : nothing}
    ${rows ?? html`<p class="plain">${lines.slice(from, to).join("\n")}</p>`}
    ${to < total
      ? html`<p><button
          @click=${() => extend({ to: Math.min(total, to + STEP) })}>${say`Show later rows`}</button></p>`
      : nothing}
  </div>`;
}
