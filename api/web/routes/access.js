// Access: the readers that documents name, and documents as a person sees them.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, headersOf, latest, send, startViewing } from "../api.js";
import { empty } from "../kit/empty.js";
import { createForm } from "../kit/form.js";
import { skeleton } from "../kit/skeleton.js";
import { table } from "../kit/table.js";
import { isStoring, redraw } from "../store.js";
import { ago, count } from "../parts/format.js";
import { problemCard } from "../parts/notice.js";
import { may } from "../parts/permissions.js";
import { LONGEST, namesIn, readerWords, unsetWords } from "../parts/reader-words.js";
import { say } from "../parts/words.js";

export const title = say`Access`;
export const titled = true;
const MOST_READERS = 1000; // groups and users of a review

/** @typedef {Api["ReaderView"]} Reader */

/**
 * `collection` is empty for all collections; `names` has theirs.
 * @type {{review: Api["AccessReview"] | null, collection: string, names: string[], problem: any}}
 */
const seen = { review: null, collection: "", names: [], problem: null };
const newest = latest();

export async function load() {
  get("/v1/collections?limit=200").then(
    ({ items }) => ((seen.names = items.map((each) => each.name)), redraw()),
    () => {},
  );
  await read();
}

export function unload() {}

async function read() {
  const query = new URLSearchParams(seen.collection ? { collection: seen.collection } : {});
  try {
    Object.assign(seen, { review: await newest(get(`/v1/access-review?${query}`)), problem: null });
  } catch (problem) {
    seen.problem = problem;
  }
  redraw();
}

/** The view of documents as a person: the page is loaded again, so that nothing of the key's data remains in it. */
const viewing = createForm(async ({ user, groups }) => {
  if (!isStoring) throw { message: say`The browser must allow this page to store data.` };
  const person = { user, groups: namesIn(groups) };
  const me = await send("GET", "/v1/me", { headers: headersOf(person) }); // checks the names, and records the view
  const lost = say`The name did not reach the server. A proxy may remove the header X-Foreask-User.`;
  if (!me.person) throw { message: lost };
  startViewing(person);
  location.assign(`${ROOT}/documents`);
});

export function view() {
  const { review, problem } = seen;
  return html`<section class="column wide">
    ${problemCard(problem, read)}
    ${review ? reviewed(review) : problem ? nothing : skeleton({ rows: 6 })}
    ${may("delegate") ? viewForm() : nothing}
  </section>`;
}

/** @param {Api["AccessReview"]} review */
function reviewed({ items, readable_by_default: byDefault }) {
  const { names, collection } = seen;
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => ((seen.collection = event.target.value), read());
  const option = (/** @type {string} */ name) =>
    html`<option value=${name} ?selected=${name === collection}>${name}</option>`;
  const isCut = items.filter(({ reader }) => reader.includes(":")).length >= MOST_READERS;
  return html`<div class="tools">
      <label class="inline">${say`Documents of`} <select @change=${chosen}>
        <option value="">${say`all collections`}</option>${names.map(option)}</select></label>
      <button @click=${read}>${say`Refresh`}</button></div>
    ${items.length ? readers(items, byDefault) : empty({ sign: "circle-user-round", title: say`No documents yet` })}
    ${isCut ? html`<p class="soft small">${say`The first ${count(MOST_READERS)} are shown.`}</p>` : nothing}
    ${isListable() || !items.length ? nothing
      : html`<p class="soft small">${say`Choose a collection to list the documents of a reader.`}</p>`}
    <p class="soft small">${byDefault === "everyone"
      ? say`Every person reads documents that name no readers, by ${DEFAULT}.`
      : say`No person reads documents that name no readers, by ${DEFAULT}.`}</p>`;
}

const DEFAULT = html`<code>FOREASK_READABLE_BY_DEFAULT</code>`;

/** Whether the screen of documents, which shows one collection, can list all documents of a reader. */
const isListable = () => Boolean(seen.collection) || seen.names.length === 1;

/** @param {Reader[]} rows @param {string} byDefault */
const readers = (rows, byDefault) =>
  table({
    label: say`Readers`,
    rows,
    key: ({ reader }) => reader,
    columns: [
      { words: say`reader`, main: true, cell: ({ reader }) => wordsOf(reader, byDefault) },
      { words: say`documents`, number: true, cell: documentsOf },
      { words: say`last seen`, width: "minmax(8rem, 20rem)", cell: lastSeen },
    ],
  });

/** @param {string} reader @param {string} byDefault */
const wordsOf = (reader, byDefault) => (reader === "unset" ? unsetWords(byDefault) : readerWords(reader));

/** @param {Reader} each */
function documentsOf({ reader, documents }) {
  if (!documents || !isListable()) return count(documents);
  const query = new URLSearchParams({ collection: seen.collection || seen.names[0], readable_by: reader });
  return html`<a href=${`${ROOT}/documents?${query}`}>${count(documents)}</a>`;
}

/** Show when a person last had a group. @param {Reader} each */
function lastSeen({ reader, seen_at: time }) {
  if (!reader.startsWith("group:")) return "\u2013";
  return time ? ago(time) : html`<span class="bad">${say`no person has this group`}</span>`;
}

const EXPLAINED = say`See Ask and Documents as a person does. The person and the time are recorded in the audit log.`;

const viewForm = () => html`<h2>${say`View as a person`}</h2>
  <p class="soft">${EXPLAINED}</p>
  ${viewing.view({
    label: say`View as a person`,
    action: say`View`,
    busy: say`Checking…`,
    body: (field) => html`
      ${field({ name: "user", label: say`User`, required: true, longest: LONGEST, autocomplete: "off" })}
      ${field({ name: "groups", label: say`Groups of the user`, type: "area", rows: 2,
        hint: say`One on each line` })}`,
  })}`;
