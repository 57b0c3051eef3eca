// Documents: the list, live progress, and uploads by drag and drop.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { ROOT, get, latest, send as request } from "../api.js";
import { listen } from "../events.js";
import { skeleton } from "../kit/skeleton.js";
import { redraw, remember, remembered } from "../store.js";
import { menuButton, openMenu } from "../parts/actions.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { deleteDocuments, deleting, describe } from "../parts/deletion.js";
import { ago, count, plural, money, nameOf } from "../parts/format.js";
import { lists } from "../parts/handover.js";
import { narrowed, narrowing, widen } from "../parts/narrowing.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { replaceFile } from "../parts/replacement.js";
import { OPEN, canRetry, progressOf, reasonsOf, remedyOf, stateMark } from "../parts/state.js";
import { asRequest } from "../parts/request.js";
import { WindowedList } from "../parts/window.js";
import { say } from "../parts/words.js";

export const title = say`Documents`;
export const titled = true;
const PAGE = 100; // rows; pages loaded while scrolling have twice as many
const ROW = 48; // pixels
const MOST_PICKED = 10_000; // documents that can be selected together
const MOST_HITS = 1_000; // the server counts no more
/** The filters by their names in the address; `open` stands for several states. */
const FILTERS = [
  ["", say`any state`], ["ready", say`ready`], ["open", say`in progress`], ["degraded", say`degraded`],
  ["failed", say`failed`],
];
const SORTS = [
  ["newest", say`newest first`], ["updated", say`last updated`], ["name", say`by name`], ["state", say`by state`],
];

/**
 * `of` identifies the listed selection, `searched` is its search text, and `inTexts` is whether texts are searched.
 * @type {{rows: Api["DocumentView"][], of: string, hits: number | null, next: string | null, q: string,
 *   searched: string, inTexts: boolean, state: string, sort: string, problem: any, loading: boolean,
 *   connected: boolean, again: () => void}}
 */
const list = {
  rows: [], of: "", hits: null, next: null, q: "", searched: "", inTexts: false, state: "",
  sort: "newest", problem: null, loading: false, connected: true, again: () => refresh(),
};
let stop = () => {};
let typing = 0;
let dropping = false;
const picked = new Set(); // ids of rows
const windowed = new WindowedList(ROW, () => more());
const newest = latest();

/** @param {{query: URLSearchParams}} route */
export async function load({ query }) {
  readAddress(query);
  windowed.restore(history.state?.top ?? 0);
  picked.clear();
  stop();
  stop = listen(onEvent, onConnection);
  if (list.of !== address(null)) list.rows = [];
  if (isTextSearch()) searchInTexts();
  await readAgain();
  submissionModule().catch(() => {}); // a failure is reported when files are added
}

/** Store the scroll position in the entry of the history, so that Back and a reload return to it. */
export function leave() {
  lists.search = location.search;
  history.replaceState({ top: windowed.top }, "");
}

export function unload() {
  stop();
  clearTimeout(typing);
}

/** @param {URLSearchParams} query */
function readAddress(query) {
  /** @param {string} name @param {string[][]} options */
  const among = (name, options) => (options.some(([value]) => value === query.get(name)) ? query.get(name) : null);
  list.q = query.get("q") ?? "";
  list.inTexts = query.get("in") === "texts" && may("ask");
  list.state = among("state", FILTERS) ?? "";
  list.sort = among("sort", SORTS) ?? "newest";
  collections.chosen = query.get("collection") ?? collections.chosen;
}

/** Put the selection into the address, so that a reload and a shared link keep it. */
function writeAddress() {
  const query = new URLSearchParams(location.search);
  const sort = list.sort === "newest" ? "" : list.sort;
  const values = { q: list.q, in: list.inTexts ? "texts" : "", state: list.state, sort };
  for (const [name, value] of Object.entries(values)) value ? query.set(name, value) : query.delete(name);
  history.replaceState(null, "", `${location.pathname}${String(query) && `?${query}`}`);
}

/** @param {boolean} connected */
function onConnection(connected) {
  const back = connected && !list.connected;
  list.connected = connected;
  if (back && list.problem) refresh();
  redraw();
}

/** Return the names of the chosen states. */
const states = () => (list.state === "open" ? OPEN : list.state.split(",").filter(Boolean));
const isTextSearch = () => list.inTexts && list.q.trim() !== "";

/** @param {string | null} cursor @returns {`/v1/documents?${string}`} */
const address = (cursor) => {
  const limit = String(cursor ? 2 * PAGE : PAGE);
  const query = new URLSearchParams({ collection: collections.chosen, limit, sort: list.sort, metadata: "false" });
  if (list.q && !list.inTexts) query.set("q", list.q);
  if (list.q && !list.inTexts && !cursor) query.set("count", "true");
  if (list.state) query.set("state", states().join(","));
  for (const [name, value] of narrowed()) query.set(name, value);
  if (cursor) query.set("cursor", cursor);
  return `/v1/documents?${query}`;
};

/** Return the first page. The list is empty while there is no collection: the first upload creates one. */
async function firstPage() {
  await loadCollections();
  return collections.items.length ? get(address(null)) : { items: [], next_cursor: null, hits: null };
}

const refresh = () => read(0);

/** Load the list after missed events or on return, with as many rows as before, so that the scroll position stays. */
function readAgain() {
  const visible = Math.ceil((windowed.top + windowed.height) / ROW);
  return read(windowed.top > 0 ? Math.max(list.rows.length, visible) : 0);
}

/** Read at least `most` rows. @param {number} most */
async function read(most) {
  const { q } = list;
  list.loading = true;
  redraw();
  try {
    replace({ ...(await newest(firstRows(most))), searched: q });
  } catch (problem) {
    Object.assign(list, { problem, again: () => read(most) });
  }
  list.loading = false;
  redraw();
}

/** @param {number} most */
async function firstRows(most) {
  let page = await firstPage();
  const of = address(null);
  const { hits = null } = page;
  const rows = new Map(page.items.map((row) => [row.id, row]));
  while (rows.size < most && page.next_cursor) {
    page = await get(address(page.next_cursor));
    for (const row of page.items) rows.set(row.id, row);
  }
  return { rows: [...rows.values()], of, hits, next: page.next_cursor };
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
  const pending = pendingEvents.splice(0);
  for (const document of pending) if (document.collection === collections.chosen) settle(document);
}

/**
 * Update a document's row, or insert it at its position among the loaded rows.
 * @param {Api["DocumentView"]} document
 */
function settle(document) {
  const index = list.rows.findIndex((row) => row.id === document.id);
  if (index >= 0) {
    if (Date.parse(document.updated_at) >= Date.parse(list.rows[index].updated_at)) list.rows[index] = document;
  } else if (!list.q && !list.state && !narrowed().length && list.sort === "newest" && document.state !== "deleting") {
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
  clearTimeout(typing);
  writeAddress();
  if (isTextSearch()) searchInTexts();
  refresh();
}

/** @param {On<HTMLInputElement>} event */
function typed(event) {
  list.q = event.target.value;
  picked.clear();
  windowed.toTop();
  clearTimeout(typing);
  typing = window.setTimeout(() => filter({}), list.inTexts ? 600 : 250); // a search in texts embeds the words
}

/** @type {typeof import("../parts/text-search.js") | null} loaded when texts are searched */
let texts = null;

async function searchInTexts() {
  try {
    texts ??= await import("../parts/text-search.js");
  } catch {
    return notify(say`The server is unreachable. This page may be out of date.`);
  }
  await texts.searchTexts(list.q, collections.chosen);
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

/**
 * Apply an action to each document and report failures in one message.
 * @param {Api["DocumentView"][]} rows @param {(row: Api["DocumentView"]) => Promise<any>} action
 */
async function withEach(rows, action) {
  /** @type {Error[]} */
  const problems = [];
  for (const row of rows) await action(row).catch((problem) => problems.push(problem));
  const [first] = problems;
  const { length } = problems;
  if (length === 1) notify(first.message);
  else if (length) notify(say`${plural(length, "document")} of ${count(rows.length)}: ${first.message}`);
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
  picked.clear();
  deleteDocuments(rows, refreshCounts);
}

const isShown = (/** @type {Api["DocumentView"]} */ row) => !deleting.has(row.id);

/** Render the actions for selected documents. */
function selection() {
  if (!picked.size) return nothing;
  const rows = list.rows.filter((row) => picked.has(row.id) && isShown(row));
  if (!rows.length) return nothing;
  const again = rows.filter(canRetry);
  const isAll = rows.length === list.rows.filter(isShown).length;
  return html`<p class="tools selection" role="group" aria-label=${say`Selected documents`}>
    <span class="grow">${say`${plural(rows.length, "document")} selected`}</span>
    ${isAll && list.next ? html`<button @click=${pickAll}>${say`Select all`}</button>` : nothing}
    ${again.length ? html`<button @click=${() => retry(again)}>${say`Retry ${count(again.length)}`}</button>` : nothing}
    <button class="danger" @click=${() => remove(rows)}>${say`Delete ${count(rows.length)}`}</button>
    <button class="quiet" @click=${() => (picked.clear(), redraw())}>${say`Clear selection`}</button></p>`;
}

function pickLoaded() {
  for (const row of list.rows) picked.add(row.id);
  redraw();
}

/** Load the other documents of the list, and select them, too. */
async function pickAll() {
  await read(MOST_PICKED);
  pickLoaded();
  if (list.next) notify(say`The first ${plural(list.rows.length, "document")} are selected.`);
}

function totals() {
  const known = collections.items.find((each) => each.name === collections.chosen)?.documents ?? {};
  /** @param {string[]} names */
  const sum = (names) => names.reduce((total, state) => total + (known[state] ?? 0), 0);
  const all = sum(Object.keys(known));
  const { length } = list.rows;
  const counted = list.searched && list.hits !== null ? list.hits : list.state ? sum(states()) : all;
  const shown = narrowed().length ? length + PAGE : counted; // the rows of a job or a reason are not counted
  return { known, working: sum(OPEN), all, shown: list.next ? Math.max(shown, length + 1) : length };
}

export function view() {
  const { known, working, all, shown } = totals();
  const notice = collections.items.find((each) => each.name === collections.chosen)?.notice;
  /** @param {Event} event */
  const over = (event) => (event.preventDefault(), dropping || ((dropping = true), redraw()));
  return html`<section class="column wide ${dropping ? "dropping" : ""}" @dragover=${over}
    @dragleave=${() => ((dropping = false), redraw())} @drop=${dropped}>
    ${tools()}
    <p class="counts soft">
      ${stateCount(known.ready, say`ready`, "ready")} ${stateCount(working, say`in progress`, "indexing")}
      ${stateCount(known.degraded, say`degraded`, "degraded")} ${stateCount(known.failed, say`failed`, "failed")}
      <span role="status">${hitsOf()}</span>
      ${list.connected ? nothing : html`<span class="bad">${say`Not connected: this list may be out of date`}</span>`}
    </p>
    ${narrowing(() => filter({}))}
    ${notice ? html`<p class="small">${notice}</p>` : nothing}
    ${submission?.pendingUploads()} ${problemCard(list.problem, list.again)} ${may("write") ? selection() : nothing}
    ${isTextSearch() ? texts?.textHits() : content(all, shown)}
    ${all && !isTextSearch() ? asRequest("GET", address(null)) : nothing}
    ${dropping ? html`<div class="drop-sign" aria-hidden="true">
      ${say`Drop files or folders into \u201c${collections.chosen}\u201d`}</div>` : nothing}
    ${openMenu()}
  </section>`;
}

function tools() {
  /** @param {On<HTMLInputElement & {files: FileList}>} event */
  const choose = (event) => (addFiles({ entries: [], files: [...event.target.files] }), (event.target.value = ""));
  const words = list.inTexts ? say`Search texts` : say`Search names`;
  const label = list.inTexts ? say`Search in texts` : say`Search documents`;
  const toggle = () => filter({ inTexts: !list.inTexts });
  const menu = { id: "list", label: say`More actions`, actions: listActions };
  return html`<div class="tools">
    ${collectionPicker(() => filter({}))}
    <input id="search" type="search" maxlength="200" placeholder=${words} aria-label=${label}
      .value=${live(list.q)} @input=${typed}>
    ${may("ask") ? html`<button aria-pressed=${String(list.inTexts)} @click=${toggle}>${say`In texts`}</button>`
      : nothing}
    ${isTextSearch() ? nothing : html`${choice(say`State`, FILTERS, list.state, (state) => filter({ state }))}
      ${choice(say`Order`, SORTS, list.sort, (sort) => filter({ sort }))}`}
    ${may("write") ? html`<label class="button ${submission?.isOffering() ? "" : "main"}">${say`Upload`}
      <input class="hidden" type="file" multiple @change=${choose}></label>` : nothing}
    ${menuButton(menu)}
  </div>`;
}

/** @returns {import("../parts/actions.js").Action[]} */
function listActions() {
  const address = `${ROOT}/collections/${encodeURIComponent(collections.chosen)}`;
  const details = { words: say`Collection details`, href: address };
  const change = () => remember("estimate", asksAlways() ? "" : "always");
  const always = { words: say`Always show the cost before uploading`, checked: asksAlways(), act: change };
  const erase = { words: say`Erase a person`, href: `${ROOT}/erase` };
  return [details, ...(may("write") ? [always] : []), ...(may("manage") ? [erase] : [])];
}

/** Render the number of documents that a search has found. */
function hitsOf() {
  if (!list.searched || list.searched !== list.q || list.inTexts || list.loading) return nothing;
  const number = list.next ? list.hits : list.rows.filter(isShown).length;
  if (number === null) return nothing;
  return number > MOST_HITS ? say`more than ${plural(MOST_HITS, "hit")}` : plural(number, "hit");
}

/** @param {number} all documents of the collection @param {number} shown documents of the list */
function content(all, shown) {
  if (list.loading && !list.rows.length) return skeleton({ rows: 8 });
  if (list.rows.length || (!list.problem && (all || list.q || list.state))) return rows(shown);
  return list.problem || list.loading ? nothing : nothingYet();
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
  /** @param {string[]} option */
  const offered = ([value, word]) => html`<option value=${value} ?selected=${value === chosen}>${word}</option>`;
  return html`<label class="picker"><span class="hidden">${label}</span>
    <select .value=${live(chosen)} @change=${changes}>${options.map(offered)}</select></label>`;
}

/** @param {number} shown */
function rows(shown) {
  const seen = deleting.size ? list.rows.filter(isShown) : list.rows;
  if (!seen.length && !list.loading) {
    const all = () => (widen(), filter({ q: "", state: "" }));
    return html`<div class="empty"><p class="soft">${say`No matching documents.`}</p>
      <button @click=${all}>${say`Show all documents`}</button></div>`;
  }
  const kind = `documents ${may("write") ? "picking" : ""}`;
  return windowed.view(seen, shown, row, title, { kind, head: head(seen) });
}

/** Name the columns. Screen readers read the unit of each number instead. @param {Api["DocumentView"][]} seen */
function head(seen) {
  const chosen = picked.size ? seen.filter((row) => picked.has(row.id)).length : 0;
  const isAll = chosen > 0 && chosen === seen.length;
  const clicked = () => (isAll ? (picked.clear(), redraw()) : pickLoaded());
  return html`<div class="row-head">
    ${may("write") ? html`<label class="pick"><input type="checkbox" aria-label=${say`Select all documents`}
      .checked=${live(isAll)} .indeterminate=${chosen > 0 && !isAll} @change=${clicked}></label>` : nothing}
    <span aria-hidden="true">${say`Name`}</span><span aria-hidden="true">${say`State`}</span>
    <span class="number middle-only" aria-hidden="true">${say`Chunks`}</span>
    <span class="number wide-only" aria-hidden="true">${say`questions`}</span>
    <span class="number wide-only" aria-hidden="true">${say`Cost`}</span>
    <span class="number middle-only" aria-hidden="true">${say`Updated`}</span></div>`;
}

/** @param {Api["DocumentView"]} each */
function row(each) {
  /** @param {On<HTMLInputElement>} event */
  const pick = (event) => (event.target.checked ? picked.add(each.id) : picked.delete(each.id), redraw());
  const name = nameOf(each);
  const reasons = reasonsOf(each);
  const id = isSame(name, each.external_id) ? "" : each.external_id;
  const below = reasons.join(" \u00b7 ") || progressOf(each) || id;
  const { total } = each.chunks;
  const menu = { id: each.id, label: say`Actions for ${name}`, reasons, actions: () => actionsOf(each) };
  return html`${may("write") ? html`<label class="pick"><input type="checkbox" aria-label=${say`Select ${name}`}
      .checked=${live(picked.has(each.id))} @change=${pick}></label>` : nothing}
    <a class="row-main" href=${`${ROOT}/documents/${each.id}`} title=${below || nothing}>
      <span class="name clip" dir="auto">${name}</span>
      ${below ? html`<span class="soft small clip" dir="auto">${below}</span>` : nothing}</a>
    ${stateMark(each.state)}
    ${number(total, plural(total, "chunk"), "middle-only")}
    ${number(total && each.questions, plural(each.questions, "question"), "wide-only")}
    <span class="soft small number wide-only">${(each.usage.calls && money(each.usage.cost)) || "\u2013"}</span>
    <span class="soft small number middle-only">${ago(each.updated_at)}</span>
    ${may("write") ? menuButton(menu) : nothing}`;
}

/**
 * Render a number, with its unit for screen readers only, because the column names it. A dash stands for none.
 * @param {number} value @param {string} words @param {string} kind
 */
function number(value, words, kind) {
  if (!value) return html`<span class="soft small number ${kind}">\u2013</span>`;
  return html`<span class="soft small number ${kind}"><span aria-hidden="true">${count(value)}</span>
    <span class="hidden">${words}</span></span>`;
}

/**
 * Return whether two names differ only in their extension, case and punctuation.
 * @param {string} one @param {string} other
 */
function isSame(one, other) {
  /** @param {string} name */
  const plain = (name) => name.replace(/\.[a-z0-9]{1,5}$/i, "").replace(/[\s._-]+/g, " ").trim().toLowerCase();
  return plain(one) === plain(other);
}

/** @param {Api["DocumentView"]} each @returns {import("../parts/actions.js").Action[]} */
function actionsOf(each) {
  const again = { words: say`Try again`, act: () => retry([each]) };
  const replacing = { words: say`Replace file`, act: () => replaceFile(each, refreshCounts) };
  const first = remedyOf(each) === "retry" ? [again, replacing] : [replacing, ...(canRetry(each) ? [again] : [])];
  return [...first, { words: say`Delete`, danger: true, act: () => remove([each]) }];
}

function nothingYet() {
  return html`<div class="empty"><h2>${say`No documents yet`}</h2>
    <p>${say`Drop files or folders here, choose them with Upload, or upload a folder from a terminal:`}</p>
    <pre>foreask ingest my-folder</pre></div>`;
}
