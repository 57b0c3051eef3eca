// A document's state as a symbol, a word and a colour.

import { html } from "../vendor/lit-html.js";
import { count, listed, plural } from "./format.js";
import { icon } from "./icon.js";
import { say } from "./words.js";

/** @type {Record<string, unknown>} */
const SHAPES = {
  ready: icon("circle-check"),
  failed: icon("x"),
  degraded: icon("triangle-alert"),
  deleting: icon("x"),
};
/** The states of documents, as users read them. @type {Record<string, string>} */
export const STATES = {
  queued: say`queued`, parsing: say`parsing`, reading: say`reading`, indexing: say`indexing`,
  searchable: say`searchable`,
  ready: say`ready`, degraded: say`degraded`, failed: say`failed`, deleting: say`deleting`,
};
export const OPEN = ["queued", "parsing", "reading", "indexing", "searchable"];

/** @param {string} state */
export function stateMark(state) {
  const kind = OPEN.includes(state) ? "working" : state;
  return html`<span class="state ${kind}">${SHAPES[state] ?? icon("circle-dashed")} ${STATES[state] ?? state}</span>`;
}

/** Return whether another attempt may read more of a document. @param {Api["DocumentView"]} document */
export function canRetry({ state, chunks, pages_unread, outdated }) {
  return state === "failed" || (state === "degraded" && Boolean(chunks.dead || pages_unread || outdated));
}

/**
 * Return the action that can repair a document: another attempt, or another file. A file that could not be read is read
 * no better again, unless a newer reader has been installed. null: nothing is to be repaired.
 * @param {Api["DocumentView"]} document @returns {"retry" | "replace" | null}
 */
export function remedyOf(document) {
  if (document.state === "failed") return document.outdated ? "retry" : "replace";
  if (document.state !== "degraded") return null;
  return canRetry(document) ? "retry" : "replace";
}

/** Name the parts of a document that lack words or were not read. @param {Api["DocumentView"]} document */
export function lossesOf({ losses, unread }) {
  /** @param {Api["LossView"]} loss */
  const described = ({ location, missing, sample }) => {
    const words = `${plural(missing, "missing word")}${sample.length ? ` (${listed(sample)})` : ""}`;
    return location ? `${location}: ${words}` : words;
  };
  return [...losses.map(described), ...unread];
}

/** Return why a document is degraded, failed or waits; no reason for others. @param {Api["DocumentView"]} document */
export function reasonsOf(document) {
  const { error, pages, pages_unread, chunks } = document;
  const reasons = error ? [error] : [];
  if (pages_unread) reasons.push(say`${plural(pages_unread, "page")} of ${count(pages)} could not be read.`);
  if (chunks.dead) reasons.push(say`${plural(chunks.dead, "chunk")} of ${count(chunks.total)} failed.`);
  return [...reasons, ...lossesOf(document)];
}

/** Describe the progress of a document's pages or chunks. @param {Api["DocumentView"]} document */
export function progressOf(document) {
  const { pages, pages_read, pages_unread } = document;
  if (document.state === "reading") return say`${count(pages_read + pages_unread)} of ${plural(pages, "page")} read`;
  const { total, indexed, searchable } = document.chunks;
  if (!OPEN.includes(document.state) || !total) return "";
  const chunks = plural(total, "chunk");
  if (searchable < total) return say`${count(indexed)} of ${chunks} indexed, ${count(searchable)} searchable`;
  return say`${count(indexed)} of ${chunks} indexed`;
}
