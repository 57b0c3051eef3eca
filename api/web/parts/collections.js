// The collections that one can choose, and which is chosen.

import { html } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { get } from "../api.js";
import { changed, remember, remembered } from "../store.js";

/** @type {{items: {name: string, documents: Record<string, number>, points: number | null}[], chosen: string}} */
export const collections = { items: [], chosen: remembered("collection", "default") };

export async function loadCollections() {
  collections.items = await known();
  const names = collections.items.map((each) => each.name);
  if (names.length && !names.includes(collections.chosen)) collections.chosen = names[0];
  changed();
}

/** The collections; a key that may only ask is told their names. */
async function known() {
  try {
    return (await get("/v1/collections?limit=200")).items;
  } catch (problem) {
    if (problem.status !== 403) throw problem;
    return (await get("/v1/models")).data.map(({ id }) => ({ name: id, documents: {}, points: null }));
  }
}

/** @param {() => void} chosen is told of another choice */
export function collectionPicker(chosen) {
  const names = collections.items.map((each) => each.name);
  const choose = (event) => {
    collections.chosen = event.target.value;
    remember("collection", collections.chosen);
    chosen();
    changed();
  };
  const known = names.includes(collections.chosen) ? names : [collections.chosen, ...names];
  return html`<label class="picker"><span class="hidden">Collection</span>
    <select .value=${live(collections.chosen)} @change=${choose}>
      ${known.map((name) => html`<option value=${name} ?selected=${name === collections.chosen}>${name}</option>`)}
    </select></label>`;
}
