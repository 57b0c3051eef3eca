// Collections: the list with numbers and states, and the dialogs that create and delete one.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { menu } from "../kit/menu.js";
import { skeleton } from "../kit/skeleton.js";
import { table } from "../kit/table.js";
import { closeDialog, collectionDialog, openDialog } from "../parts/collection-dialog.js";
import { documentsOf, openOf, questionsOf } from "../parts/collection-numbers.js";
import { collections, loadCollections } from "../parts/collections.js";
import { count, plural } from "../parts/format.js";
import { noCollections } from "../parts/no-collections.js";
import { problemCard } from "../parts/notice.js";
import { may } from "../parts/permissions.js";
import { polling } from "../parts/polling.js";
import { say } from "../parts/words.js";

/** @typedef {import("../parts/collections.js").Listed} Listed */

export const title = say`Collections`;
export const titled = true;

const state = { problem: /** @type {any} */ (null) };
const list = polling(state, loadCollections);

/** @param {{query: URLSearchParams}} route */
export async function load({ query }) {
  if (query.has("new") && may("manage")) create();
  await list.start();
}

const create = () => openDialog(({ openCreation }) => openCreation());
/** @param {Listed} each */
const remove = (each) => openDialog(({ openDeletion }) => openDeletion(each, list.poll));

export function unload() {
  closeDialog();
  list.stop();
}

export function view() {
  const { items, isRead } = collections;
  return html`<section class="column wide">
    ${problemCard(state.problem, list.poll)}
    ${items.length ? listed(items) : isRead ? none() : state.problem ? nothing : skeleton()}
    ${collectionDialog()}
  </section>`;
}

const none = () => noCollections(say`A collection holds documents, the questions that a model writes for them, and its \
own options, such as the prompt. The first upload creates one, too.`);

/** @param {Listed[]} items */
function listed(items) {
  const button = html`<button class="main" @click=${create}>${say`Create a collection`}</button>`;
  return html`${may("manage") ? html`<p class="tools">${button}</p>` : nothing}
    ${table({ label: say`Collections`, rows: items, key: (each) => each.name, columns: [
      { words: say`Collection`, cell: nameOf, main: true },
      { words: say`Documents`, cell: (each) => count(documentsOf(each)), number: true },
      { words: say`Chunks`, cell: (each) => numberOf(each.chunks), number: true },
      { words: say`questions`, cell: (each) => numberOf(questionsOf(each)), number: true },
      { words: say`State`, cell: stateOf, width: "minmax(9rem, auto)" },
      { words: say`Actions`, cell: actionsOf, silent: true },
    ] })}`;
}

/** @param {number | null | undefined} number of points; none while Qdrant is unavailable */
const numberOf = (number) => (number === null || number === undefined ? "\u2013" : count(number));

/** @param {Listed} each */
const addressOf = (each) => `${ROOT}/collections/${encodeURIComponent(each.name)}`;

/** @param {Listed} each */
const nameOf = (each) => html`<span class="kit-words"><a href=${addressOf(each)}>${each.name}</a>
  ${each.description ? html`<span class="kit-hint">${each.description}</span>` : nothing}</span>`;

/** Describe the state of a collection. @param {Listed} each */
function wordsOf(each) {
  const filling = (each.builds ?? []).find(({ state: of }) => of === "filling");
  const paused = (each.builds ?? []).find(({ state: of }) => of === "paused");
  const open = openOf(each);
  const failed = each.documents.failed ?? 0;
  if (filling) return say`build ${filling.build} is being filled`;
  if (open) return say`${count(open)} in progress`;
  if (paused) return say`build ${paused.build} is paused`;
  if (failed) return html`<span class="bad">${say`${count(failed)} failed`}</span>`;
  return documentsOf(each) ? say`ready` : say`empty`;
}

/** @param {Listed} each */
function stateOf(each) {
  const others = (each.builds ?? []).filter(({ state: of }) => of === "following").length;
  return others ? html`${wordsOf(each)} \u00b7 ${plural(others, "further build")}` : wordsOf(each);
}

/** @param {Listed} each */
function actionsOf(each) {
  const query = `?collection=${encodeURIComponent(each.name)}`;
  return menu({ id: `actions-${each.name}`, label: say`Actions of ${each.name}`, items: [
    may("ask") && { words: say`Ask`, href: `${ROOT}/ask${query}` },
    { words: say`Show documents`, href: `${ROOT}/documents${query}` },
    { words: say`Options and builds`, href: addressOf(each) },
    may("manage") && { words: say`Delete\u2026`, run: () => remove(each), danger: true },
  ] });
}
