// Long texts as titles: their first lines, until the reader wants to see all of them.

import { html, nothing } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { say } from "./words.js";

const LONG = 280; // characters: about four lines of a title

/** @type {Set<string>} texts that are shown completely */
const whole = new Set();

/** Return the class of an element with a text. @param {string} text */
export const clamp = (text) => (text.length > LONG && !whole.has(text) ? "clamped" : "");

/** Return the button that shows all of a long text; nothing for a short one. @param {string} text */
export function clampToggle(text) {
  if (text.length <= LONG) return nothing;
  const isWhole = whole.has(text);
  const toggle = () => ((isWhole ? whole.delete(text) : whole.add(text)), redraw());
  return html`<button type="button" class="quiet clamp-toggle" aria-expanded=${String(isWhole)}
    @click=${toggle}>${isWhole ? say`Show less` : say`Show all`}</button>`;
}
