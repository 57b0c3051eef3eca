// A document's state as a symbol, a word and a colour.

import { html } from "../vendor/lit-html.js";
import { count, plural } from "./format.js";
import { icon } from "./icon.js";
import { say } from "./words.js";

/** @type {Record<string, unknown>} */
const SHAPES = { ready: icon("circle-check"), failed: icon("x"), degraded: icon("triangle-alert"), deleting: icon("x") };
/** The states of documents, as users read them. @type {Record<string, string>} */
export const STATES = {
  queued: say`queued`, parsing: say`parsing`, reading: say`reading`, indexing: say`indexing`, searchable: say`searchable`,
  ready: say`ready`, degraded: say`degraded`, failed: say`failed`, deleting: say`deleting`,
};
export const OPEN = ["queued", "parsing", "reading", "indexing", "searchable"];

/** @param {string} state */
export function stateMark(state) {
  const kind = OPEN.includes(state) ? "working" : state;
  return html`<span class="state ${kind}"><span aria-hidden="true">${SHAPES[state] ?? icon("circle-dashed")}</span> ${STATES[state] ?? state}</span>`;
}

/** Return whether another attempt may read more of a document. @param {Api["DocumentView"]} document */
export const canRetry = (document) => document.state === "failed" || (document.state === "degraded" && Boolean(document.chunks.dead || document.pages_unread || document.outdated));

/** Describe the progress of a document's pages or chunks. @param {Api["DocumentView"]} document */
export function progressOf(document) {
  if (document.state === "reading") return say`${count(document.pages_read + document.pages_unread)} of ${plural(document.pages, "page")} read`;
  const { total, indexed, searchable } = document.chunks;
  if (!OPEN.includes(document.state) || !total) return "";
  if (searchable < total) return say`${count(indexed)} of ${plural(total, "chunk")} indexed, ${count(searchable)} searchable`;
  return say`${count(indexed)} of ${plural(total, "chunk")} indexed`;
}
