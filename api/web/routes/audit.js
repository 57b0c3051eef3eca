// The audit log: recorded changes of settings, with their authors. An operator's key sees the operators' changes.

import { html, nothing } from "../vendor/lit-html.js";
import { get, latest } from "../api.js";
import { empty } from "../kit/empty.js";
import { skeleton } from "../kit/skeleton.js";
import { table } from "../kit/table.js";
import { redraw } from "../store.js";
import { ago, momentOf } from "../parts/format.js";
import { problemCard } from "../parts/notice.js";
import { may, server } from "../parts/permissions.js";
import { actorOf, changes, described } from "../parts/recorded.js";
import { say } from "../parts/words.js";

export const title = say`Audit`;
export const titled = true;
const PAGE = 50;
const OBJECTS = [
  ["key", say`keys`], ["budget", say`budgets`], ["webhook", say`webhooks`], ["collection", say`collections`],
  ["build", say`builds`], ["source", say`sources`], ["document", say`documents`],
  ["person", say`people`], ["gap", say`gaps`],
];

/** @typedef {Api["AuditEntryView"] & {tenant?: string | null}} Entry */

/** @type {{items: Entry[] | null, next: string | null, object: string, name: string, actor: string, problem: any}} */
const seen = { items: null, next: null, object: "", name: "", actor: "", problem: null };
const newest = latest();

/** Read the changes, or the ones after a cursor. @param {string | null} [cursor] */
async function read(cursor = null) {
  const query = new URLSearchParams({ limit: String(PAGE) });
  for (const name of /** @type {const} */ (["object", "name", "actor"])) if (seen[name]) query.set(name, seen[name]);
  if (cursor) query.set("cursor", cursor);
  try {
    const page = await newest(may("operator") ? get(`/v1/operator/audit?${query}`) : get(`/v1/audit?${query}`));
    const items = cursor ? [...(seen.items ?? []), ...page.items] : page.items;
    Object.assign(seen, { items, next: page.next_cursor, problem: null });
  } catch (problem) {
    seen.problem = problem;
  }
  redraw();
}

export const load = () => server().then(() => read()); // the scopes decide whose changes are listed

export function unload() {}

/** @param {"object" | "name" | "actor"} name @returns {(event: any) => void} */
const filter = (name) => (event) => {
  seen[name] = event.target.value.trim();
  read();
};

const isFiltered = () => Boolean(seen.object || seen.name || seen.actor);

export function view() {
  const { items, next, problem } = seen;
  return html`<section class="column wide">
    ${problemCard(problem, () => read())}
    <div class="tools">
      <label class="inline">${say`Changes of`} <select @change=${filter("object")}>
        <option value="">${say`everything`}</option>${OBJECTS.map(option)}</select></label>
      <input type="search" aria-label=${say`Name of the object`} placeholder=${say`By name`}
        .value=${seen.name} @change=${filter("name")}>
      <input type="search" aria-label=${say`Name of the key that made the change`} placeholder=${say`By key`}
        .value=${seen.actor} @change=${filter("actor")}>
      <button @click=${() => read()}>${say`Refresh`}</button></div>
    ${items ? list(items) : problem ? nothing : skeleton({ rows: 6 })}
    ${next ? html`<button @click=${() => read(next)}>${say`Show older changes`}</button>` : nothing}
  </section>`;
}

/** @param {string[]} kind */
const option = ([kind, words]) => html`<option value=${kind} ?selected=${kind === seen.object}>${words}</option>`;

/** @param {Entry[]} items */
function list(items) {
  if (!items.length && isFiltered()) {
    return html`<p class="empty soft">${say`No changes match. Names are compared exactly.`}</p>`;
  }
  if (!items.length) {
    return empty({
      title: say`No changes yet`,
      sign: "scroll-text",
      text: say`Changes of keys, budgets, webhooks, collections, builds, sources and gaps are listed here with their author.`,
    });
  }
  const columns = [
    { words: say`Time`, cell: timeOf, width: "8rem" },
    { words: say`By`, cell: actorOf, width: "minmax(6rem, 12rem)" },
    ...(may("operator") ? [{ words: say`Tenant`, cell: tenantOf, width: "8rem" }] : []),
    { words: say`Action`, cell: (/** @type {Entry} */ each) => html`<span>${described(each)}</span>`, main: true },
    { words: say`Fields`, cell: fieldsOf, width: "minmax(10rem, 1.4fr)" },
  ];
  return table({ label: say`Changes`, rows: items, key: (each) => each.id, columns });
}

/** @param {Entry} each */
const timeOf = ({ created_at: time }) => html`<time datetime=${time} title=${momentOf(time)}>${ago(time)}</time>`;

/** @param {Entry} each */
const tenantOf = (each) => each.tenant ?? "\u2013";

/** @param {Entry} each */
const fieldsOf = (each) => html`<div>${changes(each)}</div>`;
