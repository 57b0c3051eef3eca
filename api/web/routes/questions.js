// Questions: asked by users, unanswered, and accepted as questions of a passage.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, latest, send } from "../api.js";
import { redraw } from "../store.js";
import { clamp, clampToggle } from "../parts/clamp.js";
import { collectionPicker, collections, loadCollections } from "../parts/collections.js";
import { ago, plural, score } from "../parts/format.js";
import { icon } from "../parts/icon.js";
import { notify, problemCard } from "../parts/notice.js";
import { say } from "../parts/words.js";

export const title = say`Questions`;
export const titled = true;
const TABS = [["asked", say`Asked`], ["unanswered", say`Unanswered`], ["accepted", say`Accepted`]];
/** @type {Record<string, string>} */
const ACCEPTED = { waiting: say`waiting`, indexed: say`indexed`, refused: say`refused`, removing: say`being removed` };
const PAGE = 50;

/** @type {{tab: string, items: any[] | null, next: string | null, retentionDays: number | null, problem: any}} */
const seen = { tab: "asked", items: null, next: null, retentionDays: null, problem: null };

/** @param {{query: URLSearchParams}} route */
export async function load({ query }) {
  const requested = query.get("show");
  seen.tab = TABS.find(([name]) => name === requested)?.[0] ?? "asked";
  await loadCollections().catch((problem) => (seen.problem = problem));
  await refresh();
}

export function unload() {}

/** @param {string | null} cursor @returns {`/v1/collections/${string}/accepted-questions?${string}` | `/v1/collections/${string}/queries?${string}`} */
const address = (cursor) => {
  const base = /** @type {const} */ (`/v1/collections/${encodeURIComponent(collections.chosen)}`);
  const more = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
  if (seen.tab === "accepted") return `${base}/accepted-questions?limit=${PAGE}${more}`;
  return `${base}/queries?limit=${PAGE}${seen.tab === "unanswered" ? "&answered=false" : ""}${more}`;
};

const newest = latest();

/** @param {string | null} [cursor] */
async function refresh(cursor = null) {
  try {
    const page = await newest(get(address(cursor)));
    seen.items = cursor ? [...(seen.items ?? []), ...page.items] : page.items;
    Object.assign(seen, { next: page.next_cursor, retentionDays: "retention_days" in page ? page.retention_days : null, problem: null });
  } catch (problem) {
    Object.assign(seen, { problem, items: seen.items ?? [] });
  }
  redraw();
}

/** @param {string} tab */
function choose(tab) {
  const query = new URLSearchParams(location.search);
  query.set("show", tab);
  history.replaceState(null, "", `${ROOT}/questions?${query}`);
  Object.assign(seen, { tab, items: null });
  redraw();
  refresh();
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
  return html`<section class="column wide">
    <div class="tools">${collectionPicker(() => ((seen.items = null), refresh()))}
      <div role="group" aria-label=${say`Filter questions`} class="tabs">${TABS.map(([name, words]) => html`<button
        aria-pressed=${String(seen.tab === name)} @click=${() => choose(name)}>${words}</button>`)}</div></div>
    ${problemCard(seen.problem, () => refresh())}
    ${seen.items === null ? nothing : seen.items.length ? list() : empty()}
    ${seen.next ? html`<p><button @click=${() => refresh(seen.next)}>${say`Show more`}</button></p>` : nothing}
  </section>`;
}

function list() {
  return html`<ul class="questions" role="list">${(seen.items ?? []).map(seen.tab === "accepted" ? acceptedRow : askedRow)}</ul>`;
}

/** @param {{question: string}} each */
const question = ({ question: text }) => html`<span dir="auto" class=${clamp(text)}>${text}</span>${clampToggle(text)}`;

/** @param {Api["AskedQuestionView"]} each */
function askedRow(each) {
  const mark = each.found && each.helpful !== false ? html`<span class="good" role="img" aria-label=${say`answered`}>${icon("circle-check")}</span>` : html`<span class="bad" role="img" aria-label=${say`not answered`}>${icon("x")}</span>`;
  const facts = [plural(each.times, "time"), ago(each.last_at)];
  if (each.helpful !== null) facts.push(each.helpful ? say`helped` : say`did not help`);
  return html`<li>${mark}<span class="grow">${question(each)}
      <span class="soft small">${facts.join(" \u00b7 ")}</span></span>
    <span class="soft small number">${each.best_score === null ? "" : score(each.best_score)}</span></li>`;
}

/** @param {Api["AcceptedQuestionView"]} each */
function acceptedRow(each) {
  return html`<li><span class="grow">${question(each)}
      <span class="soft small"><a href=${`${ROOT}/documents/${each.document_id}?chunk=${each.chunk_id}`} dir="auto">${each.external_id}</a> \u00b7 ${ACCEPTED[each.state] ?? each.state} \u00b7 ${ago(each.created_at)}</span></span>
    <button class="quiet" @click=${() => remove(each)}>${say`Remove`}</button></li>`;
}

function empty() {
  if (seen.tab === "accepted") return html`<p class="empty soft">${say`No accepted questions yet. Users add one when they mark an answer as helpful.`}</p>`;
  if (seen.retentionDays === 0) return html`<p class="empty soft">${say`Questions are not stored: FOREASK_QUERY_RETENTION_DAYS is 0.`}</p>`;
  const kept = say`Questions are listed for ${plural(seen.retentionDays ?? 0, "day")}.`;
  if (seen.tab === "unanswered") return html`<p class="empty soft">${say`No unanswered questions.`} ${kept}</p>`;
  return html`<div class="empty"><p class="soft">${say`No questions yet. Questions from this page and from other programs will appear here.`} ${kept}</p>
    <p><a class="button" href=${`${ROOT}/ask?collection=${encodeURIComponent(collections.chosen)}`}>${say`Ask a question`}</a></p></div>`;
}
