// The outline of a list that is being read. It appears after a moment, so that a fast reply does not flicker.
//
//   if (!items) return html`<section class="column wide">${problemCard(problem, load)}
//     ${problem ? nothing : skeleton({ cards: true })}</section>`;

import { html } from "../vendor/lit-html.js";
import { say } from "../parts/words.js";

/** @param {{rows?: number, cards?: boolean}} [facts] */
export function skeleton({ rows = 3, cards = false } = {}) {
  const bone = () => html`<span class=${cards ? "kit-bone kit-block" : "kit-bone kit-line"} aria-hidden="true"></span>`;
  return html`<div class="kit-skeleton" role="status"><span class="hidden">${say`Loading…`}</span>
    ${Array.from({ length: rows }, bone)}</div>`;
}
