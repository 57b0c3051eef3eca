// A long list of which only the visible rows are in the document.

import { html } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { changed } from "../store.js";

export const MARGIN = 8; // rows above and below what is visible

export class WindowedList {
  /** @param {number} rowHeight in pixels @param {() => void} more is called when the end comes near */
  constructor(rowHeight, more) {
    this.rowHeight = rowHeight;
    this.more = more;
    this.top = 0;
    this.height = 800;
    this.above = 0; // rows that came above since it was drawn
    /** @type {Map<string, number>} the element of each row in sight, by number */
    this.elements = new Map();
    this.made = 0;
    this.scrolled = this.scrolled.bind(this);
  }

  /** Rows that come into sight take the elements of those that have left it: making new ones is what scrolling costs. @param {{id: string}[]} shown */
  assign(shown) {
    const ids = new Set(shown.map((row) => row.id));
    const focused = document.activeElement?.closest(".row")?.getAttribute("data-element"); // it is not to become another row's
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

  /** Begin at the first row: other rows come, or the list is drawn anew. */
  toTop() {
    this.top = 0;
    document.querySelector(".window")?.scrollTo(0, 0);
  }

  /** Have a row in sight. @param {number} place */
  show(place) {
    document.querySelector(".window")?.scrollTo({ top: Math.max(0, (place - 2) * this.rowHeight) });
  }

  /** A row came at a place: what is read below it, or has the focus, stays where it is. @param {number} place */
  grewAt(place) {
    const first = this.top / this.rowHeight + this.above; // that is seen
    if (place > first) return;
    if (first > 0 || document.querySelector(".window")?.contains(document.activeElement)) this.above += 1;
  }

  /** Have as many rows above what is seen as came there. */
  settle() {
    const added = this.above * this.rowHeight;
    this.above = 0;
    this.top += added;
    if (added) queueMicrotask(() => document.querySelector(".window")?.scrollBy({ top: added, behavior: "instant" }));
  }

  /** @param {Event & {currentTarget: Element}} event */
  scrolled(event) {
    const box = event.currentTarget;
    this.top = box.scrollTop;
    this.height = box.clientHeight;
    changed();
  }

  /**
   * Each row has a place of its own, so that those that stay in sight are not laid out again.
   * @template {{id: string}} Row
   * @param {Row[]} rows those that are loaded @param {number} total how many there are
   * @param {(row: Row, place: number) => unknown} draw @param {string} label
   */
  view(rows, total, draw, label) {
    this.settle();
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - MARGIN);
    const last = Math.ceil((this.top + this.height) / this.rowHeight) + MARGIN;
    if (last > rows.length - MARGIN && rows.length < total) queueMicrotask(this.more);
    const shown = rows.slice(first, last);
    this.assign(shown);
    /** @param {Row} row */
    const elementOf = (row) => this.elements.get(row.id);
    /** @param {Row} row @param {number} place */
    const placed = (row, place) => html`<li class="row" data-element=${elementOf(row)} .style=${`height:${this.rowHeight}px;transform:translateY(${(first + place) * this.rowHeight}px)`}
      aria-setsize=${total} aria-posinset=${first + place + 1}>${draw(row, first + place)}</li>`;
    return html`<div class="window" tabindex="0" role="region" aria-label=${label} @scroll=${this.scrolled}>
      <div class="window-all" .style=${`height:${rows.length * this.rowHeight}px`}>
        <ul role="list" class="rows">
          ${repeat(shown, elementOf, placed)}
        </ul>
      </div>
    </div>`;
  }
}
