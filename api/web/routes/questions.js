// Questions: asked by users, and accepted as questions of a passage.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, get, latest, send } from "../api.js";
import { redraw } from "../store.js";
import { addressOf, mark, retention, wordsOf } from "../parts/asked.js";
import { clamp, clampToggle } from "../parts/clamp.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { ago, plural, score } from "../parts/format.js";
import { notify, problemCard } from "../parts/notice.js";
import { server } from "../parts/permissions.js";
import { say } from "../parts/words.js";

export const title = say`Questions`;
export const titled = true;
const TABS = [["asked", say`Asked`], ["accepted", say`Accepted`]];
/** @type {Record<string, string>} */
const ACCEPTED = { waiting: say`waiting`, indexed: say`indexed`, refused: say`refused`, removing: say`being removed` };
const PAGE = 50;
const MOST = 200; // items of a request
const DAY = 86_400_000; // milliseconds
const TYPING = 300; // milliseconds from the last key press to the search

/** The values of the filters, by their names in the URL. */
const STATES = [["", say`All results`], ["certain", say`Certain`], ["uncertain", say`Uncertain`],
  ["none", say`No answer`], ["passages", say`Passages only`]];
const FEEDBACK = [["", say`All feedback`], ["any", say`With feedback`], ["helpful", say`Helpful`],
  ["unhelpful", say`Not helpful`]];
const DAYS = [["", say`Any time`], ["1", say`Last 24 hours`], ["7", say`Last 7 days`], ["30", say`Last 30 days`]];
const FILTERS = /** @type {const} */ (["state", "feedback", "key", "days", "q"]);

/** @typedef {Record<typeof FILTERS[number], string>} Filters */
/**
 * @type {{tab: string, filters: Filters, of: string, items: any[] | null, total: number | null, next: string | null,
 *   days: number | null, keys: Api["KeyView"][], problem: any}} of: the address of the items
 */
const seen = { tab: "asked", filters: { state: "", feedback: "", key: "", days: "", q: "" }, of: "", items: null,
  total: null, next: null, days: null, keys: [], problem: null };

let visit = 0; // number of the latest visit: another screen may be open when the collections arrive

/** @param {{query: URLSearchParams}} route */
export async function load({ query }) {
  const now = ++visit;
  const requested = query.get("show");
  seen.tab = TABS.find(([name]) => name === requested)?.[0] ?? "asked";
  for (const name of FILTERS) seen.filters[name] = query.get(name) ?? "";
  if (requested === "unanswered") seen.filters.state = "none"; // an address of an earlier release
  seen.problem = null;
  server().then((me) => ((seen.days = me?.query_retention_days ?? null), redraw()));
  try {
    await loadCollections();
  } catch (problem) {
    Object.assign(seen, { problem, items: [] });
    return redraw();
  }
  if (now !== visit) return;
  get("/v1/keys?limit=200").then(({ items }) => ((seen.keys = items), redraw()), () => {}); // then without this filter
  // A list that is shown again, as after Back, keeps its length.
  await refresh(null, seen.of === address("") ? Math.max(PAGE, seen.items?.length ?? 0) : PAGE);
}

export function unload() {
  visit += 1;
  clearTimeout(typing);
}

/**
 * @param {string} more
 * @returns {`/v1/collections/${string}/accepted-questions?${string}` | `/v1/collections/${string}/queries?${string}`}
 */
function address(more) {
  const base = /** @type {const} */ (`/v1/collections/${encodeURIComponent(collections.chosen)}`);
  if (seen.tab === "accepted") return `${base}/accepted-questions?${more}`;
  const { state, feedback, key, days, q } = seen.filters;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ state, feedback, key_id: key, q })) if (value) query.set(name, value);
  // The start of an hour, so that the address of a list stays the same for a while.
  const since = Math.floor(Date.now() / 3_600_000) * 3_600_000 - Number(days) * DAY;
  if (days) query.set("since", new Date(since).toISOString());
  return `${base}/queries?${query}${more}`;
}

const newest = latest();

/** @param {string | null} [cursor] @param {number} [many] items */
async function refresh(cursor = null, many = PAGE) {
  const of = address("");
  if (!collections.items.length) {
    // No request, because no collection exists.
    Object.assign(seen, { of, items: [], total: 0, next: null });
    return redraw();
  }
  if (seen.of !== of) Object.assign(seen, { of, items: null, total: null });
  redraw();
  try {
    const more = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
    const page = await newest(get(address(`&limit=${Math.min(MOST, many)}${more}`)));
    seen.items = cursor ? [...(seen.items ?? []), ...page.items] : page.items;
    Object.assign(seen, { total: "total" in page ? page.total : null, next: page.next_cursor, problem: null });
  } catch (problem) {
    Object.assign(seen, { problem, items: seen.items ?? [] });
  }
  redraw();
}

/** Put the tab and the filters into the URL, and read the list. */
function changed() {
  const query = new URLSearchParams(location.search);
  query.delete("show");
  if (seen.tab !== "asked") query.set("show", seen.tab);
  for (const name of FILTERS) seen.filters[name] ? query.set(name, seen.filters[name]) : query.delete(name);
  history.replaceState(null, "", `${ROOT}/questions${query.size ? `?${query}` : ""}`);
  refresh();
}

/** @param {string} tab */
function choose(tab) {
  seen.tab = tab;
  changed();
}

/** @param {typeof FILTERS[number]} name @param {string} value */
function filter(name, value) {
  seen.filters[name] = value;
  changed();
}

let typing = 0;

/** @param {On<HTMLInputElement>} event */
function typed(event) {
  clearTimeout(typing);
  const words = event.target.value.trim();
  typing = window.setTimeout(() => filter("q", words), TYPING);
}

function showAll() {
  for (const name of FILTERS) seen.filters[name] = "";
  changed();
}

/** @param {Api["AcceptedQuestionView"]} each */
async function remove(each) {
  try {
    await send("DELETE", `/v1/collections/${encodeURIComponent(collections.chosen)}/accepted-questions/${each.id}`);
    notify(say`Question removed from the passage.`);
    await refresh();
  } catch (problem) {
    notify(problem.message);
  }
}

export function view() {
  const { tab, items, next, problem } = seen;
  return html`<section class="column wide">
    <div class="tools">${collections.items.length ? collectionPicker(() => refresh()) : nothing}
      <div role="group" aria-label=${say`Filter questions`} class="tabs">${TABS.map(([name, words]) => html`<button
        aria-pressed=${String(tab === name)} @click=${() => choose(name)}>${words}</button>`)}</div></div>
    ${tab === "asked" && collections.items.length ? filters() : nothing}
    ${problemCard(problem, () => load({ query: new URLSearchParams(location.search) }))}
    ${items === null ? html`<p class="soft" role="status">${say`Loading\u2026`}</p>`
      : items.length ? list(items) : problem ? nothing : empty()}
    ${next ? html`<p><button @click=${() => refresh(next)}>${say`Show more`}</button></p>` : nothing}
  </section>`;
}

function filters() {
  const { state, feedback, key, days, q } = seen.filters;
  const keys = seen.keys.map(({ id, name }) => [id, name]);
  if (key && !keys.some(([id]) => id === key)) keys.push([key, say`another key`]);
  return html`<div class="tools question-filters" role="search">
      <input id="search" type="search" placeholder=${say`Search questions`} aria-label=${say`Search questions`}
        maxlength="200" .value=${live(q)} @input=${typed}>
      ${choice("state", say`Result`, STATES, state)}
      ${choice("feedback", say`Feedback`, FEEDBACK, feedback)}
      ${keys.length ? choice("key", say`Key`, [["", say`All keys`], ...keys], key) : nothing}
      ${choice("days", say`Asked within`, DAYS, days)}</div>
    <p class="counts soft" role="status">${seen.total === null ? nothing : plural(seen.total, "question")}
      ${state === "none" ? html`<a href=${`${ROOT}/gaps?collection=${encodeURIComponent(collections.chosen)}`}>${
        say`Grouped by meaning: Gaps`}</a>` : nothing}</p>`;
}

/** @param {typeof FILTERS[number]} name @param {string} label @param {string[][]} options @param {string} chosen */
function choice(name, label, options, chosen) {
  /** @param {On<HTMLSelectElement>} event */
  const selected = (event) => filter(name, event.target.value);
  return html`<select aria-label=${label} .value=${live(chosen)} @change=${selected}>${options.map(([value, words]) =>
    html`<option value=${value} ?selected=${value === chosen}>${words}</option>`)}</select>`;
}

/** @param {any[]} items */
function list(items) {
  const [row, id] = seen.tab === "accepted" ? [acceptedRow, "id"] : [askedRow, "query_id"];
  return html`<ul class="questions" role="list">${repeat(items, (/** @type {any} */ each) => each[id], row)}</ul>`;
}

/** @param {{question: string}} each */
const question = ({ question: text }) => html`<span dir="auto" class=${clamp(text)}>${text}</span>${clampToggle(text)}`;

/** @param {Api["AskedQuestionView"]} each */
function askedRow(each) {
  const facts = [wordsOf(each.state), plural(each.times, "time"), ago(each.last_at)];
  if (each.helpful !== null) facts.push(each.helpful ? say`helped` : say`did not help`);
  const key = each.key_name ? html` \u00b7 <span dir="auto">${each.key_name}</span>` : nothing;
  const name = html`<a class="question-name ${clamp(each.question)}" dir="auto" href=${
    addressOf(each.query_id)}>${each.question}</a>${clampToggle(each.question)}`;
  return html`<li>${mark(each.state)}<span class="grow">${name}
      <span class="soft small">${facts.join(" \u00b7 ")}${key}</span></span>
    <span class="soft small number">${each.best_score === null ? "" : score(each.best_score)}</span></li>`;
}

/** @param {Api["AcceptedQuestionView"]} each */
function acceptedRow(each) {
  const passage = `${ROOT}/documents/${each.document_id}?chunk=${each.chunk_id}`;
  return html`<li><span class="grow">${question(each)}
      <span class="soft small"><a href=${passage} dir="auto">${each.external_id}</a> \u00b7 ${
        ACCEPTED[each.state] ?? each.state} \u00b7 ${ago(each.created_at)}${each.query_id ? html` \u00b7 <a
        href=${addressOf(each.query_id)}>${say`Asked question`}</a>` : nothing}</span></span>
    <button class="quiet" @click=${() => remove(each)}>${say`Remove`}</button></li>`;
}

function empty() {
  if (seen.tab === "accepted") {
    return html`<p class="empty soft">${
      say`No accepted questions yet. Users add one when they mark an answer as helpful.`}</p>`;
  }
  const kept = retention(seen.days);
  if (seen.days === 0) return html`<p class="empty soft">${kept}</p>`;
  if (Object.values(seen.filters).some(Boolean)) {
    return html`<div class="empty"><p class="soft">${say`No questions match these filters.`} ${kept}</p>
      <p><button @click=${showAll}>${say`Show all questions`}</button></p></div>`;
  }
  const chosen = collections.items.length ? `?collection=${encodeURIComponent(collections.chosen)}` : "";
  return html`<div class="empty"><p class="soft">${
      say`No questions yet. Questions from this page and from other programs will appear here.`} ${kept}</p>
    <p><a class="button" href=${`${ROOT}/ask${chosen}`}>${say`Ask a question`}</a></p></div>`;
}
