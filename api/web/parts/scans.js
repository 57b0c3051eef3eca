// The pages and words of a document that could not be read, and the picture of the page whose words a chunk contains.

import { html, nothing } from "../vendor/lit-html.js";
import { bytes, get, post } from "../api.js";
import { redraw } from "../store.js";
import { bar } from "./bars.js";
import { count, plural } from "./format.js";
import { may } from "./permissions.js";
import { notify } from "./notice.js";
import { passage } from "./prose.js";
import { citedSentences } from "./sentences.js";
import { STATES, lossesOf } from "./state.js";
import { say } from "./words.js";

const MOST = 200; // dead letters in the list
const UNDIVIDED = ["queued", "parsing", "reading"];
const UNCERTAIN = 60; // percent; below it the server generates no questions

/**
 * `page` identifies the chunk and its page; `picture` is the address of its picture, and `problem` why it has none.
 * @type {{id: string, letters: Api["DeadLetterView"][], page: string, picture: string, problem: string}}
 */
let scan = newScan("");

/** @param {string} id @returns {typeof scan} */
function newScan(id) {
  return { id, letters: [], page: "", picture: "", problem: "" };
}

/** Load the reasons of unread pages. @param {Api["DocumentView"]} document */
export async function loadUnread(document) {
  if (scan.id !== document.id) forget(document.id);
  if (!document.pages_unread) {
    scan.letters = [];
    return;
  }
  const now = scan;
  const page = await get(`/v1/dead-letters?document_id=${document.id}&limit=${MOST}`);
  now.letters = page.items
    .filter((letter) => letter.kind === "page")
    .sort((one, other) => (one.ordinal ?? 0) - (other.ordinal ?? 0));
}

/** Release the picture, and continue with another document. */
export function forget(id = "") {
  release();
  scan = newScan(id);
}

function release() {
  if (scan.picture) URL.revokeObjectURL(scan.picture);
  Object.assign(scan, { page: "", picture: "", problem: "" });
}

/**
 * Show the progress of reading, and pages that could not be read.
 * @param {Api["DocumentView"]} document
 * @param {() => unknown} then called after a retry
 */
export function pagesOf(document, then) {
  const done = document.pages_read + document.pages_unread;
  return html`${document.state === "reading"
      ? html`<div role="progressbar" aria-label=${say`Pages read`}
          aria-valuemin="0" aria-valuemax=${document.pages} aria-valuenow=${done}
          >${bar(done / document.pages, "working")}</div>`
      : nothing}
    ${document.pages_unread ? unread(document, then) : nothing}`;
}

/** @param {Api["DocumentView"]} document @param {() => unknown} then called after a retry */
function unread(document, then) {
  const words = say`${plural(document.pages_unread, "page")} of ${count(document.pages)} could not be read.`;
  return html`<section class="trouble" aria-label=${say`Unread pages`}>
    <p class="bar-line"><span class="grow">${words}</span>
      ${scan.letters.length && may("write")
        ? html`<button @click=${() => retry(scan.letters[0], then)}>${say`Read again`}</button>`
        : nothing}</p>
    <ul class="reasons" role="list">${scan.letters.map((letter) => html`<li class="bar-line">
      <span class="number">${say`page ${letter.ordinal ?? 0}`}</span>
      <span class="grow" dir="auto">${letter.reason}</span></li>`)}</ul></section>`;
}

/** Show the parts of a document that lack words or were not read. @param {Api["DocumentView"]} document */
export function lostPartsOf(document) {
  const lost = lossesOf(document);
  if (!lost.length) return nothing;
  return html`<section class="trouble" aria-label=${STATES.degraded}><ul class="reasons" role="list">
    ${lost.map((sentence) => html`<li dir="auto">${sentence}</li>`)}</ul></section>`;
}

/**
 * Read all unread pages of a document again.
 * @param {Api["DeadLetterView"]} letter one of them
 * @param {() => unknown} then
 */
async function retry(letter, then) {
  try {
    const { pages } = await post("/v1/dead-letters/retry", { letter_id: letter.id });
    notify(pages ? say`The pages are read again.` : say`The document is being processed. Try again later.`);
    await then();
  } catch (problem) {
    notify(problem.message);
  }
}

/** Describe the origin of a chunk. @param {Api["ChunkView"]} chunk */
export function originOf(chunk) {
  const { page, confidence } = chunk;
  const parts = [page ? say`page ${page}` : "", confidence === null ? "" : say`confidence ${confidence} %`];
  return parts.filter(Boolean).join(" \u00b7 ");
}

/**
 * Show the text of a chunk, next to the picture of its page if it was read by OCR.
 * @param {Api["DocumentView"]} document @param {Api["ChunkView"]} chunk
 * @param {[number, number][]} sentences cited ones
 */
export function textOf(document, chunk, sentences) {
  const isScan = chunk.confidence !== null;
  const { key, marked, line } = citedSentences(chunk.id, chunk.text, sentences, isScan);
  const text = html`<div class="reading" dir="auto" tabindex="0">
    <div class=${marked} data-passage=${key}>${passage(chunk.text, isScan)}</div></div>`;
  if (!isScan || !chunk.page) return html`${line}${text}`;
  show(document, chunk, chunk.page);
  const isUncertain = (chunk.confidence ?? 0) < UNCERTAIN;
  const warning = say`Most words are uncertain, so no questions are generated.`;
  return html`${line}${isUncertain ? html`<p class="warning small">${warning}</p>` : nothing}
    ${scan.problem ? html`<p class="soft small">${scan.problem}</p>` : nothing}
    ${scan.picture
      ? html`<div class="scan"><img src=${scan.picture} alt=${say`Page ${chunk.page}`}>${text}</div>`
      : text}`;
}

/**
 * Load the picture of a page, unless it is shown, with fetch: an address in `src` cannot carry a key.
 * @param {Api["DocumentView"]} document
 * @param {Api["ChunkView"]} chunk
 * @param {number} number
 */
async function show(document, chunk, number) {
  const page = `${chunk.id}/${number}`;
  if (scan.id !== document.id) forget(document.id);
  if (scan.page === page) return;
  release();
  const now = scan;
  const isShown = () => now === scan && now.page === page;
  now.page = page;
  try {
    const version = UNDIVIDED.includes(document.state) ? "live" : "latest"; // a version without chunks is not shown
    const image = await bytes(`/v1/documents/${document.id}/pages/${number}/image?version=${version}`);
    const picture = URL.createObjectURL(image);
    if (!isShown()) return URL.revokeObjectURL(picture);
    scan.picture = picture;
  } catch (problem) {
    if (isShown()) scan.problem = problem.message;
  }
  redraw();
}
