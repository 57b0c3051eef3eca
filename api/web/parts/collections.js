// The collections that one can choose, and which is chosen.

import { html } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { get } from "../api.js";
import { changed, remember, remembered } from "../store.js";

/** @type {{items: {name: string, documents: Record<string, number>, points: number | null, notice?: string | null}[], chosen: string}} */
export const collections = { items: [], chosen: named() ?? remembered("collection", "default") };

const MANY = 50; // a list of more is not looked through
const PAGES = 25;

/** The collection that the address names: nothing is sent to another one, however early. */
function named() {
  return new URLSearchParams(location.search).get("collection");
}

/** Read what there is; the address says which is chosen, where it names one. */
export async function loadCollections() {
  collections.items = await known();
  const names = collections.items.map((each) => each.name);
  const wanted = named();
  if (wanted && names.includes(wanted)) collections.chosen = wanted;
  if (names.length && !names.includes(collections.chosen)) {
    const before = remembered("collection");
    collections.chosen = names.includes(before) ? before : names[0];
  }
  inAddress();
  changed();
}

/** Whoever gets a link sees the same collection. Where there is one alone, links need not name it. */
function inAddress() {
  const query = new URLSearchParams(location.search);
  if (collections.items.length < 2 || query.get("collection") === collections.chosen) return;
  if (location.pathname.includes("/documents/") || location.pathname.endsWith("/work")) return;
  query.set("collection", collections.chosen);
  history.replaceState(null, "", `${location.pathname}?${query}${location.hash}`);
}

/** The collections; a key that may only ask is told their names. */
async function known() {
  try {
    const found = [];
    let cursor = "";
    for (let page = 0; page < PAGES; page += 1) {
      const { items, next_cursor: next } = await get(`/v1/collections?limit=200${cursor}`);
      found.push(...items);
      if (!next) break;
      cursor = `&cursor=${encodeURIComponent(next)}`;
    }
    return found;
  } catch (problem) {
    if (problem.status !== 403) throw problem;
    return (await get("/v1/models")).data.map(({ id }) => ({ name: id, documents: {}, points: null }));
  }
}

/** @param {() => void} chosen is told of another choice */
export function collectionPicker(chosen) {
  const names = collections.items.map((each) => each.name);
  /** @param {On<HTMLInputElement | HTMLSelectElement>} event */
  const choose = (event) => {
    collections.chosen = event.target.value;
    remember("collection", collections.chosen);
    inAddress();
    chosen();
    changed();
  };
  const known = names.includes(collections.chosen) ? names : [collections.chosen, ...names];
  if (known.length > MANY) {
    /** @param {On<HTMLInputElement>} event */
    const typed = (event) => (names.includes(event.target.value) ? choose(event) : (event.target.value = collections.chosen));
    /** @param {On<HTMLInputElement>} event */
    const entered = (event) => event.target.select();
    return html`<label class="picker"><span class="hidden">Collection</span>
      <input list="collections" .value=${live(collections.chosen)} @focus=${entered} @change=${typed}>
      <datalist id="collections">${known.map((name) => html`<option value=${name}></option>`)}</datalist></label>`;
  }
  return html`<label class="picker"><span class="hidden">Collection</span>
    <select .value=${live(collections.chosen)} @change=${choose}>
      ${known.map((name) => html`<option value=${name} ?selected=${name === collections.chosen}>${name}</option>`)}
    </select></label>`;
}
