// Erase a person: find the documents and users' records that name a person, choose documents, and follow the erasure.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { ROOT, get, post } from "../api.js";
import { empty } from "../kit/empty.js";
import { createForm } from "../kit/form.js";
import { skeleton } from "../kit/skeleton.js";
import { table } from "../kit/table.js";
import { redraw, redrawNow } from "../store.js";
import { bar } from "../parts/bars.js";
import { ago, count, listed, nameOf, opening, plural } from "../parts/format.js";
import { problemCard } from "../parts/notice.js";
import { MOST_DOCUMENTS, MOST_TEXTS, PARTS, recordsOf, searchPerson, sums, textsOf, wordsOf, wrongTexts,
} from "../parts/person.js";
import { polling } from "../parts/polling.js";
import { say } from "../parts/words.js";

export const title = say`Erase a person`;
export const titled = true;
const LENGTH = 160; // characters of an excerpt
const RECENT = 10; // erasures that are listed
const MOST_ROWS = 200; // documents that are drawn

/** @typedef {import("../parts/person.js").Result} Result */

/**
 * `texts` belong to the result, `chosen` has the ids of the documents to erase. The texts are never stored.
 * @type {{texts: string[], result: Result | null, isComplete: boolean, chosen: Set<string>, withRecords: boolean,
 *   names: string[], problem: any}}
 */
const seen = {
  texts: [], result: null, isComplete: false, chosen: new Set(), withRecords: true, names: [], problem: null,
};
/** @type {{items: Api["ErasureView"][] | null, problem: any}} */
const recent = { items: null, problem: null };
/** @type {{id: string, erasure: Api["ErasureView"] | null, check: Api["ErasureCheckView"] | null, problem: any}} */
const followed = { id: "", erasure: null, check: null, problem: null };
let search = 0; // ends an earlier search

const list = polling(recent, async () => {
  recent.items = (await get(`/v1/erasures?limit=${RECENT}`)).items;
});
const progress = polling(followed, async () => {
  const { id } = followed;
  if (followed.erasure?.state !== "finished") followed.erasure = await get(`/v1/erasures/${id}`);
  if (followed.erasure.state !== "finished" || followed.check) return;
  const check = await get(`/v1/erasures/${id}/remaining-data`);
  if (id === followed.id) followed.check = check;
});

/** @param {{id: string}} route */
export async function load({ id }) {
  list.stop();
  progress.stop();
  if (id) return follow(id);
  followed.id = "";
  get("/v1/collections?limit=200").then(
    ({ items }) => ((seen.names = items.map((each) => each.name)), redraw()),
    () => {},
  );
  await list.start();
}

/** @param {string} id */
function follow(id) {
  Object.assign(followed, { id, erasure: null, check: null, problem: null });
  return progress.start();
}

export function unload() {
  list.stop();
  progress.stop();
}

/** Forget the result, and the texts with it. */
function reset() {
  search += 1;
  Object.assign(seen, {
    texts: [], result: null, isComplete: false, chosen: new Set(), withRecords: true, problem: null,
  });
  redraw();
}

const form = createForm(
  async ({ texts: lines, collection }) => {
    const texts = textsOf(lines);
    const message = wrongTexts(texts);
    if (message) throw { field: "texts", message };
    const own = ++search;
    Object.assign(seen, {
      texts, result: null, isComplete: false, chosen: new Set(), withRecords: true, problem: null,
    });
    /** @param {Result} result */
    const goesOn = (result) => {
      if (own !== search) return false;
      for (const { id } of result.documents.slice(seen.result?.documents.length ?? 0)) seen.chosen.add(id);
      seen.result = result;
      redraw();
      return true;
    };
    await searchPerson(texts, collection ?? "", goesOn);
    if (own === search) seen.isComplete = true;
  },
  { keeps: true },
);

/** The confirmation, which starts the erasure. */
const confirmation = createForm(async ({ confirmed }) => {
  if (confirmed?.replace(/\s+/g, " ").toLowerCase() !== expected().toLowerCase()) {
    throw { field: "confirmed", message: say`This is not the text above.` };
  }
  const body = { texts: seen.withRecords ? seen.texts : [], document_ids: [...seen.chosen] };
  const { id } = await post("/v1/erasures", body);
  reset();
  list.stop();
  history.pushState(null, "", `${ROOT}/erase/${id}`); // a reload shows the progress
  await follow(id);
  redrawNow();
  document.getElementById("main")?.focus();
});

const expected = () => seen.texts[0].replace(/\s+/g, " ");

export function view() {
  return html`<section class="column wide erase">${followed.id ? erasure() : finding()}</section>`;
}

const PURPOSE = say`Find every document, question and conversation that names a person, and choose the documents to erase. Nothing is deleted before you confirm it.`;

function finding() {
  const { result, isComplete } = seen;
  return html`<p class="soft">${PURPOSE}</p>
    ${searchForm()}
    ${result || form.state.isBusy ? found(result, isComplete) : nothing}
    ${result || form.state.isBusy ? nothing : recently()}`;
}

const searchForm = () =>
  form.view({
    label: say`Search for a person`,
    action: say`Find data`,
    busy: say`Searching\u2026`,
    more: seen.result || form.state.isBusy
      ? html`<button type="button" @click=${clear}>${say`Start again`}</button>`
      : nothing,
    body: (field) => html`
      ${field({
        name: "texts", type: "area", label: say`Texts that name the person`, required: true, wide: true, focus: true,
        hint: say`One on each line, at most ${MOST_TEXTS}: the name in each order, an e-mail address, a number.`,
      })}
      ${field({ name: "collection", type: "select", label: say`Documents of`, options: collectionOptions() })}`,
  });

/** @returns {(readonly [string, unknown])[]} */
const collectionOptions = () => [
  ["", say`all collections`],
  ...seen.names.map((name) => /** @type {const} */ ([name, name])),
];

function clear() {
  reset();
  form.clear();
  /** @type {HTMLFormElement | null} */ (document.getElementById(form.id))?.reset();
  form.focus();
}

/** @param {Result | null} result @param {boolean} isComplete */
function found(result, isComplete) {
  const documents = result?.documents ?? [];
  const records = result?.records ?? {};
  const examined = plural(result?.examined ?? 0, "document");
  const status = isComplete ? say`Searched ${examined}.` : say`Searching: ${examined} so far\u2026`;
  const isEmpty = isComplete && !documents.length && !recordsOf(records);
  return html`<p class="soft small" role="status">${status}</p>
    ${isEmpty ? empty({ sign: "circle-check", title: say`Nothing names this person`, text: NOT_SEARCHED }) : nothing}
    ${documents.length ? documentTable(documents) : nothing}
    ${recordsOf(records) ? recordChoice(records) : nothing}
    ${isComplete && !isEmpty ? decision() : nothing}`;
}

const NOT_SEARCHED = say`Documents that are not read yet, words that were lost when a file was read, pictures without a description, labelled sets and backups are not searched.`;

/** @param {Result["documents"]} documents */
function documentTable(documents) {
  const isAll = documents.every(({ id }) => seen.chosen.has(id));
  const change = () => {
    seen.chosen = new Set(isAll ? [] : documents.map(({ id }) => id));
    redraw();
  };
  return html`<h2>${plural(documents.length, "document")}</h2>
    <p><button type="button" @click=${change}>${isAll ? say`Choose none` : say`Choose all`}</button></p>
    ${table({
      label: say`Documents that name the person`,
      rows: documents.slice(0, MOST_ROWS),
      key: ({ id }) => id,
      columns: [
        { words: say`Erase`, cell: box, silent: true },
        { words: say`Document`, cell: documentCell, main: true },
        { words: say`Collection`, cell: ({ collection }) => html`<span dir="auto">${collection}</span>` },
        { words: say`Deletes`, cell: ({ deletes }) => wordsOf(deletes).join(", "), width: "minmax(10rem, 0.6fr)" },
      ],
    })}
    ${documents.length > MOST_ROWS
      ? html`<p class="soft small">${say`The first ${count(MOST_ROWS)} are shown.`}</p>`
      : nothing}`;
}

/** @param {import("../parts/person.js").Found} document */
function box({ id, ...document }) {
  const change = () => (seen.chosen.delete(id) || seen.chosen.add(id), redraw());
  return html`<label class="kit-check"><input type="checkbox" aria-label=${say`Erase ${nameOf(document)}`}
    .checked=${live(seen.chosen.has(id))} @change=${change}></label>`;
}

/** @param {import("../parts/person.js").Found} document */
function documentCell({ id, matches, ...document }) {
  const parts = Object.keys(PARTS).filter((part) => part in matches);
  const excerpt = matches[parts[0]] ?? "";
  const where = listed(parts.map((part) => PARTS[part]));
  return html`<a href=${`${ROOT}/documents/${id}`} dir="auto">${nameOf(document)}</a>
    <p class="soft">${where}: <q dir="auto">${opening(excerpt, LENGTH)}</q></p>`;
}

/** @param {Record<string, number>} records */
function recordChoice(records) {
  const { queries_in_gaps: inGaps, feedback } = records;
  const details = [
    ...(inGaps ? [say`${plural(inGaps, "question")} in gaps`] : []),
    ...(feedback ? [say`${plural(feedback, "question")} with feedback`] : []),
  ];
  const change = () => ((seen.withRecords = !seen.withRecords), redraw());
  return html`<h2>${say`Users' questions and conversations`}</h2>
    <label class="kit-check"><input type="checkbox" .checked=${live(seen.withRecords)} @change=${change}>
      <span>${say`Also delete ${listed(wordsOf(records))} with these texts, in all collections`}
        ${details.length ? html`<span class="soft">(${details.join(", ")})</span>` : nothing}</span></label>`;
}

function decision() {
  const { result, chosen, withRecords } = seen;
  const documents = (result?.documents ?? []).filter(({ id }) => chosen.has(id));
  const records = withRecords ? (result?.records ?? {}) : {};
  const number = recordsOf(records);
  if (!documents.length && !number) return html`<p class="soft">${say`Choose what to erase.`}</p>`;
  if (documents.length > MOST_DOCUMENTS) {
    return html`<p class="warning">${say`Choose at most ${count(MOST_DOCUMENTS)} documents.`}</p>`;
  }
  const deleted = [
    ...wordsOf({ documents: documents.length, ...sums(documents.map(({ deletes }) => ({ ...deletes }))) }),
    ...(number ? [say`with these texts: ${listed(wordsOf(records))}`] : []),
  ];
  return html`<div class="kit-fields">
    <section aria-labelledby="erase-deleted"><h2 id="erase-deleted">${say`Deleted data`}</h2>
      <ul>${deleted.map((words) => html`<li>${words}</li>`)}</ul></section>
    <section aria-labelledby="erase-kept"><h2 id="erase-kept">${say`Retained data`}</h2>
      <ul>${KEPT.map((words) => html`<li>${words}</li>`)}</ul></section></div>
    ${confirmation.view({
      label: say`Confirm the erasure`,
      action: say`Erase permanently`,
      busy: say`Starting\u2026`,
      danger: true,
      body: (field) => html`${field({
        name: "confirmed", required: true, longest: 200,
        label: say`Type \u201c${expected()}\u201d to confirm`,
        hint: say`This cannot be undone.`,
      })}`,
    })}`;
}

const KEPT = [
  say`Backups, until they are deleted`,
  say`Data that the provider of the language model retains`,
  say`Costs and counts, without texts`,
  say`Labelled sets, and conversations in browsers`,
  say`The original file at a source: delete it there, too`,
];

function recently() {
  if (!recent.items) return recent.problem ? problemCard(recent.problem, list.start) : skeleton();
  if (!recent.items.length) return nothing;
  return html`<h2>${say`Recent erasures`}</h2>
    ${table({
      label: say`Recent erasures`,
      rows: recent.items,
      key: ({ id }) => id,
      columns: [
        { words: say`Started`, cell: (each) => html`<a href=${`${ROOT}/erase/${each.id}`}>${ago(each.started_at)}</a>`,
          main: true },
        { words: say`Scope`, cell: scopeOf },
        { words: say`State`, cell: stateOf },
      ],
    })}`;
}

/** @param {Api["ErasureView"]} erasure */
function scopeOf({ scope, collection, document_ids: ids }) {
  if (scope === "tenant") return say`all data of the tenant`;
  if (scope === "collection") return say`the collection ${html`<span dir="auto">${collection}</span>`}`;
  return ids.length ? plural(ids.length, "document") : say`users' records`;
}

/** @param {Api["ErasureView"]} erasure */
const stateOf = ({ state }) => (state === "finished" ? say`finished` : say`running`);

function erasure() {
  const { erasure: shown, problem } = followed;
  const back = html`<p><a href=${`${ROOT}/erase`}>${say`Search for a person`}</a></p>`;
  if (!shown) return html`${problemCard(problem, progress.start)}${problem ? back : skeleton()}`;
  return html`${problem ? problemCard(problem, progress.poll) : nothing}
    <h2>${scopeOf(shown)}</h2>
    ${shown.documents_left ? bar(1 - shown.documents_left / (shown.deleted.documents || 1), "ready") : nothing}
    <p role="status">${shown.state === "finished" ? say`The erasure has finished.` : running(shown)}</p>
    ${shown.state === "finished" ? outcome(shown) : nothing}
    ${back}`;
}

const AFTERWARDS = say`The documents are deleted. The remaining data is deleted when running work has finished, which takes some minutes.`;

/** @param {Api["ErasureView"]} erasure */
function running({ documents_left: left, deleted }) {
  const all = deleted.documents ?? 0;
  if (!left) return AFTERWARDS;
  return say`The documents are invisible. ${count(left)} of ${count(all)} rows are still to be deleted.`;
}

/** @param {Api["ErasureView"]} erasure */
function outcome({ deleted }) {
  const words = wordsOf(deleted);
  return html`${words.length ? html`<p>${say`Deleted: ${listed(words)}.`}</p>` : nothing}
    ${followed.check
      ? checked(followed.check)
      : html`<p class="soft">${say`Checking PostgreSQL and Qdrant\u2026`}</p>`}`;
}

/** @param {Api["ErasureCheckView"]} check */
function checked({ found: number, locations }) {
  if (!number) return html`<p class="good">${say`Checked: PostgreSQL and Qdrant contain nothing of it.`}</p>`;
  return html`<p class="bad">${say`Checked: ${plural(number, "remaining row")}. Check again in some minutes.`}</p>
    ${table({
      label: say`Remaining data`,
      rows: locations.filter((each) => each.count),
      columns: [
        { words: say`Location`, cell: ({ engine, location }) => `${engine} ${location}`, main: true },
        { words: say`Number`, cell: (each) => count(each.count), number: true },
      ],
    })}
    <p><button type="button" @click=${again}>${say`Check again`}</button></p>`;
}

function again() {
  followed.check = null;
  redraw();
  progress.poll();
}
