// The audit log: recorded changes of settings, with their authors.

import { html, nothing } from "../vendor/lit-html.js";
import { get, latest } from "../api.js";
import { redraw } from "../store.js";
import { ago } from "../parts/format.js";
import { problemCard } from "../parts/notice.js";
import { say } from "../parts/words.js";

export const title = say`Audit`;
export const titled = true;
const OBJECTS = [["key", say`keys`], ["budget", say`budgets`], ["webhook", say`webhooks`], ["collection", say`collections`], ["build", say`builds`], ["source", say`sources`], ["document", say`documents`], ["gap", say`gaps`]];

/** @type {{items: Api["AuditEntryView"][] | null, next: string | null, object: string, problem: any}} */
const seen = { items: null, next: null, object: "", problem: null };
const newest = latest();

/** @param {string | null} [cursor] */
async function read(cursor = null) {
  try {
    const page = await newest(get(`/v1/audit?limit=50${seen.object ? `&object=${seen.object}` : ""}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`));
    Object.assign(seen, { items: cursor ? [...(seen.items ?? []), ...page.items] : page.items, next: page.next_cursor, problem: null });
  } catch (problem) {
    seen.problem = problem;
  }
  redraw();
}

export const load = () => read();

export function unload() {}

/** @param {On<HTMLSelectElement>} event */
function choose(event) {
  seen.object = event.target.value;
  read();
}

export function view() {
  const { items, next, problem } = seen;
  return html`<section class="column wide">
    ${problemCard(problem, () => read())}
    <p class="tools"><label>${say`Changes of`} <select @change=${choose}><option value="">${say`everything`}</option>${OBJECTS.map(([each, words]) => html`<option value=${each} ?selected=${each === seen.object}>${words}</option>`)}</select></label>
      <button class="quiet" @click=${() => read()}>${say`Refresh`}</button></p>
    ${items && !items.length ? html`<p class="soft">${say`No changes yet. Changes of keys, budgets, webhooks, collections, builds, sources and gaps are listed here with their author.`}</p>` : nothing}
    ${items?.length ? html`<div class="scrolls" tabindex="0" role="region" aria-label=${say`Changes`}><table>
      <thead><tr><th scope="col">${say`time`}</th><th scope="col">${say`by`}</th><th scope="col">${say`change`}</th><th scope="col">${say`fields`}</th></tr></thead>
      <tbody>${items.map(one)}</tbody></table></div>` : nothing}
    ${next ? html`<button @click=${() => read(next)}>${say`Show older changes`}</button>` : nothing}
  </section>`;
}

/** @param {unknown} value */
const written = (value) => (value === null || value === undefined ? "\u2013" : typeof value === "string" ? value : JSON.stringify(value));

/** @type {Record<string, string>} */
const ACTORS = { "command line": say`command line`, local: say`local program`, operator: say`operator` };
/** @type {Record<string, (kind: string, name: unknown) => unknown>} whole phrases, because each language orders their words differently */
const ACTIONS = {
  create: (kind, name) => say`create ${kind} ${name}`,
  change: (kind, name) => say`change ${kind} ${name}`,
  delete: (kind, name) => say`delete ${kind} ${name}`,
  revoke: (kind, name) => say`revoke ${kind} ${name}`,
  enable: (kind, name) => say`enable ${kind} ${name}`,
  remove: (kind, name) => say`remove ${kind} ${name}`,
  approve: (kind, name) => say`approve ${kind} ${name}`,
  start: (kind, name) => say`start ${kind} ${name}`,
  pause: (kind, name) => say`pause ${kind} ${name}`,
  resume: (kind, name) => say`resume ${kind} ${name}`,
  switch: (kind, name) => say`switch ${kind} ${name}`,
  cancel: (kind, name) => say`cancel ${kind} ${name}`,
  erase: (kind, name) => say`erase ${kind} ${name}`,
};
/** @type {Record<string, string>} */
const KINDS = {
  key: say`key`, budget: say`budget`, webhook: say`webhook`, collection: say`collection`, build: say`build`, source: say`source`, document: say`document`, gap: say`gap`, tenant: say`tenant`,
};

/** @param {Api["AuditEntryView"]} each */
const actorOf = (each) => each.actor.name ?? ACTORS[each.actor.kind] ?? each.actor.kind;

/** Describe a change. A process of another release may have recorded another action. @param {Api["AuditEntryView"]} each */
function described({ action, object, object_name: title }) {
  const kind = KINDS[object] ?? object;
  const name = html`<span class="name" dir="auto">${title}</span>`;
  return ACTIONS[action]?.(kind, name) ?? html`${action} ${kind} ${name}`;
}

/** @param {Api["AuditEntryView"]} each */
const one = (each) => html`<tr><td><time datetime=${each.created_at} title=${each.created_at}>${ago(each.created_at)}</time></td>
  <td>${each.actor.kind === "operator" ? say`${actorOf(each)} (operator)` : actorOf(each)}</td>
  <th scope="row">${described(each)}</th>
  <td class="small">${Object.entries(each.changes).map(([field, { before, after }]) => html`<div dir="auto">${field.replaceAll("_", " ")}: ${before === null ? nothing : html`${written(before)} \u2192 `}${written(after)}</div>`)}</td></tr>`;
