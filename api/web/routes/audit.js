// The audit log: recorded changes of settings, with their authors.

import { html, nothing } from "../vendor/lit-html.js";
import { get, latest } from "../api.js";
import { redraw } from "../store.js";
import { ago } from "../parts/format.js";
import { problemCard } from "../parts/notice.js";

export const title = "Audit";
export const titled = true;
const OBJECTS = ["key", "budget", "webhook", "collection", "build", "source", "document", "gap"];

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
    <p class="tools"><label>Changes of <select @change=${choose}><option value="">everything</option>${OBJECTS.map((each) => html`<option value=${each} ?selected=${each === seen.object}>${each}s</option>`)}</select></label>
      <button class="quiet" @click=${() => read()}>Read again</button></p>
    ${items && !items.length ? html`<p class="soft">No changes yet. Changes of keys, budgets, webhooks, collections, builds, sources and gaps are listed here with their author.</p>` : nothing}
    ${items?.length ? html`<div class="scrolls" tabindex="0" role="region" aria-label="Changes"><table>
      <thead><tr><th scope="col">time</th><th scope="col">by</th><th scope="col">change</th><th scope="col">fields</th></tr></thead>
      <tbody>${items.map(one)}</tbody></table></div>` : nothing}
    ${next ? html`<button @click=${() => read(next)}>Show older changes</button>` : nothing}
  </section>`;
}

/** @param {unknown} value */
const written = (value) => (value === null || value === undefined ? "\u2013" : typeof value === "string" ? value : JSON.stringify(value));

/** @param {Api["AuditEntryView"]} each */
const one = (each) => html`<tr><td><time datetime=${each.made_at} title=${each.made_at}>${ago(each.made_at)}</time></td>
  <td>${each.actor.name ?? (each.actor.kind === "local" ? "local program" : each.actor.kind)}${each.actor.kind === "operator" ? " (operator)" : ""}</td>
  <th scope="row">${each.action} ${each.object} <span class="name" dir="auto">${each.object_name}</span></th>
  <td class="small">${Object.entries(each.changes).map(([field, { before, after }]) => html`<div dir="auto">${field.replaceAll("_", " ")}: ${before === null ? nothing : html`${written(before)} \u2192 `}${written(after)}</div>`)}</td></tr>`;
