// The raw request of a screen. The module that formats it is loaded when it is opened.

import { html, nothing } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { say } from "./words.js";

/** @type {typeof import("./snippet.js").written | null} */
let write = null;
let opened = false; // stays open across screens

/** @param {boolean} open */
async function toggled(open) {
  if (open === opened) return;
  opened = open;
  write ??= (await import("./snippet.js")).written;
  redraw();
}

/** @param {string} method @param {string} path @param {unknown} [body] */
export function asRequest(method, path, body) {
  /** @param {On<HTMLDetailsElement>} event */
  const opens = (event) => toggled(event.target.open);
  return html`<details class="request" .open=${opened} @toggle=${opens}>
    <summary class="soft small">${say`Show raw request`}</summary>
    ${opened && write ? write(method, path, body) : nothing}</details>`;
}
