// Reader: a document's chunks with their questions, kept and dropped.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, bytes, get, send } from "../api.js";
import { skeleton } from "../kit/skeleton.js";
import { redraw } from "../store.js";
import { listen } from "../events.js";
import { questionsOf } from "../parts/chunk-questions.js";
import { deleteDocuments } from "../parts/deletion.js";
import { ago, count, plural, money, nameOf, opening, path, score } from "../parts/format.js";
import { columns } from "../parts/bars.js";
import { icon } from "../parts/icon.js";
import { kindOf, openingOf } from "../parts/kinds.js";
import { lists, pendingText } from "../parts/handover.js";
import { may, server } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { readersWords } from "../parts/reader-words.js";
import { replaceFile } from "../parts/replacement.js";
import { forget, loadUnread, lostPartsOf, originOf, pagesOf, textOf } from "../parts/scans.js";
import { sentencesIn } from "../parts/sentences.js";
import { OPEN, canRetry, progressOf, remedyOf, stateMark } from "../parts/state.js";
import { MARGIN, WindowedList } from "../parts/window.js";
import { say } from "../parts/words.js";

export const title = say`Document`;
const PAGE = 100;
const STATES = [["", say`all chunks`], ["parsed,generating,generated", say`in progress`], ["dead", say`dead`]];
const ROW = 48;
const SHOWN_QUERIES = 20;
const LIST = {
  kind: "chunk-rows",
  isCurrent: (/** @type {Api["ChunkView"]} */ chunk) => shown.open?.id === chunk.id,
};

/**
 * `isOriginal`: whether the original is shown, too.
 * @typedef {{
 *   id: string,
 *   document: Api["DocumentView"] | null,
 *   chunks: Api["ChunkView"][],
 *   of: string,
 *   before: string | null,
 *   next: string | null,
 *   open: Api["ChunkView"] | null,
 *   state: string,
 *   problem: any,
 *   loading: boolean,
 *   again: () => void,
 *   stale: Set<string>,
 *   isOriginal: boolean,
 *   cited: {chunk: string | null, sentences: [number, number][]},
 * }} Reading
 */

/** @type {Reading} */
let shown = newState("");
let stop = () => {};
const windowed = new WindowedList(ROW, () => more());

/** @param {string} id @returns {Reading} */
function newState(id) {
  return {
    id,
    document: null,
    chunks: [],
    of: "",
    before: null,
    next: null,
    open: null,
    state: "",
    problem: null,
    loading: false,
    again: () => refresh(),
    stale: new Set(),
    isOriginal: false,
    cited: { chunk: null, sentences: [] },
  };
}

/** @param {{id: string, query: URLSearchParams}} route */
export async function load({ id, query }) {
  shown = newState(id);
  shown.cited = { chunk: query.get("chunk"), sentences: sentencesIn(query.get("cited")) };
  shown.isOriginal = query.get("view") === "original";
  windowed.toTop();
  stop();
  stop = listen(onEvent, () => {});
  asked = { chunk: "", items: null, problem: null };
  server().then((me) => ((byDefault = me?.readable_by_default), redraw()));
  await refresh(query.get("chunk") ?? undefined);
}

export function unload() {
  stop();
  forget();
  original?.forgetOriginal();
}

async function refresh(around = shown.open?.id) {
  const now = shown;
  try {
    now.document = await get(`/v1/documents/${now.id}`);
    await loadUnread(now.document);
    let page = await get(chunksOf(now));
    if (around && !now.state && !page.items.some((chunk) => chunk.id === around)) {
      page = await get(`${chunksOf(now)}&around=${encodeURIComponent(around)}`).catch(() => page);
    }
    Object.assign(now, {
      chunks: page.items,
      of: whole(now.document),
      before: page.previous_cursor,
      next: page.next_cursor,
      problem: null,
      stale: new Set(),
    });
    const isMissing = around !== undefined && !page.items.some((chunk) => chunk.id === around);
    if (isMissing) now.isOriginal = false; // the original is not opened at another passage
    now.open = page.items.find((chunk) => chunk.id === around) ?? now.open ?? (wide() ? page.items[0] : null) ?? null;
  } catch (problem) {
    Object.assign(now, { problem, again: () => refresh() });
  }
  redraw();
}

/** @param {Reading} now @returns {`/v1/documents/${string}/chunks?${string}`} */
const chunksOf = (now) => `/v1/documents/${now.id}/chunks?limit=${PAGE}${now.state ? `&state=${now.state}` : ""}`;

/** Identify the list of chunks: version and number. @param {Api["DocumentView"]} each */
const whole = (each) => `${each.version}/${each.chunks.total}`;

const wide = () => matchMedia("(min-width: 64rem)").matches;

async function more() {
  const now = shown;
  if (now.loading || !now.next || now.problem) return;
  now.loading = true;
  try {
    const page = await get(`${chunksOf(now)}&cursor=${encodeURIComponent(now.next)}`);
    now.chunks = [...now.chunks, ...page.items];
    now.next = page.next_cursor;
  } catch (problem) {
    Object.assign(now, { problem, again: () => ((now.problem = null), more()) });
  }
  now.loading = false;
  redraw();
}

/** Reload the visible chunks. The others are reloaded when they become visible. */
async function reload() {
  const now = shown;
  if (!now.document || !now.chunks.length || now.of !== whole(now.document)) return refresh();
  now.stale = new Set(now.chunks.map((chunk) => chunk.id));
  await reloadVisible();
}

let reading = false;
async function reloadVisible() {
  const now = shown;
  if (reading) return;
  reading = true;
  const from = Math.max(0, Math.floor(windowed.top / ROW) - MARGIN);
  const first = now.chunks[from] ?? now.chunks[0];
  for (const chunk of now.chunks.slice(from, from + PAGE)) now.stale.delete(chunk.id);
  try {
    const page = await get(`${chunksOf(now)}&from=${first.ordinal}`);
    const read = new Map(page.items.map((chunk) => [chunk.id, chunk]));
    now.chunks = now.chunks.map((chunk) => read.get(chunk.id) ?? chunk);
    now.open = read.get(now.open?.id ?? "") ?? now.open;
  } catch (problem) {
    Object.assign(now, { problem, again: () => ((now.problem = null), reloadVisible()) });
  }
  reading = false;
  redraw();
}

async function earlier() {
  const now = shown;
  try {
    const page = await get(`${chunksOf(now)}&cursor=${encodeURIComponent(now.before ?? "")}`);
    now.chunks = [...page.items, ...now.chunks];
    now.before = page.previous_cursor;
    windowed.toTop();
  } catch (problem) {
    now.problem = problem;
  }
  redraw();
}

/** Reload after missed events without moving the scroll position. */
async function catchUp() {
  const now = shown;
  try {
    now.document = await get(`/v1/documents/${now.id}`);
    await loadUnread(now.document);
  } catch {
    return refresh(); // it reports the error
  }
  if (now === shown) await reload();
}

let waiting = 0;
/** @param {string} name @param {any} data of an event of that name */
function onEvent(name, data) {
  if (name === "reset") catchUp();
  if (name !== "document" || data.id !== shown.id) return;
  if (data.pages_unread) loadUnread(data).then(redraw, () => {});
  shown.document = data;
  redraw();
  if (!waiting) waiting = window.setTimeout(() => ((waiting = 0), reload()), 1500);
}

async function retry() {
  try {
    await send("POST", `/v1/documents/${shown.id}/retry`);
    notify(say`Retrying the document.`);
    await refresh();
  } catch (problem) {
    notify(problem.message);
  }
}

/** @param {string} state */
function choose(state) {
  Object.assign(shown, { state, open: null, chunks: [] });
  windowed.toTop();
  refresh();
}

/** Delete the document, and return to the list. */
function remove() {
  if (!shown.document) return;
  deleteDocuments([shown.document], () => {});
  document.getElementById("to-list")?.click();
}

/** Render the action that repairs the document first. @param {Api["DocumentView"]} each */
function repairs(each) {
  if (!may("write")) return nothing;
  const remedy = remedyOf(each);
  /** @param {string} name */
  const kind = (name) => (remedy === name ? "main" : nothing);
  const replace = () => replaceFile(each, refresh);
  const replacing = html`<button class=${kind("replace")} @click=${replace}>${say`Replace file`}</button>`;
  const again = html`<button class=${kind("retry")} @click=${retry}>${say`Try again`}</button>`;
  if (!canRetry(each)) return replacing;
  return remedy === "retry" ? [again, replacing] : [replacing, again];
}

/** @type {typeof import("../parts/original.js") | null} */
let original = null;

/** @param {boolean} isOriginal */
async function toggle(isOriginal) {
  shown.isOriginal = isOriginal;
  if (!isOriginal) original?.forgetOriginal();
  if (isOriginal && !original) await loadOriginal();
  redraw();
  const focus = () => document.getElementById(isOriginal ? "original-title" : "open-original")?.focus();
  requestAnimationFrame(() => requestAnimationFrame(focus));
}

async function loadOriginal() {
  try {
    original = await import("../parts/original.js");
  } catch {
    shown.isOriginal = false;
    notify(say`The server is unreachable. This page may be out of date.`);
  }
  redraw();
}

/** Return the sentences that the address cites. @param {Api["ChunkView"]} chunk */
const citedIn = (chunk) => (chunk.id === shown.cited.chunk ? shown.cited.sentences : []);

/** @param {Api["DocumentView"]} each @param {Api["ChunkView"]} chunk */
function originalOf(each, chunk) {
  if (!original) loadOriginal();
  return original?.originalView(each, chunk, citedIn(chunk), () => toggle(false)) ?? nothing;
}

/** Download the file with fetch, because a link cannot carry a key. */
async function save() {
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await bytes(`/v1/documents/${shown.id}/content`));
    link.download = shown.document?.filename || shown.document?.external_id || "document";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (problem) {
    notify(problem.message);
  }
}

export function view() {
  if (!shown.document) {
    const state = shown.problem ? problemCard(shown.problem, () => refresh()) : skeleton({ rows: 8 });
    return html`<section class="column wide">${state}</section>`;
  }
  const { document: each, open } = shown;
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => choose(event.target.value);
  const isOriginal = open !== null && shown.isOriginal && kindOf(each) !== null;
  return html`<div class="split ${open ? "with-detail" : ""} ${isOriginal ? "with-original" : ""}">
    <section class="column wide">
      <p class="small"><a id="to-list" href=${`${ROOT}/documents${lists.search}`}>${say`Documents`}</a></p>
      <h2 dir="auto" class="question-title">${nameOf(each)}</h2>
      <p class="counts soft">${stateMark(each.state)}
        ${facts(each).map((words) => html`<span dir="auto">${words}</span>`)}
        <span>${ago(each.updated_at)}</span></p>
      ${may("all") ? readersOf(each) : nothing}
      ${progressOf(each) ? html`<p class="soft">${progressOf(each)}</p>` : nothing}
      ${errorOf(each, open)}
      ${each.pages ? pagesOf(each, refresh) : nothing}
      ${lostPartsOf(each)}
      <p class="tools">
        ${remedyOf(each) ? repairs(each) : nothing}
        <button @click=${save}>${say`Download original`}</button>
        ${remedyOf(each) ? nothing : repairs(each)}
        ${may("write") ? html`<button class="danger" @click=${remove}>${say`Delete`}</button>` : nothing}
        ${each.chunks.total > 1
          ? html`<label class="picker"><span class="hidden">${say`Filter chunks`}</span><select @change=${chosen}>
              ${STATES.map(
                ([state, words]) => html`<option value=${state} ?selected=${state === shown.state}>${words}</option>`,
              )}</select></label>`
          : nothing}
      </p>
      ${along()}
      ${problemCard(shown.problem, shown.again)}
      ${shown.before ? html`<p><button @click=${earlier}>${say`Show earlier chunks`}</button></p>` : nothing}
      ${shown.chunks.length
        ? windowed.view(shown.chunks, totalOf(each), row, say`Chunks`, LIST)
        : html`<p class="empty soft">${noChunks(each)}</p>`}
    </section>
    ${open && isOriginal ? originalOf(each, open) : nothing}
    ${open ? detail(open) : nothing}
  </div>${readers?.readersDialog() ?? nothing}`;
}

/** @type {typeof import("../parts/readers.js") | null} loaded when its dialog is opened */
let readers = null;
/** @type {string | undefined} who reads documents that name no readers */
let byDefault;

/** Show the readers of the document, with a button that opens their dialog. @param {Api["DocumentView"]} each */
function readersOf(each) {
  const words = say`Readers: ${readersWords(each.readable_by, byDefault)}`;
  const action = may("write") ? say`Change readers` : say`Check access`;
  const button = html`<button class="quiet small" @click=${() => openReaders(each)}>${action}</button>`;
  return html`<p class="counts soft small"><span dir="auto">${words}</span>
    ${may("write") || may("manage") ? button : nothing}</p>`;
}

/** @param {Api["DocumentView"]} each */
async function openReaders(each) {
  try {
    readers ??= await import("../parts/readers.js");
  } catch {
    return notify(say`The server is unreachable. This page may be out of date.`);
  }
  readers.openReaders(each, byDefault, (changed) => {
    if (shown.id === changed.id) shown.document = changed;
    redraw();
  });
}

/** Return the known facts about a document; a name that is its title, and numbers of nothing, say nothing new. */
const facts = (/** @type {Api["DocumentView"]} */ each) => [
  each.external_id === nameOf(each) ? "" : each.external_id, versionWords(each),
  each.chunks.total ? plural(each.chunks.total, "chunk") : "",
  each.questions ? plural(each.questions, "question") : "",
  each.usage.cost ? money(each.usage.cost) : "",
].filter(Boolean);

/** Return the number of listed chunks, loaded or not. @param {Api["DocumentView"]} each */
const totalOf = (each) => (shown.state ? shown.chunks.length + (shown.next ? PAGE : 0) : each.chunks.total);

/**
 * Show why a document failed or waits, unless the panel of a chunk says it already.
 * @param {Api["DocumentView"]} document @param {Api["ChunkView"] | null} chunk
 */
function errorOf({ error }, chunk) {
  const isShown = chunk !== null && [chunk.error, ...chunk.attempts.map((attempt) => attempt.error)].includes(error);
  return error && !isShown ? html`<div class="trouble"><p dir="auto">${error}</p></div>` : nothing;
}

/** Render the number of kept and dropped questions per chunk, for the loaded chunks. */
function along() {
  if (shown.chunks.length < 3) return nothing;
  const values = shown.chunks.map((chunk) => ({ good: kept(chunk), bad: dropped(chunk) }));
  const most = Math.max(...values.map(({ good, bad }) => good + bad));
  const lost = values.some(({ bad }) => bad);
  const [first, last] = [shown.chunks[0].ordinal + 1, shown.chunks[shown.chunks.length - 1].ordinal + 1];
  return html`<div class="per-chunk"><p class="soft small">${say`Questions per chunk: kept, with dropped on top`}
      ${lost ? html`<button class="quiet" @click=${toDropped}>${say`Next dropped question`}</button>` : nothing}</p>
    <div class="axis soft small" aria-hidden="true"><span>${count(most)}</span><span>0</span></div>
    ${columns(values, "other-part", (index) => windowed.show(index))}
    <p class="ends soft small" aria-hidden="true"><span>${say`chunk ${first}`}</span><span>${last}</span></p></div>`;
}

/** Open the next chunk with a dropped question. */
function toDropped() {
  const from = shown.chunks.findIndex((chunk) => chunk.id === shown.open?.id) + 1;
  const later = shown.chunks.findIndex((chunk, index) => index >= from && dropped(chunk));
  const index = later >= 0 ? later : shown.chunks.findIndex(dropped);
  windowed.show(index);
  open(shown.chunks[index], /** @type {HTMLElement} */ (document.activeElement));
}

const kept = (/** @type {Api["ChunkView"]} */ chunk) =>
  chunk.questions.filter((question) => question.passed).length - chunk.disabled_questions;
const dropped = (/** @type {Api["ChunkView"]} */ chunk) =>
  chunk.questions.filter((question) => question.passed === false).length;

/** @param {Api["DocumentView"]} document */
function versionWords({ version, live_version: live }) {
  return live && live !== version ? say`version ${version}, live version ${live}` : say`version ${version}`;
}

/** Explain why no chunk is shown. @param {Api["DocumentView"]} document */
function noChunks({ state }) {
  if (shown.state) return say`No matching chunks.`;
  if (state === "reading") return say`The pages are being read. The chunks will appear here.`;
  if (OPEN.includes(state)) return say`The document is being parsed. Its chunks will appear here.`;
  return say`This document has no chunks.`;
}

/** @param {Api["ChunkView"]} chunk */
function row(chunk) {
  if (shown.stale.has(chunk.id) && !reading && !shown.problem) queueMicrotask(reloadVisible);
  /** @param {Event & {currentTarget: HTMLElement}} event */
  const choose = (event) => open(chunk, event.currentTarget);
  const [headings, text] = [path(within(chunk)), opening(chunk.text, 160)];
  const [lost, off] = [dropped(chunk), chunk.disabled_questions];
  return html`<button class="row-main quiet" aria-current=${String(shown.open?.id === chunk.id)} @click=${choose}>
      <span class="name clip" dir="auto"
        ><span class="soft number">${chunk.ordinal + 1}</span> ${headings || text}</span>
      ${headings ? html`<span class="soft small clip" dir="auto">${text}</span>` : nothing}</button>
    ${chunk.state === "dead"
      ? stateMark("failed")
      : html`<span class="small number">${say`${kept(chunk)} kept`}</span>`}
    <span class="soft small number middle-only">${lost ? say`${lost} dropped` : nothing}
      ${lost && off ? html`<br>` : nothing}${off ? say`${off} off` : nothing}</span>`;
}

/** Return the chunk's headings without the document's title. @param {Api["ChunkView"]} chunk */
const within = ({ heading_path: headings }) =>
  shown.document && headings[0] === nameOf(shown.document) ? headings.slice(1) : headings;

/** @type {HTMLElement | null} */
let opener = null; // element that gets the focus when the chunk is closed

/** @param {Api["ChunkView"]} chunk @param {HTMLElement} from */
function open(chunk, from) {
  opener = from;
  shown.open = chunk;
  redraw();
  // The panel covers the list.
  if (!wide()) requestAnimationFrame(() => document.getElementById("chunk-title")?.focus());
}

function close() {
  shown.open = null;
  redraw();
  requestAnimationFrame(() => opener?.focus());
}

/** @param {Api["ChunkView"]} chunk */
function detail(chunk) {
  /** @param {KeyboardEvent} event */
  const pressed = (event) => event.key === "Escape" && close();
  const kind = shown.document && kindOf(shown.document);
  return html`<aside class="detail" aria-labelledby="chunk-title" @keydown=${pressed}>
    <header class="bar-line"><h2 id="chunk-title" tabindex="-1">${say`Chunk ${chunk.ordinal + 1}`}</h2>
      <span class="grow soft small">${originOf(chunk)}</span>
      <button class="quiet" aria-label=${say`Close`} @click=${close}>${icon("x")}</button></header>
    <p class="name" dir="auto">${path(chunk.heading_path)}</p>
    ${shown.document ? textOf(shown.document, chunk, citedIn(chunk)) : nothing}
    ${kind && !shown.isOriginal
      ? html`<p><button id="open-original" @click=${() => toggle(true)}>${openingOf(kind, chunk.page)}</button></p>`
      : nothing}
    <h3>${say`Questions answered by this chunk`}</h3>
    ${chunk.questions.length || chunk.error ? nothing : html`<p class="soft">${say`No questions yet.`}</p>`}
    ${shown.document ? questionsOf(chunk, shown.document.collection, reload) : nothing}
    ${askedOf(chunk)}
    ${failuresOf(chunk)}
    <p class="soft small">${usageOf(chunk.usage)}</p>
    ${may("write")
      ? html`<p><a class="button" href=${`${ROOT}/lab/try`}
          @click=${() => (pendingText.text = chunk.text)}>${say`Try this chunk`}</a></p>`
      : nothing}
  </aside>`;
}

/** @param {Api["IngestUsage"]} usage */
function usageOf({ calls, prompt_tokens, completion_tokens, cost }) {
  const tokens = plural(prompt_tokens + completion_tokens, "token");
  return [plural(calls, "call"), tokens, calls ? money(cost) : ""].filter(Boolean).join(" \u00b7 ");
}

/** Show each reason once, with the number of attempts that failed for it. @param {Api["ChunkView"]} chunk */
function failuresOf({ attempts, error }) {
  /** @type {Map<string, string[]>} */
  const reasons = new Map(error ? [[error, []]] : []);
  for (const attempt of attempts) reasons.set(attempt.error, [...(reasons.get(attempt.error) ?? []), attempt.at]);
  if (!reasons.size) return nothing;
  /** @param {string[]} times */
  const facts = (times) => [plural(times.length, "attempt"), ago(times[times.length - 1])].join(" \u00b7 ");
  return html`<h3>${say`Failed attempts`}</h3><ul class="reasons small" role="list">
    ${[...reasons].map(([reason, times]) => html`<li class="bar-line">
      <span class="grow" dir="auto">${reason}</span>
      <span class="soft">${times.length ? facts(times) : nothing}</span></li>`)}</ul>`;
}

/** @type {{chunk: string, items: Api["AskedQuestionView"][] | null, problem: any}} */
let asked = { chunk: "", items: null, problem: null };

/**
 * Read the users' questions for which a chunk was the first result.
 * @param {string} chunk
 * @param {string} collection
 */
async function readAsked(chunk, collection) {
  /** @type {typeof asked} */
  const now = { chunk, items: null, problem: null };
  asked = now;
  try {
    const page = await get(
      `/v1/collections/${encodeURIComponent(collection)}/queries?limit=${SHOWN_QUERIES}&chunk_id=${chunk}`,
    );
    now.items = page.items;
  } catch (problem) {
    now.problem = problem;
  }
  redraw();
}

/** @param {Api["ChunkView"]} chunk */
function askedOf(chunk) {
  if (!may("manage") || !shown.document) return nothing;
  const { collection } = shown.document;
  if (asked.chunk !== chunk.id) readAsked(chunk.id, collection);
  return html`<h3>${say`Asked by users`}</h3>
    ${asked.items?.length
      ? html`<ul class="questions" role="list" aria-label=${say`Asked by users`}>${asked.items.map(askedQuestion)}</ul>`
      : nothing}
    ${asked.items && !asked.items.length
      ? html`<p class="soft">${say`This chunk was not the first result of any question.`}</p>`
      : nothing}
    ${problemCard(asked.problem, () => readAsked(chunk.id, collection))}`;
}

/** @param {Api["AskedQuestionView"]} each */
function askedQuestion(each) {
  const mark = each.found && each.helpful !== false
    ? html`<span class="good" role="img" aria-label=${say`answered`}>${icon("circle-check")}</span>`
    : html`<span class="bad" role="img" aria-label=${say`not answered`}>${icon("x")}</span>`;
  return html`<li>${mark}<span class="grow"><span dir="auto">${each.question}</span
      ><span class="soft small">${plural(each.times, "time")} \u00b7 ${ago(each.last_at)}</span></span>
    <span class="soft small number">${each.best_score === null ? "" : score(each.best_score)}</span></li>`;
}
