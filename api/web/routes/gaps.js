// Gaps: questions that the documents did not answer, grouped by meaning, with their assignments and resolutions.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, bytes, get, latest, send } from "../api.js";
import { createForm } from "../kit/form.js";
import { redraw } from "../store.js";
import { addressOf, explainAddress, retention } from "../parts/asked.js";
import { columns } from "../parts/bars.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { closeChoice, documentChoice, openChoice } from "../parts/document-choice.js";
import { ago, count, dayOf, nameOf, plural, score } from "../parts/format.js";
import { notify, problemCard } from "../parts/notice.js";
import { may, server } from "../parts/permissions.js";
import { polledList } from "../parts/polling.js";
import { say } from "../parts/words.js";
import { answerDialog, closeAnswer, writeAnswer } from "../parts/write-answer.js";

export const title = say`Gaps`;
export const titled = true;
const STATES = /** @type {const} */ ([["open", say`Open`], ["assigned", say`Assigned`], ["resolved", say`Resolved`]]);
const DAY = 86_400_000; // milliseconds
const INTERVAL = 10_000; // milliseconds between two reads, unless each read adds questions to groups
const MOST_NAME = 100;

/**
 * @type {{state: string, page: Api["GapPage"] | null, named: Api["GapView"] | null, open: string, isChoosing: boolean,
 *   days: number | null, isRead: boolean}}
 *   named: the gap that the URL names, which may be on a later page of the list
 *   open: id of the gap whose details are shown; isChoosing: whether a document is being chosen for it
 *   isRead: whether the collections have been read
 */
const seen = { state: "open", page: null, named: null, open: "", isChoosing: false, days: null, isRead: false };

const base = () => /** @type {const} */ (`/v1/collections/${encodeURIComponent(collections.chosen)}/gaps`);
/** @param {string} more @returns {`/v1/collections/${string}/gaps?${string}`} */
const address = (more) => `${base()}?state=${seen.state}${more}`;

const latestPage = latest();
let readAt = -INTERVAL; // a full log costs the server 0.2 s of processor time
let visit = 0; // number of the latest visit: another screen may be open when the collections arrive
let isShown = false; // a late reply must not change the address of another screen
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
  isShown = true;
  const now = visit;
  const isLeft = () => now !== visit;
  const requested = query.get("show");
  const wanted = query.get("gap") ?? "";
  const state = STATES.find(([each]) => each === requested)?.[0] ?? "open";
  Object.assign(seen, { state, named: null, isRead: false });
  server().then((me) => ((seen.days = me?.query_retention_days ?? null), redraw()));
  await loadCollections().catch((problem) => (gaps.state.problem = problem));
  if (isLeft()) return;
  seen.isRead = true;
  if (wanted && collections.items.length) await find(wanted);
  if (!isLeft()) await restart(wanted);
}

export function unload() {
  visit += 1;
  gaps.unload();
  isShown = false;
  closeChoice();
  closeAnswer();
}

/** Read the gap that the URL names, and show its tab. @param {string} id */
async function find(id) {
  try {
    seen.named = await get(`${base()}/${encodeURIComponent(id)}`);
    seen.state = seen.named.state;
  } catch (problem) {
    notify(problem.message);
  }
}

/** Read the list again, with the details of a gap. @param {string} [opened] its id */
async function restart(opened = "") {
  gaps.unload();
  Object.assign(gaps.state, { items: null, next: null, older: [] });
  Object.assign(seen, { page: null, open: opened, isChoosing: false });
  if (!opened) seen.named = null;
  redraw();
  if (collections.items.length) await gaps.load();
}

const restarted = () => (inAddress(), restart());

/** @param {string} state */
function choose(state) {
  Object.assign(seen, { state, open: "", named: null });
  inAddress();
  restart();
}

/** Put the tab and the opened gap into the URL. */
function inAddress() {
  if (!isShown) return;
  const query = new URLSearchParams(location.search);
  query.set("show", seen.state);
  seen.open ? query.set("gap", seen.open) : query.delete("gap");
  history.replaceState(null, "", `${ROOT}/gaps?${query}`);
}

/** Show the details of a gap, or hide them. @param {string} id */
function toggle(id) {
  Object.assign(seen, { open: seen.open === id ? "" : id, isChoosing: false });
  assignment.clear();
  inAddress();
  redraw();
}

/**
 * Change a gap. The list keeps its pages and the focus.
 * @param {Api["GapView"]} gap @param {Api["GapChange"]} changes
 * @param {(changed: Api["GapView"]) => string} done returns the notice
 */
async function change(gap, changes, done) {
  try {
    const changed = await send("PATCH", `${base()}/${gap.id}`, { body: changes });
    notify(done(changed));
    await changedTo(changed);
  } catch (problem) {
    notify(problem.message, { seconds: 10 });
  }
}

/** Show a changed gap, and read the list again. @param {Api["GapView"]} changed */
async function changedTo(changed) {
  show(changed);
  readAt = -INTERVAL;
  await gaps.poll();
}

const toggles = () => /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".gap-toggle"));

/**
 * Show a changed gap, unless it belongs to another tab now. Then the next gap gets the focus, so that it can be
 * changed at once.
 * @param {Api["GapView"]} changed
 */
function show(changed) {
  const index = [...toggles()].findIndex((each) => each.closest("li")?.contains(document.activeElement));
  /** @param {Api["GapView"]} each */
  const current = (each) => (each.id !== changed.id ? [each] : changed.state === seen.state ? [changed] : []);
  const { items, older } = gaps.state;
  Object.assign(gaps.state, { items: items?.flatMap(current) ?? null, older: older.flatMap(current) });
  if (seen.named?.id === changed.id) seen.named = changed.state === seen.state ? changed : null;
  if (changed.state !== seen.state && seen.open === changed.id) seen.open = "";
  seen.isChoosing = false;
  inAddress();
  redraw();
  requestAnimationFrame(() => {
    if (index < 0 || document.activeElement !== document.body) return;
    const all = toggles();
    const next = all.length ? all[Math.min(index, all.length - 1)] : document.getElementById("main");
    next?.focus();
  });
}

/** @type {Api["GapView"] | null} the opened gap */
let assigned = null;
const assignment = createForm(async (/** @type {{name: string}} */ { name }) => {
  if (!assigned) return;
  const changed = await send("PATCH", `${base()}/${assigned.id}`, { body: { assigned_to: name } });
  notify(say`Assigned to ${name}.`);
  await changedTo(changed);
}, { keeps: true });

/** @param {Api["GapView"]} gap */
const unassign = (gap) => change(gap, { assigned_to: null }, () => say`The gap is not assigned any more.`);

/** @param {string} name of a document */
const resolvedBy = (name) => say`Resolved by \u201c${name}\u201d. The gap opens again if a question is not answered.`;

/** @param {Api["GapView"]} gap @param {Api["DocumentView"]} document */
function resolve(gap, document) {
  change(gap, { resolved_by: document.id }, () => resolvedBy(nameOf(document)));
}

/**
 * Remove the document that resolved a gap. Only the reply shows whether the gap is open: it is not if its questions
 * were answered since.
 * @param {Api["GapView"]} gap
 */
function reopen(gap) {
  change(gap, { resolved_by: null }, ({ state }) => {
    if (state !== "resolved") return gap.state === "resolved" ? say`The gap is open again.` : say`Document removed.`;
    return `${say`The gap stays resolved.`} ${say`Its questions were answered when they were asked last.`}`;
  });
}

/** Write a document that answers the questions of a gap. @param {Api["GapView"]} gap */
function write({ id, questions }) {
  writeAnswer({
    collection: collections.chosen, gap: id, from: id, questions: questions.map((each) => each.question),
    written: (_, changed) => changed && changedTo(changed),
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
  const { page, named } = seen;
  const listed = gaps.all((each) => each.id);
  const all = named && !listed.some((each) => each.id === named.id) ? [named, ...listed] : listed;
  const hasCollections = collections.items.length > 0;
  return html`<section class="column wide">
    ${hasCollections ? html`<div class="tools">${collectionPicker(restarted)}
      <div role="group" aria-label=${say`Filter gaps`} class="tabs">${STATES.map(([state, words]) => html`<button
        aria-pressed=${String(seen.state === state)}
        @click=${() => choose(state)}>${words}${page ? ` ${count(page.counts[state])}` : ""}</button>`)}</div>
      <span class="grow"></span><button @click=${exportTable}>${say`Export as CSV`}</button></div>` : nothing}
    ${problemCard(problem, () => load({ query: new URLSearchParams(location.search) }))}
    ${page?.ungrouped ? grouping(page) : nothing}
    ${items || (seen.isRead && !hasCollections && !problem) ? list(all)
      : problem ? nothing : html`<p class="soft" role="status">${say`Loading\u2026`}</p>`}
    ${next ? html`<p><button @click=${gaps.more}>${say`Show more gaps`}</button></p>` : nothing}
    ${answerDialog()}
  </section>`;
}

/** @param {Api["GapPage"]} page */
const grouping = ({ ungrouped, delayed_by: reason }) => html`<p class="soft small" role="status">${
  say`${plural(ungrouped, "question")} still to be grouped`}${
  reason ? html`: <span dir="auto">${reason}</span>` : "\u2026"}</p>`;

/** @param {Api["GapView"][]} all */
function list(all) {
  if (!all.length) return empty();
  const owned = seen.state === "open" ? "" : "owned"; // an open gap has no owner
  /** @param {Api["GapView"]} each */
  const id = (each) => each.id;
  return html`<ul role="list" class="gaps ${owned}">${repeat(all, id, one)}</ul>`;
}

function empty() {
  const days = seen.page?.retention_days ?? seen.days;
  const kept = retention(days);
  if (days === 0) return html`<p class="empty soft">${kept}</p>`;
  if (seen.state === "assigned") {
    return html`<p class="empty soft">${say`No gap is assigned. To assign an open gap, enter a name.`}</p>`;
  }
  if (seen.state === "resolved") {
    return html`<p class="empty soft">${
      say`No gap is resolved. To resolve a gap, write the answer, or choose the document that has it.`}</p>`;
  }
  return html`<p class="empty soft">${
    say`No open gaps. Questions that the documents do not answer will appear here in groups.`} ${kept}</p>`;
}

/** @param {Api["GapView"]} gap */
function one(gap) {
  const { id, question, times, last_at: last, per_day: days } = gap;
  const isOpen = seen.open === id;
  return html`<li class="gap" aria-label=${question}>
    <div class="gap-line">
      <button class="quiet gap-toggle" aria-expanded=${String(isOpen)} aria-controls=${isOpen ? `gap-${id}` : nothing}
        @click=${() => toggle(id)}>
        <span class=${isOpen ? "gap-question" : "gap-question clip"} dir="auto">${question}</span></button>
      <span class="gap-trend">${columns(days.map((good) => ({ good, bad: 0 })))}</span>
      ${seen.state === "open" ? nothing
        : html`<span class="gap-owner soft small clip" dir="auto">${ownerOf(gap)}</span>`}
      <span class="gap-times number">${plural(times, "time")}</span>
      <span class="gap-last soft small">${ago(last)}</span>
      <span class="gap-action">${isOpen || seen.state === "resolved" || !may("write") ? nothing
        : html`<button class="quiet" aria-label=${say`Write answer: ${question}`}
          @click=${() => write(gap)}>${say`Write answer`}</button>`}</span>
    </div>
    ${isOpen ? details(gap) : nothing}</li>`;
}

/** @param {Api["GapView"]} gap */
const ownerOf = ({ assigned_to: name, resolved_by: by, state }) =>
  (state === "resolved" ? by?.external_id : name) ?? "";

/** @param {Api["GapView"]} gap */
function details(gap) {
  const { id, question } = gap;
  const { chosen } = collections;
  const startChoice = () => {
    seen.isChoosing = !seen.isChoosing;
    if (seen.isChoosing) openChoice(chosen);
    redraw();
  };
  return html`<div class="gap-details" id=${`gap-${id}`}>
    <p class="tools">
      ${may("write") ? html`<button class="main" @click=${() => write(gap)}>${say`Write the answer`}</button>`
        : nothing}
      <button aria-expanded=${String(seen.isChoosing)} @click=${startChoice}>${say`Choose a document`}</button>
      ${gap.resolved_by ? html`<button @click=${() => reopen(gap)}>${
        gap.state === "resolved" ? say`Reopen` : say`Remove the document`}</button>` : nothing}
      <a href=${explainAddress(chosen, question)}>${say`Explain`}</a></p>
    ${seen.isChoosing ? documentChoice((document) => resolve(gap, document)) : nothing}
    ${resolution(gap)}
    ${owner(gap)}
    ${passage(gap)}
    ${trend(gap)}
    ${wordings(gap)}
  </div>`;
}

/** @param {Api["GapView"]} gap */
function passage({ nearest }) {
  if (!nearest) return html`<p class="soft small">${say`No passage found`}</p>`;
  const { document_id: document, chunk_id: chunk, external_id: name } = nearest;
  return html`<p class="soft small">${say`Nearest passage:`}
    <a dir="auto" href=${`${ROOT}/documents/${document}?chunk=${chunk}`}>${name}</a>
    <span class="number">${score(nearest.score)}</span></p>`;
}

/** Render the questions of a gap, each with a link to its page. @param {Api["GapView"]} gap */
function wordings({ questions, distinct_questions: many }) {
  return html`<h2>${plural(many, "wording")}</h2>
    <ul class="questions" role="list">${questions.map((each) => html`<li>
      <a class="grow" dir="auto" href=${addressOf(each.query_id)}>${each.question}</a>
      <span class="soft small number">${plural(each.times, "time")}</span></li>`)}</ul>
    ${many > questions.length
      ? html`<p class="soft small">${say`${count(many - questions.length)} more`}</p>` : nothing}`;
}

/** @param {(facts: import("../kit/field.js").Field) => unknown} field @param {string} value */
const assignee = (field, value) =>
  field({ name: "name", label: say`Assigned to`, required: true, longest: MOST_NAME, value });

/** @param {Api["GapView"]} gap */
function owner(gap) {
  assigned = gap;
  const { assigned_to: name } = gap;
  return html`<div class="tools">${assignment.view({
    action: say`Assign`, inline: true, label: say`Assignment`,
    body: (field) => assignee(field, name ?? ""),
  })}${name ? html`<button @click=${() => unassign(gap)}>${say`Unassign`}</button>` : nothing}</div>`;
}

/** @param {Api["GapView"]} gap */
function resolution({ state, resolved_by: by }) {
  if (!by && state !== "resolved") return nothing;
  if (!by) return html`<p class="small">${say`Its questions were answered when they were asked last.`}</p>`;
  const document = html`<a dir="auto" href=${`${ROOT}/documents/${by.document_id}`}>${by.external_id}</a>`;
  const words = state === "resolved" ? say`Resolved by ${document}`
    : say`Not answered again after it was resolved by ${document}`;
  return html`<p class="small">${words}, ${ago(by.at)}</p>`;
}

/** Return a day in UTC, in which the server counts. @param {number} age in days */
const dayBefore = (age) => new Date(Date.now() - age * DAY).toISOString().slice(0, 10);

/** Render the number of queries per day, with the dates. @param {Api["GapView"]} gap */
function trend({ per_day: days, last_week: last, week_before: before }) {
  const asked = days.flatMap((times, index) => (times ? [{ times, day: dayBefore(days.length - 1 - index) }] : []));
  return html`<figure class="gap-chart">${columns(days.map((good) => ({ good, bad: 0 })))}
      <div class="soft small gap-dates" aria-hidden="true">
        <span>${dayOf(dayBefore(days.length - 1))}</span><span>${dayOf(dayBefore(0))}</span></div>
      <figcaption class="soft small">${
        say`${plural(last, "time")} in the last 7 days, ${count(before)} in the 7 days before`}</figcaption></figure>
    <details><summary class="small">${say`Queries per day`}</summary>
    <table class="small"><caption class="hidden">${say`Queries per day`}</caption>
      <thead><tr><th scope="col">${say`day (UTC)`}</th><th scope="col" class="number">${say`times`}</th></tr></thead>
      <tbody>${asked.reverse().map(({ day, times }) => html`<tr><th scope="row">${dayOf(day)}</th>
        <td class="number">${count(times)}</td></tr>`)}</tbody></table></details>`;
}
