// Users' questions: the words and the marks of their results, and the addresses of their pages.

import { html } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { plural } from "./format.js";
import { icon } from "./icon.js";
import { say } from "./words.js";

/** @typedef {Api["AskedQuestionView"]["state"]} State */

/** The words, and the class and the icon of the mark. @type {Record<State, [string, string, string]>} */
const STATES = {
  certain: [say`certain`, "good", "circle-check"],
  uncertain: [say`uncertain`, "unsure", "circle-dashed"],
  none: [say`no answer`, "bad", "x"],
  passages: [say`passages only`, "soft", "circle"],
};

/** @param {State} state */
export const wordsOf = (state) => STATES[state][0];

/** Render the mark of a state, which screen readers read as its words. @param {State} state */
export const mark = (state) =>
  html`<span class=${STATES[state][1]} role="img" aria-label=${wordsOf(state)}>${icon(STATES[state][2])}</span>`;

// Servers and proxies do not log the fragment.
/** @param {string} collection @param {string} question */
const inCollection = (collection, question) =>
  `?collection=${encodeURIComponent(collection)}#q=${encodeURIComponent(question)}`;

/** @param {string} queryId */
export const addressOf = (queryId) => `${ROOT}/questions/${queryId}`;

/** @param {string} collection @param {string} question */
export const askAddress = (collection, question) => `${ROOT}/ask${inCollection(collection, question)}`;

/** @param {string} collection @param {string} question */
export const explainAddress = (collection, question) => `${ROOT}/lab/explain${inCollection(collection, question)}`;

/** @param {string} collection @param {string} gap */
export const gapAddress = (collection, gap) => `${ROOT}/gaps?collection=${encodeURIComponent(collection)}&gap=${gap}`;

/** Return the sentence about the retention of questions; empty if it is unknown. @param {number | null} days */
export function retention(days) {
  if (days === null) return "";
  if (days === 0) return say`Questions are not stored: FOREASK_QUERY_RETENTION_DAYS is 0.`;
  return say`Questions are listed for ${plural(days, "day")}.`;
}
