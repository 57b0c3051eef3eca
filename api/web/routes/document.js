// Reader: a document's chunks with their questions, kept and dropped.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, bytes, get, send } from "../api.js";
import { redraw } from "../store.js";
import { listen } from "../events.js";
import { ago, plural, money, nameOf, opening, path, score } from "../parts/format.js";
import { columns } from "../parts/bars.js";
import { icon } from "../parts/icon.js";
import { kindOf, openingOf } from "../parts/kinds.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { forget, loadUnread, lossesOf, originOf, pagesOf, textOf } from "../parts/scans.js";
import { sentencesIn } from "../parts/sentences.js";
import { OPEN, canRetry, progressOf, stateMark } from "../parts/state.js";
import { pendingText } from "../parts/trial.js";
import { MARGIN, WindowedList } from "../parts/window.js";
import { say } from "../parts/words.js";

export const title = say`Document`;
const PAGE = 100;
const STATES = [["", say`all chunks`], ["parsed,generating,generated", say`in progress`], ["dead", say`dead`]];
const ROW = 48;
const SHOWN_QUERIES = 20;

/**
 * @typedef {{id: string, document: Api["DocumentView"] | null, chunks: Api["ChunkView"][], of: string, before: string | null, next: string | null,
 *   open: Api["ChunkView"] | null, state: string, problem: any, loading: boolean, again: () => void, stale: Set<string>,
 *   isOriginal: boolean, cited: {chunk: string | null, sentences: [number, number][]}}} Reading `isOriginal`: whether the original is shown, too
 */

/** @type {Reading} */
let shown = newState("");
let stop = () => {};
const windowed = new WindowedList(ROW, () => more());

/** @param {string} id @returns {Reading} */
function newState(id) {
  return { id, document: null, chunks: [], of: "", before: null, next: null, open: null, state: "", problem: null, loading: false, again: () => refresh(), stale: new Set(), isOriginal: false, cited: { chunk: null, sentences: [] } };
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
    Object.assign(now, { chunks: page.items, of: whole(now.document), before: page.previous_cursor, next: page.next_cursor, problem: null, stale: new Set() });
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

/** Delete the document when its notice closes, unless the user chooses Undo. */
function remove() {
  const { id, document: each } = shown;
  const then = () => send("DELETE", `/v1/documents/${id}`).catch((problem) => notify(problem.message));
  notify(say`\u201c${each ? nameOf(each) : id}\u201d will be deleted with its questions.`, { undo: () => {}, then, seconds: 8 });
}

/** @type {typeof import("../parts/original.js") | null} */
let original = null;

/** @param {boolean} isOriginal */
async function toggle(isOriginal) {
  shown.isOriginal = isOriginal;
  if (!isOriginal) original?.forgetOriginal();
  if (isOriginal && !original) await loadOriginal();
  redraw();
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(isOriginal ? "original-title" : "open-original")?.focus()));
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
  if (!shown?.document) return html`<section class="column">${problemCard(shown?.problem, () => refresh())}</section>`;
  const { document: each, open } = shown;
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => choose(event.target.value);
  const isOriginal = open !== null && shown.isOriginal && kindOf(each) !== null;
  return html`<div class="split ${open ? "with-detail" : ""} ${isOriginal ? "with-original" : ""}">
    <section class="column wide">
      <p class="small"><a href=${`${ROOT}/documents`}>${say`Documents`}</a></p>
      <h2 dir="auto" class="question-title">${nameOf(each)}</h2>
      <p class="counts soft">${stateMark(each.state)}
        <span dir="auto">${each.external_id}</span> <span>${each.live_version && each.live_version !== each.version ? say`version ${each.version}, live version ${each.live_version}` : say`version ${each.version}`}</span>
        <span>${plural(each.chunks.total, "chunk")}</span> <span>${plural(each.questions, "question")}</span>
        ${money(each.usage.cost) ? html`<span>${money(each.usage.cost)}</span>` : nothing} <span>${ago(each.updated_at)}</span></p>
      ${progressOf(each) ? html`<p class="soft">${progressOf(each)}</p>` : nothing}
      ${each.error ? html`<div class="trouble"><p>${each.error}</p></div>` : nothing}
      ${each.pages ? pagesOf(each, refresh) : nothing}
      ${lossesOf(each)}
      <p class="tools">
        <button @click=${save}>${say`Download original`}</button>
        ${may("write") && canRetry(each) ? html`<button class="main" @click=${retry}>${say`Try again`}</button>` : nothing}
        ${may("write") ? html`<button class="danger" @click=${remove}>${say`Delete`}</button>` : nothing}
        ${each.chunks.total > 1 ? html`<label class="picker"><span class="hidden">${say`Filter chunks`}</span><select @change=${chosen}>
          ${STATES.map(([state, words]) => html`<option value=${state} ?selected=${state === shown.state}>${words}</option>`)}</select></label>` : nothing}
      </p>
      ${along()}
      ${problemCard(shown.problem, shown.again)}
      ${shown.before ? html`<p><button @click=${earlier}>${say`Show earlier chunks`}</button></p>` : nothing}
      ${shown.chunks.length ? windowed.view(shown.chunks, shown.state ? shown.chunks.length + (shown.next ? PAGE : 0) : each.chunks.total, row, say`Chunks`)
        : shown.state ? html`<p class="empty soft">${say`No matching chunks.`}</p>` : html`<p class="empty soft">${each.state === "reading" ? say`The pages are being read. The chunks will appear here.` : OPEN.includes(each.state) ? say`The document is being parsed. Its chunks will appear here.` : say`This document has no chunks.`}</p>`}
    </section>
    ${open && isOriginal ? originalOf(each, open) : nothing}
    ${open ? detail(open) : nothing}
  </div>`;
}

/** Render the number of kept and dropped questions per chunk, for the loaded chunks. */
function along() {
  if (shown.chunks.length < 3) return nothing;
  const values = shown.chunks.map((chunk) => ({ good: kept(chunk), bad: dropped(chunk) }));
  return html`<div>${columns(values, "other-part", (index) => windowed.show(index))}
    <p class="soft small">${shown.next || shown.before || shown.state ? say`Questions per chunk in these chunks: kept, with dropped on top` : say`Questions per chunk in the document: kept, with dropped on top`}</p></div>`;
}

const kept = (/** @type {Api["ChunkView"]} */ chunk) => chunk.questions.filter((question) => question.passed).length;
const dropped = (/** @type {Api["ChunkView"]} */ chunk) => chunk.questions.filter((question) => question.passed === false).length;

/** @param {Api["ChunkView"]} chunk */
function row(chunk) {
  if (shown.stale.has(chunk.id) && !reading && !shown.problem) queueMicrotask(reloadVisible);
  /** @param {Event & {currentTarget: HTMLElement}} event */
  const choose = (event) => open(chunk, event.currentTarget);
  const [headings, text] = [path(within(chunk)), opening(chunk.text, 160)];
  return html`<button class="row-main quiet" aria-current=${String(shown.open?.id === chunk.id)} @click=${choose}>
      <span class="name clip" dir="auto"><span class="soft number">${chunk.ordinal + 1}</span> ${headings || text}</span>
      ${chunk.error || headings ? html`<span class="soft small clip" dir="auto">${chunk.error ?? text}</span>` : nothing}</button>
    <span class="small number">${say`${kept(chunk)} kept`}${dropped(chunk) ? html` <span class="soft">${say`${dropped(chunk)} dropped`}</span>` : nothing}</span>
    ${chunk.state === "dead" ? stateMark("failed") : nothing}`;
}

/** Return the chunk's headings without the document's title. @param {Api["ChunkView"]} chunk */
const within = (chunk) => (shown.document && chunk.heading_path[0] === nameOf(shown.document) ? chunk.heading_path.slice(1) : chunk.heading_path);

/** @type {HTMLElement | null} */
let opener = null; // element that gets the focus when the chunk is closed

/** @param {Api["ChunkView"]} chunk @param {HTMLElement} from */
function open(chunk, from) {
  opener = from;
  shown.open = chunk;
  redraw();
  if (!wide()) requestAnimationFrame(() => document.getElementById("chunk-title")?.focus()); // the panel covers the list
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
    ${kind && !shown.isOriginal ? html`<p><button id="open-original" @click=${() => toggle(true)}>${openingOf(kind, chunk.page)}</button></p>` : nothing}
    <h3>${say`Questions answered by this chunk`}</h3>
    <ul class="questions" role="list">${chunk.questions.map(question)}</ul>
    ${chunk.questions.length ? nothing : html`<p class="soft">${chunk.error ?? say`No questions yet.`}</p>`}
    ${askedOf(chunk)}
    ${chunk.attempts.length ? html`<h3>${say`Failed attempts`}</h3><ul class="small">${chunk.attempts.map(
      (attempt) => html`<li>${ago(attempt.at)}: ${attempt.error}</li>`)}</ul>` : nothing}
    <p class="soft small">${plural(chunk.usage.calls, "call")} \u00b7 ${plural(chunk.usage.prompt_tokens + chunk.usage.completion_tokens, "token")} ${money(chunk.usage.cost)}</p>
    ${may("write") ? html`<p><a class="button" href=${`${ROOT}/lab/try`} @click=${() => (pendingText.text = chunk.text)}>${say`Try this chunk`}</a></p>` : nothing}
  </aside>`;
}

/** @type {{chunk: string, items: Api["AskedQuestionView"][] | null, problem: any}} */
let asked = { chunk: "", items: null, problem: null };

/** Read the users' questions for which a chunk was the first result. @param {string} chunk @param {string} collection */
async function readAsked(chunk, collection) {
  /** @type {typeof asked} */
  const now = { chunk, items: null, problem: null };
  asked = now;
  try {
    now.items = (await get(`/v1/collections/${encodeURIComponent(collection)}/queries?limit=${SHOWN_QUERIES}&chunk_id=${chunk}`)).items;
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
    ${asked.items?.length ? html`<ul class="questions" role="list" aria-label=${say`Asked by users`}>${asked.items.map(askedQuestion)}</ul>` : nothing}
    ${asked.items && !asked.items.length ? html`<p class="soft">${say`This chunk was not the first result of any question.`}</p>` : nothing}
    ${problemCard(asked.problem, () => readAsked(chunk.id, collection))}`;
}

/** @param {Api["AskedQuestionView"]} each */
function askedQuestion(each) {
  const mark = each.found && each.helpful !== false ? html`<span class="good" role="img" aria-label=${say`answered`}>${icon("circle-check")}</span>` : html`<span class="bad" role="img" aria-label=${say`not answered`}>${icon("x")}</span>`;
  return html`<li>${mark}<span class="grow"><span dir="auto">${each.question}</span><span class="soft small">${plural(each.times, "time")} \u00b7 ${ago(each.last_at)}</span></span>
    <span class="soft small number">${each.best_score === null ? "" : score(each.best_score)}</span></li>`;
}

const ORIGIN = { generated: "", given: say`supplied with the document`, user: say`asked by a user` };

/** @param {Api["ChunkQuestion"]} each */
function question(each) {
  const mark = each.passed === null ? html`<span class="soft" role="img" aria-label=${say`not checked yet`}>${icon("circle-dashed")}</span>`
    : each.passed ? html`<span class="good" role="img" aria-label=${say`kept`}>${icon("check")}</span>` : html`<span class="bad" role="img" aria-label=${say`dropped`}>${icon("x")}</span>`;
  const why = [each.reason, ORIGIN[each.source]].filter(Boolean).join(" \u00b7 ");
  return html`<li class=${each.passed === false ? "dropped" : ""}>${mark}<span class="grow"><span dir="auto">${each.text}</span>
    ${why ? html`<span class="soft small">${why}</span>` : nothing}</span>
    <span class="soft small number">${each.similarity === null ? "" : score(each.similarity)}</span></li>`;
}
