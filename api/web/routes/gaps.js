// Gaps: questions that the documents did not answer, grouped by meaning, with their assignments and resolutions.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, bytes, get, latest, send } from "../api.js";
import { redraw } from "../store.js";
import { columns } from "../parts/bars.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { ago, count, dayOf, nameOf, plural, score } from "../parts/format.js";
import { notify, problemCard } from "../parts/notice.js";
import { polledList } from "../parts/polling.js";
import { say } from "../parts/words.js";

export const title = say`Gaps`;
export const titled = true;
const STATES = /** @type {const} */ ([["open", say`Open`], ["assigned", say`Assigned`], ["resolved", say`Resolved`]]);
const DAY = 86_400_000; // milliseconds
const INTERVAL = 10_000; // milliseconds between two reads, unless each read adds questions to groups
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** @type {{state: string, page: Api["GapPage"] | null}} */
const seen = { state: "open", page: null };
/** @type {{gap: string, found: Api["DocumentView"][] | null}} the gap for which a document is chosen */
const choice = { gap: "", found: null };

const base = () => /** @type {const} */ (`/v1/collections/${encodeURIComponent(collections.chosen)}/gaps`);
/** @param {string} more @returns {`/v1/collections/${string}/gaps?${string}`} */
const address = (more) => `${base()}?state=${seen.state}${more}`;

const latestPage = latest();
let readAt = -INTERVAL; // a full log costs the server 0.2 s of processor time
let visit = 0; // number of the latest visit: another screen may be open when the collections arrive
const gaps = polledList(
  async () => {
    const isGrouping = seen.page?.ungrouped && !seen.page.delayed_by;
    if (seen.page && !isGrouping && performance.now() - readAt < INTERVAL) return seen.page;
    seen.page = await latestPage(get(address("")));
    readAt = performance.now();
    return seen.page;
  },
  (cursor) => get(address(`&cursor=${cursor}`)),
  async () => {},
);

/** @param {{query: URLSearchParams}} route */
export async function load({ query }) {
  visit += 1;
  const now = visit;
  const requested = query.get("show");
  seen.state = STATES.find(([state]) => state === requested)?.[0] ?? "open";
  await loadCollections().catch((problem) => (gaps.state.problem = problem));
  if (now === visit) await restart();
}

export function unload() {
  visit += 1;
  gaps.unload();
}

function restart() {
  Object.assign(gaps.state, { items: null });
  Object.assign(choice, { gap: "", found: null });
  seen.page = null;
  return gaps.load();
}

/** @param {string} state */
function choose(state) {
  const query = new URLSearchParams(location.search);
  query.set("show", state);
  history.replaceState(null, "", `${ROOT}/gaps?${query}`);
  seen.state = state;
  restart();
  redraw();
}

/**
 * Change a gap. The list keeps its pages and the focus.
 * @param {Api["GapView"]} gap @param {Api["GapChange"]} changes @param {(changed: Api["GapView"]) => string} done returns the notice
 */
async function change(gap, changes, done) {
  try {
    const changed = await send("PATCH", `${base()}/${gap.id}`, { body: changes });
    notify(done(changed));
    if (choice.gap === gap.id) Object.assign(choice, { gap: "", found: null });
    show(changed);
    readAt = -INTERVAL;
    await gaps.poll();
  } catch (problem) {
    notify(problem.message, { seconds: 10 });
  }
}

const cards = () => /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("li.gap"));

/**
 * Show a changed gap, unless it belongs to another tab now. Then the next gap gets the focus, so that it can be
 * changed at once.
 * @param {Api["GapView"]} changed
 */
function show(changed) {
  const { activeElement: focused } = document;
  const index = [...cards()].findIndex((card) => card.contains(focused));
  const field = focused?.closest("form") ? "[name=name]" : "[type=search]";
  /** @param {Api["GapView"]} each */
  const current = (each) => (each.id !== changed.id ? [each] : changed.state === seen.state ? [changed] : []);
  const { items, older } = gaps.state;
  Object.assign(gaps.state, { items: items?.flatMap(current) ?? null, older: older.flatMap(current) });
  redraw();
  requestAnimationFrame(() => {
    if (index < 0 || document.activeElement !== document.body) return;
    const all = cards();
    const card = all[Math.min(index, all.length - 1)];
    /** @type {HTMLElement | null} */
    const next = card ? card.querySelector(field) ?? card.querySelector("input") : document.getElementById("main");
    next?.focus();
  });
}

/** @param {Api["GapView"]} gap @param {On<HTMLFormElement>} event */
function assign(gap, event) {
  event.preventDefault();
  const name = String(new FormData(event.target).get("name") ?? "").trim();
  change(gap, { assigned_to: name || null }, () => (name ? say`Assigned to ${name}.` : say`The gap is not assigned any more.`));
}

const newest = latest();
let typing = 0;

/** @param {string} gap @param {string} words of the document's name, or its id */
async function search(gap, words) {
  const query = new URLSearchParams({ collection: collections.chosen, limit: "8", metadata: "false", [ID.test(words) ? "id" : "q"]: words });
  const found = await newest(words ? get(`/v1/documents?${query}`).then(({ items }) => items) : Promise.resolve(null));
  Object.assign(choice, { gap, found });
  redraw();
}

/** @param {string} gap @param {On<HTMLInputElement>} event */
function typed(gap, event) {
  clearTimeout(typing);
  typing = window.setTimeout(() => search(gap, event.target.value.trim()).catch((problem) => notify(problem.message)), 250);
}

/** @param {Api["GapView"]} gap @param {Api["DocumentView"]} document */
function resolve(gap, document) {
  change(gap, { resolved_by: document.id }, () => say`Resolved by \u201c${nameOf(document)}\u201d. The gap opens again if a question is not answered.`);
}

/** Remove the document that resolved a gap. Only the reply shows whether the gap is open: it is not if its questions were answered since. @param {Api["GapView"]} gap */
function reopen(gap) {
  change(gap, { resolved_by: null }, ({ state }) => {
    if (state !== "resolved") return gap.state === "resolved" ? say`The gap is open again.` : say`Document removed.`;
    return `${say`The gap stays resolved.`} ${say`Its questions were answered when they were asked last.`}`;
  });
}

/** Download the table with fetch, because a link cannot carry a key. */
async function exportTable() {
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await bytes(`${base()}?format=csv`));
    link.download = `gaps-${collections.chosen}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (problem) {
    notify(problem.message);
  }
}

export function view() {
  const { items, next, problem } = gaps.state;
  const { page } = seen;
  const all = gaps.all((each) => each.id);
  return html`<section class="column wide">
    <div class="tools">${collectionPicker(restart)}
      <div role="group" aria-label=${say`Filter gaps`} class="tabs">${STATES.map(([state, words]) => html`<button
        aria-pressed=${String(seen.state === state)} @click=${() => choose(state)}>${words}${page ? ` ${count(page.counts[state])}` : ""}</button>`)}</div>
      <span class="grow"></span><button @click=${exportTable}>${say`Export as CSV`}</button></div>
    ${problemCard(problem, restart)}
    ${page?.ungrouped ? html`<p class="soft small" role="status">${say`${plural(page.ungrouped, "question")} still to be grouped`}${page.delayed_by ? html`: <span dir="auto">${page.delayed_by}</span>` : "\u2026"}</p>` : nothing}
    ${!items ? (problem ? nothing : html`<p class="soft" role="status">${say`Loading\u2026`}</p>`) : all.length ? html`<ul role="list" class="jobs">${repeat(all, (/** @type {Api["GapView"]} */ each) => each.id, one)}</ul>` : empty(page)}
    ${next ? html`<p><button @click=${gaps.more}>${say`Show more gaps`}</button></p>` : nothing}
  </section>`;
}

/** @param {Api["GapPage"] | null} page */
function empty(page) {
  if (page?.retention_days === 0) return html`<p class="empty soft">${say`Questions are not stored: FOREASK_QUERY_RETENTION_DAYS is 0.`}</p>`;
  if (seen.state === "assigned") return html`<p class="empty soft">${say`No gap is assigned. To assign an open gap, enter a name.`}</p>`;
  if (seen.state === "resolved") return html`<p class="empty soft">${say`No gap is resolved. Choose the document that answers the questions of a gap to resolve it.`}</p>`;
  return html`<p class="empty soft">${say`No open gaps. Questions that the documents do not answer will appear here in groups.`} ${say`Questions are listed for ${plural(page?.retention_days ?? 0, "day")}.`}</p>`;
}

/** @param {Api["GapView"]} gap */
function one(gap) {
  const { id, question, resolved_by: by, nearest, assigned_to: name } = gap;
  /** @param {On<HTMLFormElement>} event */
  const assigned = (event) => assign(gap, event);
  /** @param {On<HTMLInputElement>} event */
  const searched = (event) => typed(id, event);
  const found = choice.gap === id ? choice.found : null;
  const remove = gap.state === "resolved" ? say`Reopen` : say`Remove the document`;
  /** @param {string} words of a button */
  const labelOf = (words) => say`${words}: ${question}`;
  return html`<li class="card gap" aria-label=${question}>
    <p class="bar-line"><strong class="grow" dir="auto">${question}</strong> <span class="number">${plural(gap.times, "time")}</span></p>
    ${trend(gap)}
    <p class="soft small">${nearest ? html`${say`Nearest passage:`} <a dir="auto" href=${`${ROOT}/documents/${nearest.document_id}?chunk=${nearest.chunk_id}`}>${nearest.external_id}</a> <span class="number">${score(nearest.score)}</span>` : say`No passage found`} \u00b7 ${ago(gap.last_at)}</p>
    ${by ? html`<p class="small">${resolution(gap.state, html`<a dir="auto" href=${`${ROOT}/documents/${by.document_id}`}>${by.external_id}</a>`)}, ${ago(by.at)}</p>`
      : gap.state === "resolved" ? html`<p class="small">${say`Its questions were answered when they were asked last.`}</p>` : nothing}
    <div class="tools">
      <form class="tools" @submit=${assigned}><label class="inline">${say`Assigned to`} <input name="name" maxlength="100" .defaultValue=${name ?? ""}></label><button type="submit" aria-label=${labelOf(say`Assign`)}>${say`Assign`}</button></form>
      ${gap.state === "resolved" ? nothing : html`<label class="inline">${say`Resolved by`} <input type="search" placeholder=${say`Name or id`} @input=${searched}></label>`}
      ${by ? html`<button aria-label=${labelOf(remove)} @click=${() => reopen(gap)}>${remove}</button>` : nothing}</div>
    ${found ? html`<ul role="list">${found.map((each) => html`<li><button class="quiet" dir="auto" @click=${() => resolve(gap, each)}>${nameOf(each)}</button></li>`)}</ul>
      ${found.length ? nothing : html`<p class="soft" role="status">${say`No such document in this collection.`}</p>`}` : nothing}
    ${details(gap)}</li>`;
}

/** @param {string} state @param {unknown} document */
const resolution = (state, document) => (state === "resolved" ? say`Resolved by ${document}` : say`Not answered again after it was resolved by ${document}`);

/** Render the number of queries per day. @param {Api["GapView"]} gap */
function trend({ per_day: days, last_week: last, week_before: before }) {
  return html`<div>${columns(days.map((good) => ({ good, bad: 0 })))}
    <p class="soft small">${say`${plural(last, "time")} in the last 7 days, ${count(before)} in the 7 days before`}</p></div>`;
}

/** Render the wordings of a gap, and its queries per day as a table. The server counts the days in UTC. @param {Api["GapView"]} gap */
function details({ questions, distinct_questions: wordings, per_day: days }) {
  const asked = days.flatMap((times, index) => (times ? [{ times, day: new Date(Date.now() - (days.length - 1 - index) * DAY).toISOString().slice(0, 10) }] : []));
  return html`<details><summary class="small">${say`${plural(wordings, "wording")} and days`}</summary>
    <ul class="questions" role="list">${questions.map((each) => html`<li><span class="grow" dir="auto">${each.question}</span> <span class="soft small number">${plural(each.times, "time")}</span></li>`)}</ul>
    ${wordings > questions.length ? html`<p class="soft small">${say`${count(wordings - questions.length)} more`}</p>` : nothing}
    <table class="small"><caption class="hidden">${say`Queries per day`}</caption><thead><tr><th scope="col">${say`day (UTC)`}</th><th scope="col" class="number">${say`times`}</th></tr></thead>
      <tbody>${asked.reverse().map(({ day, times }) => html`<tr><th scope="row">${dayOf(day)}</th><td class="number">${count(times)}</td></tr>`)}</tbody></table></details>`;
}
