// A table on a grid: all rows share the columns, and numbers are aligned at their end. On a small display each row is a
// block in which every value has the words of its column.
//
//   table({ label: say`Budgets`, rows: budgets, columns: [
//     { words: say`Budget`, cell: nameOf, main: true },
//     { words: say`Spent`, cell: (each) => money(each.spent), number: true },
//     { words: say`Actions`, cell: buttons, silent: true }] })

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";

/**
 * @template Row
 * @typedef {{words: string, cell: (row: Row) => unknown, number?: boolean, main?: boolean, silent?: boolean,
 *   width?: string}} Column
 *   main: the row's name, which takes the free width
 *   silent: its words are only for screen readers
 *   width: of its track in the grid
 */

/**
 * @template Row
 * @param {{label: string, rows: readonly Row[], columns: readonly Column<Row>[], key?: (row: Row) => unknown,
 *   quiet?: (row: Row) => boolean}} facts
 *   label: name for screen readers
 *   key: identifies a row, whose elements move with it
 *   quiet: whether a row is no longer valid
 */
export function table({ label, rows, columns, key, quiet }) {
  const tracks = columns.map(({ width, main }) => width ?? (main ? "minmax(8rem, 1fr)" : "auto")).join(" ");
  /** @param {Row} row */
  const drawn = (row) => html`<tr role="row" class=${quiet?.(row) ? "kit-quiet" : nothing}>
    ${columns.map((each) => cell(each, row))}</tr>`;
  return html`<table class="kit-table" role="table" aria-label=${label} .style=${`--kit-columns:${tracks}`}>
    <thead role="rowgroup"><tr role="row">${columns.map(head)}</tr></thead>
    <tbody role="rowgroup">${key ? repeat(rows, key, drawn) : rows.map(drawn)}</tbody></table>`;
}

/** @template Row @param {Column<Row>} column */
function head({ words, number, silent }) {
  const shown = silent ? html`<span class="hidden">${words}</span>` : capitalised(words);
  return html`<th role="columnheader" scope="col" class=${number ? "kit-number" : nothing}>${shown}</th>`;
}

/** @template Row @param {Column<Row>} column @param {Row} row */
function cell({ words, cell: written, number, main, silent }, row) {
  if (main) return html`<th role="rowheader" scope="row" class="kit-main" dir="auto">${written(row)}</th>`;
  return html`<td role="cell" class=${number ? "kit-number" : nothing}
    data-label=${silent ? nothing : capitalised(words)}>${written(row)}</td>`;
}

/** Return words with a capital first letter, except names such as nDCG@10. @param {string} words */
const capitalised = (words) =>
  /^\p{Ll}\p{Ll}/u.test(words) ? words.charAt(0).toLocaleUpperCase() + words.slice(1) : words;
