// A list of a collection's documents with a search, from which one is chosen.

import { html, nothing } from "../vendor/lit-html.js";
import { get, latest } from "../api.js";
import { redraw } from "../store.js";
import { nameOf } from "./format.js";
import { problemCard } from "./notice.js";
import { say } from "./words.js";

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const SHOWN = 8; // documents
const TYPING = 250; // milliseconds from the last key press to the search

/** @type {{collection: string, words: string, found: Api["DocumentView"][] | null, problem: any}} */
const seen = { collection: "", words: "", found: null, problem: null };
const newest = latest();
let typing = 0;

/** Show the first documents of a collection. @param {string} collection */
export function openChoice(collection) {
  Object.assign(seen, { collection, words: "", found: null, problem: null });
  search();
}

/** Drop the pending search. */
export function closeChoice() {
  clearTimeout(typing);
  newest();
}

async function search() {
  const { collection, words } = seen;
  const query = new URLSearchParams({ collection, limit: String(SHOWN), metadata: "false" });
  if (words) query.set(ID.test(words) ? "id" : "q", words);
  try {
    Object.assign(seen, { found: (await newest(get(`/v1/documents?${query}`))).items, problem: null });
  } catch (problem) {
    seen.problem = problem;
  }
  redraw();
}

/** @param {On<HTMLInputElement>} event */
function typed(event) {
  clearTimeout(typing);
  seen.words = event.target.value.trim();
  typing = window.setTimeout(search, TYPING);
}

/** @param {(document: Api["DocumentView"]) => void} choose */
export function documentChoice(choose) {
  const { found, problem } = seen;
  return html`<div class="document-choice">
    <input type="search" placeholder=${say`Search by name or id`} aria-label=${say`Search documents`} @input=${typed}>
    ${problemCard(problem, search)}
    <ul role="list" aria-label=${say`Documents`}>${found?.map((each) => option(each, choose))}</ul>
    ${found?.length === 0
      ? html`<p class="soft" role="status">${say`No such document in this collection.`}</p>` : nothing}
  </div>`;
}

/** @param {Api["DocumentView"]} document @param {(document: Api["DocumentView"]) => void} choose */
function option(document, choose) {
  const [name, id] = [nameOf(document), document.external_id];
  return html`<li><button class="quiet" dir="auto" @click=${() => choose(document)}>${name}</button>
    ${name === id ? nothing : html`<span class="soft small" dir="auto">${id}</span>`}</li>`;
}
