// The palette: a field that opens a screen or a document by its name.

import { html, nothing } from "../vendor/lit-html.js";
import { get, latest } from "../api.js";
import { redraw } from "../store.js";
import { collections } from "./collections.js";
import { nameOf } from "./format.js";
import { icon } from "./icon.js";
import { reachableScreens } from "./navigation.js";
import { may } from "./permissions.js";
import { say } from "./words.js";

/** @typedef {{path: string, words: string, sign: string}} Target */

const DOCUMENTS = 6; // documents that are offered
const PAUSE = 200; // milliseconds without a key press before a search

const seen = { isOpen: false, typed: "", at: 0, documents: /** @type {Target[]} */ ([]) };
const newest = latest();
let clock = 0;
let go = (/** @type {string} */ _path) => {};

/** @param {(path: string) => void} opens an address of the page */
export function open(opens) {
  go = opens;
  Object.assign(seen, { isOpen: true, typed: "", at: 0, documents: [] });
  redraw();
}

/** Return the screens and documents that match the words. */
export function targets() {
  const words = seen.typed.trim().toLowerCase();
  return [...reachableScreens().filter((screen) => screen.words.toLowerCase().includes(words)), ...seen.documents];
}

async function search() {
  const words = seen.typed.trim();
  const { chosen: collection } = collections;
  const query = new URLSearchParams({ collection, q: words, limit: String(DOCUMENTS), metadata: "false" });
  const none = Promise.resolve({ items: /** @type {Api["DocumentView"][]} */ ([]) });
  const { items } = await newest(words && may("read") ? get(`/v1/documents?${query}`).catch(() => none) : none);
  seen.documents = items.map((each) => ({ path: `/documents/${each.id}`, words: nameOf(each), sign: "files" }));
  redraw();
}

/** @param {On<HTMLInputElement>} event */
function typed(event) {
  Object.assign(seen, { typed: event.target.value, at: 0 });
  clearTimeout(clock);
  clock = window.setTimeout(search, PAUSE);
  redraw();
}

function close() {
  clearTimeout(clock);
  newest();
  seen.isOpen = false;
  redraw();
}

/** @param {Target | undefined} target */
function choose(target) {
  if (!target) return;
  /** @type {HTMLDialogElement | null} */ (document.querySelector("#palette"))?.close();
  close();
  go(target.path);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const all = targets();
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && all.length) {
    event.preventDefault();
    seen.at = (seen.at + step + all.length) % all.length;
    redraw();
  } else if (event.key === "Enter" && !event.isComposing) {
    event.preventDefault();
    choose(all[seen.at]);
  }
}

/** @param {HTMLDialogElement | null} element */
const show = (element) => element && !element.open && element.showModal();

export function view() {
  if (!seen.isOpen) return nothing;
  queueMicrotask(() => show(document.querySelector("#palette")));
  const all = targets();
  return html`<dialog id="palette" class="palette" aria-label=${say`Go to`} @close=${close}>
    <input type="search" role="combobox" aria-expanded=${String(all.length > 0)} aria-controls="palette-targets"
      aria-autocomplete="list"
      aria-activedescendant=${all.length ? `palette-${seen.at}` : nothing} aria-label=${say`Screen or document`}
      placeholder=${say`Go to a screen or a document`} autocomplete="off" autofocus @input=${typed} @keydown=${pressed}>
    ${all.length
      ? html`<ul id="palette-targets" role="listbox" aria-label=${say`Screens and documents`}>${all.map(option)}</ul>`
      : html`<p class="soft small" role="status">${say`No screen or document with this name.`}</p>`}
  </dialog>`;
}

/** @param {Target} target @param {number} index */
const option = (target, index) => html`<li id=${`palette-${index}`} role="option"
  aria-selected=${String(index === seen.at)} @click=${() => choose(target)}>
  ${icon(target.sign)}<span class="clip" dir="auto">${target.words}</span></li>`;
