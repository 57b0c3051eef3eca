// A virtual list: only the visible rows of a long list are in the document.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { redraw } from "../store.js";

export const MARGIN = 8; // rows rendered above and below the viewport

export class WindowedList {
  /** @param {number} rowHeight in pixels @param {() => void} more called when the end of the loaded rows is near */
  constructor(rowHeight, more) {
    this.rowHeight = rowHeight;
    this.more = more;
    this.top = 0;
    this.height = 800;
    this.restoring = false;
    this.above = 0; // rows inserted above the viewport since the last rendering
    /** @type {Map<string, number>} element number of each visible row */
    this.elements = new Map();
    this.made = 0;
    this.scrolled = this.scrolled.bind(this);
  }

  /**
   * Assign elements to rows. Rows that become visible reuse the elements of rows that do not, because creating elements
   * makes scrolling slow.
   * @param {{id: string}[]} shown
   */
  assign(shown) {
    const ids = new Set(shown.map((row) => row.id));
    // It must not be reused for another row.
    const focused = document.activeElement?.closest(".row")?.getAttribute("data-element");
    const free = [];
    for (const [id, element] of this.elements) {
      if (ids.has(id)) continue;
      this.elements.delete(id);
      if (String(element) !== focused) free.push(element);
    }
    for (const id of ids) {
      if (!this.elements.has(id)) this.elements.set(id, free.pop() ?? this.made++);
    }
  }

  /** Scroll to the first row, after the list was replaced. */
  toTop() {
    this.top = 0;
    this.restoring = false;
    document.querySelector(".window")?.scrollTo(0, 0);
  }

  /** Scroll to an offset as soon as rows are drawn. @param {number} top in pixels */
  restore(top) {
    this.top = top;
    this.restoring = top > 0;
  }

  /** Scroll to a row. @param {number} index */
  show(index) {
    document.querySelector(".window")?.scrollTo({ top: Math.max(0, (index - 2) * this.rowHeight) });
  }

  /** Record an inserted row, so that visible and focused rows below it do not move. @param {number} index */
  grewAt(index) {
    const first = this.top / this.rowHeight + this.above; // first visible row
    if (index > first) return;
    if (first > 0 || document.querySelector(".window")?.contains(document.activeElement)) this.above += 1;
  }

  /** Scroll by the height of the rows inserted above the viewport. */
  settle() {
    const added = this.above * this.rowHeight;
    this.above = 0;
    this.top += added;
    if (added) queueMicrotask(() => document.querySelector(".window")?.scrollBy({ top: added, behavior: "instant" }));
  }

  /** @param {Event & {currentTarget: Element}} event */
  scrolled(event) {
    const box = event.currentTarget;
    if (!box.isConnected) return; // an element that was removed has no height
    this.top = box.scrollTop;
    this.height = box.clientHeight;
    redraw();
  }

  /**
   * Render the visible rows. Each row is positioned absolutely, so that rows that stay visible are not laid out again.
   * @template {{id: string}} Row
   * @param {Row[]} rows loaded rows @param {number} total number of rows, loaded or not
   * @param {(row: Row, index: number) => unknown} draw @param {string} label
   * @param {{kind?: string, head?: unknown, isCurrent?: (row: Row) => boolean}} [options]
   *   kind: class of the columns; head: names of the columns; isCurrent: whether the row is marked
   */
  view(rows, total, draw, label, { kind = "", head = null, isCurrent = () => false } = {}) {
    this.settle();
    if (this.restoring && rows.length) {
      const { top } = this;
      this.restoring = false;
      queueMicrotask(() => document.querySelector(".window")?.scrollTo({ top, behavior: "instant" }));
    }
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - MARGIN);
    const last = Math.ceil((this.top + this.height) / this.rowHeight) + MARGIN;
    if (last > rows.length - MARGIN && rows.length < total) queueMicrotask(this.more);
    const shown = rows.slice(first, last);
    this.assign(shown);
    /** @param {number} index */
    const place = (index) => `height:${this.rowHeight}px;transform:translateY(${(first + index) * this.rowHeight}px)`;
    /** @param {Row} row */
    const elementOf = (row) => this.elements.get(row.id);
    /** @param {Row} row @param {number} index */
    const positioned = (row, index) => html`<li class=${isCurrent(row) ? "row current" : "row"}
      data-element=${elementOf(row)} .style=${place(index)}
      aria-setsize=${total} aria-posinset=${first + index + 1}>${draw(row, first + index)}</li>`;
    return html`<div class="window ${kind} ${head ? "headed" : ""}" tabindex="0" role="region" aria-label=${label}
        @scroll=${this.scrolled}>
      ${head ?? nothing}
      <div class="window-all" .style=${`height:${rows.length * this.rowHeight}px`}>
        <ul role="list" class="rows">
          ${repeat(shown, elementOf, positioned)}
        </ul>
      </div>
    </div>`;
  }
}
