// Documents: the list, live progress, and uploads by drag and drop.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { ROOT, get, latest, send as request } from "../api.js";
import { listen } from "../events.js";
import { redraw, remember, remembered } from "../store.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { ago, count, plural, money, nameOf } from "../parts/format.js";
import { icon } from "../parts/icon.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { OPEN, canRetry, progressOf, stateMark } from "../parts/state.js";
import { asRequest } from "../parts/request.js";
import { WindowedList } from "../parts/window.js";
import { say } from "../parts/words.js";

export const title = say`Documents`;
export const titled = true;
const PAGE = 100; // rows; pages loaded while scrolling have twice as many
const ROW = 48;
const FILTERS = [["", say`any state`], ["ready", say`ready`], [OPEN.join(","), say`in progress`], ["degraded", say`degraded`], ["failed", say`failed`]];
const SORTS = [["newest", say`newest first`], ["updated", say`last updated`], ["name", say`by name`], ["state", say`by state`]];

/** @type {{rows: Api["DocumentView"][], total: number, next: string | null, q: string, searched: string, state: string, sort: string, problem: any, loading: boolean, connected: boolean, again: () => void}} */
const list = { rows: [], total: 0, next: null, q: "", searched: "", state: "", sort: "newest", problem: null, loading: false, connected: true, again: () => refresh() };
let stop = () => {};
let typing = 0;
let dropping = false;
const deleting = new Set(); // ids of rows whose deletion can still be undone
const picked = new Set(); // ids of rows
const windowed = new WindowedList(ROW, () => more());
const newest = latest();

export async function load() {
  windowed.toTop();
  stop();
  stop = listen(onEvent, onConnection);
  await refresh();
  submissionModule().catch(() => {}); // a failure is reported when files are added
}

export function unload() {
  stop();
}

/** @param {boolean} connected */
function onConnection(connected) {
  const back = connected && !list.connected;
  list.connected = connected;
  if (back && list.problem) refresh();
  redraw();
}

/** @param {string | null} cursor @returns {`/v1/documents?${string}`} */
const address = (cursor) => {
  const query = new URLSearchParams({ collection: collections.chosen, limit: String(cursor ? 2 * PAGE : PAGE), sort: list.sort, metadata: "false" });
  if (list.q) query.set("q", list.q);
  if (list.state) query.set("state", list.state);
  if (cursor) query.set("cursor", cursor);
  return `/v1/documents?${query}`;
};

/** Return the first page. The list is empty while there is no collection: the first upload creates one. */
async function firstPage() {
  await loadCollections();
  return collections.items.length ? get(address(null)) : { items: [], next_cursor: null };
}

async function refresh() {
  const { q } = list;
  list.loading = true;
  redraw();
  try {
    const page = await newest(firstPage());
    replace({ rows: page.items, next: page.next_cursor, searched: q });
  } catch (problem) {
    Object.assign(list, { problem, again: () => refresh() });
  }
  list.loading = false;
  redraw();
}

/** Load the list again after missed events, with as many rows as before, so that the scroll position stays. */
async function readAgain() {
  const loaded = windowed.top > 0 ? list.rows.length : 0;
  if (!loaded) return refresh();
  list.loading = true;
  try {
    replace(await newest(firstRows(loaded)));
  } catch (problem) {
    Object.assign(list, { problem, again: () => readAgain() });
  }
  list.loading = false;
  redraw();
}

/** Read at least `most` rows. @param {number} most */
async function firstRows(most) {
  let page = await firstPage();
  const rows = new Map(page.items.map((row) => [row.id, row]));
  while (rows.size < most && page.next_cursor) {
    page = await get(address(page.next_cursor));
    for (const row of page.items) rows.set(row.id, row);
  }
  return { rows: [...rows.values()], next: page.next_cursor };
}

async function more() {
  if (list.loading || !list.next || list.problem) return;
  list.loading = true;
  try {
    const page = await newest(get(address(list.next)));
    const ids = new Set(list.rows.map((row) => row.id));
    list.rows = [...list.rows, ...page.items.filter((row) => !ids.has(row.id))];
    list.next = page.next_cursor;
    applyPending();
  } catch (problem) {
    Object.assign(list, { problem, again: () => ((list.problem = null), more()) });
  }
  list.loading = false;
  redraw();
}

/** @param {string} name @param {any} data of an event of that name */
function onEvent(name, data) {
  if (name === "reset") readAgain();
  if (name === "progress") refreshCounts();
  if (name !== "document" || data.collection !== collections.chosen) return;
  if (list.loading) pendingEvents.push(data); // the page being loaded may be older
  settle(data);
  redraw();
}

/** @type {Api["DocumentView"][]} */
const pendingEvents = [];

/** Replace the list and apply the events received while it was loaded. @param {Partial<typeof list>} read */
function replace(read) {
  Object.assign(list, read, { problem: null });
  applyPending();
}

function applyPending() {
  for (const document of pendingEvents.splice(0)) settle(document);
}

/** Update a document's row, or insert it at its position among the loaded rows. @param {Api["DocumentView"]} document */
function settle(document) {
  const index = list.rows.findIndex((row) => row.id === document.id);
  if (index >= 0) {
    if (Date.parse(document.updated_at) >= Date.parse(list.rows[index].updated_at)) list.rows[index] = document;
  } else if (!list.q && !list.state && list.sort === "newest" && document.state !== "deleting") {
    const made = Date.parse(document.created_at);
    const older = list.rows.findIndex((row) => Date.parse(row.created_at) <= made);
    if (older < 0 && list.next) return; // it belongs to a page that is not loaded yet
    const at = older < 0 ? list.rows.length : older;
    list.rows.splice(at, 0, document);
    windowed.grewAt(at);
  }
}

let counting = 0;
function refreshCounts() {
  if (counting) return;
  counting = window.setTimeout(() => ((counting = 0), loadCollections().catch(() => {})), 1500);
}

/** @param {Partial<typeof list>} change */
function filter(change) {
  Object.assign(list, change);
  picked.clear(); // rows out of view must not stay selected
  windowed.toTop();
  refresh();
}

/** @param {On<HTMLInputElement>} event */
function typed(event) {
  list.q = event.target.value;
  picked.clear();
  windowed.toTop();
  clearTimeout(typing);
  typing = window.setTimeout(refresh, 250);
}

/** @type {typeof import("../parts/submission.js") | null} loaded after the list, or when files are added earlier */
let submission = null;

const submissionModule = async () => (submission ??= await import("../parts/submission.js"));
const asksAlways = () => remembered("estimate") === "always";

/** @param {import("../parts/submission.js").Selection} given */
async function addFiles(given) {
  const collection = collections.chosen; // the selection may change while the module is loaded
  try {
    const { submitFiles } = await submissionModule();
    await submitFiles(given, collection, asksAlways(), refreshCounts);
  } catch (problem) {
    notify(say`The files were not uploaded: ${problem.message}`);
  }
}

/** @param {Dropped} event */
function dropped(event) {
  event.preventDefault();
  dropping = false;
  const { items, files } = event.dataTransfer; // the browser empties it when the handler returns
  addFiles({ entries: [...items].flatMap((item) => item.webkitGetAsEntry?.() ?? []), files: [...files] });
}

function askingAlways() {
  /** @param {On<HTMLInputElement>} event */
  const choose = (event) => (remember("estimate", event.target.checked ? "always" : ""), redraw());
  return html`<label class="check small soft"><input type="checkbox" .checked=${asksAlways()} @change=${choose}> ${say`Always show the cost before uploading`}</label>`;
}

/** @param {Api["DocumentView"][]} rows */
const describe = (rows) => (rows.length === 1 ? say`\u201c${nameOf(rows[0])}\u201d` : plural(rows.length, "document"));

/** Apply an action to each document and report failures in one message. @param {Api["DocumentView"][]} rows @param {(row: Api["DocumentView"]) => Promise<any>} action */
async function withEach(rows, action) {
  /** @type {Error[]} */
  const problems = [];
  for (const row of rows) await action(row).catch((problem) => problems.push(problem));
  const [first] = problems;
  if (first) notify(problems.length > 1 ? say`${plural(problems.length, "document")} of ${count(rows.length)}: ${first.message}` : first.message);
  return problems.length;
}

/** @param {Api["DocumentView"][]} rows */
async function retry(rows) {
  picked.clear();
  redraw();
  const failed = await withEach(rows, (row) => request("POST", `/v1/documents/${row.id}/retry`));
  if (!failed) notify(say`Retrying ${describe(rows)}.`);
}

/** @param {Api["DocumentView"][]} rows */
function remove(rows) {
  for (const row of rows) deleting.add(row.id);
  picked.clear();
  const back = () => {
    for (const row of rows) deleting.delete(row.id);
    redraw();
  };
  const then = async () => {
    await withEach(rows, (row) => request("DELETE", `/v1/documents/${row.id}`).then(
      () => (list.rows = list.rows.filter((each) => each.id !== row.id)), (problem) => (deleting.delete(row.id), Promise.reject(problem))));
    refreshCounts();
    redraw();
  };
  notify(rows.length === 1 ? say`${describe(rows)} will be deleted with its questions.` : say`${describe(rows)} will be deleted with their questions.`, { undo: back, then, seconds: 8 });
}

/** Render the actions for selected documents. */
function selection() {
  const rows = list.rows.filter((row) => picked.has(row.id));
  if (!rows.length) return nothing;
  const again = rows.filter(canRetry);
  return html`<p class="tools selection" role="group" aria-label=${say`Selected documents`}><span class="grow">${say`${plural(rows.length, "document")} selected`}</span>
    ${again.length ? html`<button @click=${() => retry(again)}>${say`Retry ${count(again.length)}`}</button>` : nothing}
    <button class="danger" @click=${() => remove(rows)}>${say`Delete ${count(rows.length)}`}</button>
    <button class="quiet" @click=${() => (picked.clear(), redraw())}>${say`Clear selection`}</button></p>`;
}

/** Offer to select all documents that a search has found, once all of them are loaded. */
function selectingAll() {
  const rows = list.rows.filter((row) => !deleting.has(row.id));
  if (!list.q || list.searched !== list.q || list.next || rows.length < 2 || rows.every((row) => picked.has(row.id))) return nothing;
  const select = () => {
    for (const row of rows) picked.add(row.id);
    redraw();
  };
  return html`<p class="tools"><button @click=${select}>${say`Select all ${count(rows.length)}`}</button></p>`;
}

function totals() {
  const states = collections.items.find((each) => each.name === collections.chosen)?.documents ?? {};
  const working = OPEN.reduce((sum, state) => sum + (states[state] ?? 0), 0);
  const all = Object.values(states).reduce((sum, each) => sum + each, 0);
  const chosen = list.state ? list.state.split(",").reduce((sum, state) => sum + (states[state] ?? 0), 0) : all;
  return { states, working, all, shown: list.q || !list.next ? list.rows.length + (list.next ? PAGE : 0) : Math.max(chosen, list.rows.length) };
}

export function view() {
  const { states, working, all, shown } = totals();
  const notice = collections.items.find((each) => each.name === collections.chosen)?.notice;
  /** @param {On<HTMLInputElement & {files: FileList}>} event */
  const choose = (event) => (addFiles({ entries: [], files: [...event.target.files] }), (event.target.value = ""));
  /** @param {Event} event */
  const over = (event) => (event.preventDefault(), dropping || ((dropping = true), redraw()));
  return html`<section class="column wide ${dropping ? "dropping" : ""}" @dragover=${over}
    @dragleave=${() => ((dropping = false), redraw())} @drop=${dropped}>
    <div class="tools">
      ${collectionPicker(() => filter({}))}
      <input id="search" type="search" placeholder=${say`Search name or title`} aria-label=${say`Search documents`} .value=${live(list.q)} @input=${typed}>
      ${choice(say`State`, FILTERS, list.state, (state) => filter({ state }))}
      ${choice(say`Order`, SORTS, list.sort, (sort) => filter({ sort }))}
      ${may("write") ? html`<label class="button ${submission?.isOffering() ? "" : "main"}">${say`Upload`}<input class="hidden" type="file" multiple @change=${choose}></label>` : nothing}
    </div>
    <p class="counts soft">
      ${stateCount(states.ready, say`ready`, "ready")} ${stateCount(working, say`in progress`, "indexing")}
      ${stateCount(states.degraded, say`degraded`, "degraded")} ${stateCount(states.failed, say`failed`, "failed")}
      ${all ? html`<a href=${`${ROOT}/collections/${encodeURIComponent(collections.chosen)}`}>${say`Collection details`}</a>` : nothing}
      ${list.connected ? nothing : html`<span class="bad">${say`Not connected: this list may be out of date`}</span>`}
    </p>
    ${notice ? html`<p class="small">${notice}</p>` : nothing}
    ${may("write") ? askingAlways() : nothing} ${submission?.pendingUploads()} ${problemCard(list.problem, list.again)} ${may("write") ? selectingAll() : nothing} ${selection()}
    ${all || list.q || list.state ? rows(shown) : list.problem || list.loading ? nothing : nothingYet()}
    ${all ? asRequest("GET", address(null)) : nothing}
    ${dropping ? html`<div class="drop-sign" aria-hidden="true">${say`Drop files or folders into \u201c${collections.chosen}\u201d`}</div>` : nothing}
  </section>`;
}

/** @param {number | undefined} number @param {string} word @param {string} state */
function stateCount(number, word, state) {
  const kind = OPEN.includes(state) ? "working" : state;
  return number ? html`<span class="state ${kind}">${count(number)} ${word}</span>` : nothing;
}

/** @param {string} label @param {string[][]} options @param {string} chosen @param {(value: string) => void} choose */
function choice(label, options, chosen, choose) {
  /** @param {On<HTMLSelectElement>} event */
  const changes = (event) => choose(event.target.value);
  return html`<label class="picker"><span class="hidden">${label}</span><select .value=${live(chosen)} @change=${changes}>
    ${options.map(([value, word]) => html`<option value=${value} ?selected=${value === chosen}>${word}</option>`)}</select></label>`;
}

/** @param {number} shown */
function rows(shown) {
  const seen = deleting.size ? list.rows.filter((row) => !deleting.has(row.id)) : list.rows;
  if (!seen.length && !list.loading) {
    return html`<div class="empty"><p class="soft">${say`No matching documents.`}</p><button @click=${() => filter({ q: "", state: "" })}>${say`Show all documents`}</button></div>`;
  }
  return windowed.view(seen, shown, row, title);
}

/** @param {Api["DocumentView"]} each */
function row(each) {
  /** @param {On<HTMLInputElement>} event */
  const pick = (event) => (event.target.checked ? picked.add(each.id) : picked.delete(each.id), redraw());
  return html`${may("write") ? html`<label class="pick"><input type="checkbox" aria-label=${say`Select ${nameOf(each)}`} .checked=${live(picked.has(each.id))} @change=${pick}></label>` : nothing}
    <a class="row-main" href=${`${ROOT}/documents/${each.id}`}>
      <span class="name clip" dir="auto">${nameOf(each)}</span>
      <span class="soft small clip" dir="auto">${each.error ?? (progressOf(each) || each.external_id)}</span></a>
    ${stateMark(each.state)}
    <span class="soft small number wide-only">${plural(each.chunks.total, "chunk")}</span>
    <span class="soft small number wide-only">${plural(each.questions, "question")}</span>
    <span class="soft small number wide-only">${money(each.usage.cost)}</span>
    <span class="soft small number">${ago(each.updated_at)}</span>
    ${canRetry(each) && may("write") ? html`<button class="quiet" @click=${() => retry([each])}>${say`Try again`}</button>` : nothing}
    ${may("write") ? html`<button class="quiet" aria-label=${say`Delete ${nameOf(each)}`} @click=${() => remove([each])}>${icon("x")}</button>` : nothing}`;
}

function nothingYet() {
  return html`<div class="empty"><h2>${say`No documents yet`}</h2>
    <p>${say`Drop files or folders here, choose them with Upload, or upload a folder from a terminal:`}</p>
    <pre>foreask ingest my-folder</pre></div>`;
}
