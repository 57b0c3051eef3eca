// A document's state as a symbol, a word and a colour.

import { html } from "../vendor/lit-html.js";

/** @type {Record<string, string>} */
const SHAPES = { ready: "\u25cf", failed: "\u2715", degraded: "\u25b2", deleting: "\u2715" };
export const OPEN = ["queued", "parsing", "reading", "indexing", "searchable"];

/** @param {string} state */
export function stateMark(state) {
  const kind = OPEN.includes(state) ? "working" : state;
  return html`<span class="state ${kind}"><span aria-hidden="true">${SHAPES[state] ?? "\u25d0"}</span> ${state}</span>`;
}

/** Describe the progress of a document's pages or chunks. @param {Api["DocumentView"]} document */
export function progressOf(document) {
  if (document.state === "reading") return `${document.pages_read + document.pages_unread} of ${document.pages} pages read`;
  const { total, indexed, searchable } = document.chunks;
  if (!OPEN.includes(document.state) || !total) return "";
  return `${indexed} of ${total} chunks indexed${searchable < total ? `, ${searchable} searchable` : ""}`;
}
