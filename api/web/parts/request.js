// The request behind a screen; who writes it down is loaded when somebody wants to see it.

import { html, nothing } from "../vendor/lit-html.js";
import { changed } from "../store.js";

/** @type {typeof import("./written.js").written | null} */
let write = null;
let opened = false; // who wants to see requests sees them on each screen

/** @param {boolean} open */
async function toggled(open) {
  if (open === opened) return;
  opened = open;
  write ??= (await import("./written.js")).written;
  changed();
}

/** @param {string} method @param {string} path @param {unknown} [body] */
export function asRequest(method, path, body) {
  /** @param {On<HTMLDetailsElement>} event */
  const opens = (event) => toggled(event.target.open);
  return html`<details class="request" .open=${opened} @toggle=${opens}>
    <summary class="soft small">Show raw request</summary>${opened && write ? write(method, path, body) : nothing}</details>`;
}
