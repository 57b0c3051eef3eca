// The list of collections and the selected one.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { get } from "../api.js";
import { redraw, remember, remembered } from "../store.js";
import { readsAll } from "./permissions.js";
import { say } from "./words.js";

/**
 * @typedef {Pick<Api["CollectionView"], "name" | "documents" | "points"> & Partial<Api["CollectionView"]>} Listed
 *   a key with only the `ask` scope gets names alone
 */
/** @type {{items: Listed[], chosen: string, isRead: boolean}} isRead: whether the list was read */
export const collections = { items: [], chosen: named() ?? remembered("collection", "default"), isRead: false };

const MANY = 50; // longer lists get a search field
const PAGES = 25;

/** Return the collection named in the URL. It is used from the first request on. */
function named() {
  return new URLSearchParams(location.search).get("collection");
}

/** Load the collections. A collection named in the URL is selected. */
export async function loadCollections() {
  collections.items = await fetchCollections();
  collections.isRead = true;
  const names = collections.items.map((each) => each.name);
  const requested = named();
  if (requested && names.includes(requested)) collections.chosen = requested;
  if (names.length && !names.includes(collections.chosen)) {
    const before = remembered("collection");
    collections.chosen = names.includes(before) ? before : names[0];
  }
  inAddress();
  redraw();
}

/** Return whether a collection is in the list. The server answers 404 to a request for any other. */
export const isListed = (name = collections.chosen) => collections.items.some((each) => each.name === name);

/** Put the collection into the URL, so that links open it. Not needed if there is only one. */
function inAddress() {
  const query = new URLSearchParams(location.search);
  if (collections.items.length < 2 || query.get("collection") === collections.chosen) return;
  if (/\/(?:documents\/.*|work|collections(?:\/.*)?)$/.test(location.pathname)) return;
  query.set("collection", collections.chosen);
  history.replaceState(history.state, "", `${location.pathname}?${query}${location.hash}`);
}

/** Return the collections. A key with only the `ask` scope and a person get their names alone. */
async function fetchCollections() {
  if (!(await readsAll())) {
    const { data } = await get("/v1/models");
    return data.map(({ id }) => ({ name: id, documents: {}, points: null }));
  }
  const found = [];
  let cursor = "";
  for (let page = 0; page < PAGES; page += 1) {
    const { items, next_cursor: next } = await get(`/v1/collections?limit=200${cursor}`);
    found.push(...items);
    if (!next) break;
    cursor = `&cursor=${encodeURIComponent(next)}`;
  }
  return found;
}

/** Whether there is another collection to choose. */
const hasChoice = () => collections.items.some((each) => each.name !== collections.chosen);

/** Return the selection within another field; nothing if there is only one collection. @param {() => void} chosen */
export function collectionChip(chosen) {
  return hasChoice() ? html`<span class="chip">${collectionPicker(chosen)}</span>` : nothing;
}

/** @param {() => void} chosen called after the selection has changed */
export function collectionPicker(chosen) {
  const names = collections.items.map((each) => each.name);
  /** @param {On<HTMLInputElement | HTMLSelectElement>} event */
  const choose = (event) => {
    collections.chosen = event.target.value;
    remember("collection", collections.chosen);
    inAddress();
    chosen();
    redraw();
  };
  const options = names.includes(collections.chosen) ? names : [collections.chosen, ...names];
  if (options.length > MANY) {
    /** @param {On<HTMLInputElement>} event */
    const typed = (event) => {
      if (names.includes(event.target.value)) choose(event);
      else event.target.value = collections.chosen;
    };
    /** @param {On<HTMLInputElement>} event */
    const entered = (event) => event.target.select();
    return html`<label class="picker"><span class="hidden">${say`Collection`}</span>
      <input list="collections" .value=${live(collections.chosen)} @focus=${entered} @change=${typed}>
      <datalist id="collections">${options.map((name) => html`<option value=${name}></option>`)}</datalist></label>`;
  }
  return html`<label class="picker"><span class="hidden">${say`Collection`}</span>
    <select .value=${live(collections.chosen)} @change=${choose}>
      ${options.map((name) => html`<option value=${name} ?selected=${name === collections.chosen}>${name}</option>`)}
    </select></label>`;
}
