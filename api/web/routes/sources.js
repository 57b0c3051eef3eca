// Sources: corpora that collections are kept in sync with, their last syncs, and deletions that wait for approval.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, get, post, send } from "../api.js";
import { redraw } from "../store.js";
import { ago, count, plural, until } from "../parts/format.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polledList } from "../parts/polling.js";

export const title = "Sources";
export const titled = true;
const SHOWN = 10; // syncs of a source
const PHASES = /** @type {Record<string, string>} */ ({ queued: "waits for a worker", running: "listing", done: "done", failed: "failed", cancelled: "cancelled" });

/** @type {Map<string, Api["WithheldView"]>} */
const withheldOf = new Map();
/** @type {Map<string, Api["SyncView"][]>} */
const syncsOf = new Map();
const sources = polledList(
  () => get("/v1/sources"),
  (cursor) => get(`/v1/sources?cursor=${cursor}`),
  readWithheld,
);
export const { load, unload } = sources;

/** Read the deletions that wait for approval. @param {Api["SourceView"][]} items */
async function readWithheld(items) {
  for (const { name, newest_sync: newest } of items) {
    if (newest?.withheld) withheldOf.set(name, await get(`/v1/sources/${name}/withheld`));
    else withheldOf.delete(name);
  }
}

/** @param {() => Promise<unknown>} action */
async function attempt(action) {
  try {
    await action();
    await sources.poll();
    return true;
  } catch (problem) {
    notify(problem.message, { seconds: 10 });
    return false;
  }
}

/** @param {On<HTMLFormElement>} event */
async function add(event) {
  event.preventDefault();
  const form = event.target;
  const fields = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  const body = /** @type {any} */ ({ ...fields, time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone });
  if (await attempt(() => post("/v1/sources", body))) form.reset();
}

/** @param {string} name */
async function readSyncs(name) {
  syncsOf.set(name, (await get(`/v1/sources/${name}/syncs?limit=${SHOWN}`)).items);
  redraw();
}

export function view() {
  const { items, next, problem } = sources.state;
  if (!items) return html`<section class="column">${problemCard(problem, load)}</section>`;
  const all = sources.all((each) => each.name);
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${all.length ? html`<ul role="list" class="jobs">${repeat(all, (/** @type {Api["SourceView"]} */ each) => each.name, one)}</ul>` : html`<p class="empty soft">No sources yet. A source is a folder, a bucket, a repository, a table or a site. Its documents are added, updated and deleted in a collection as they change.</p>`}
    ${next ? html`<button @click=${sources.more}>Show more sources</button>` : nothing}
    ${may("manage") ? addition() : nothing}
  </section>`;
}

const addition = () => html`<details><summary>Add a source</summary><form class="fields" @submit=${add}>
  <label>Name <input name="name" required maxlength="63" pattern="[a-z0-9][a-z0-9_\\-]*" placeholder="handbook"></label>
  <label>Address <input name="uri" required placeholder="file:///srv/handbook, s3://bucket/texts or https://example.org/docs/"></label>
  <label>Collection <input name="collection" placeholder="default"></label>
  <label>Schedule <input name="schedule" placeholder="0 3 * * *, or empty: only on request"></label>
  <button type="submit">Add</button></form>
  <p class="soft small">Options of a kind, such as patterns of names, are set with <code>foreask source add</code>.</p></details>`;

/** @param {Api["SourceView"]} source */
function one(source) {
  const { name, newest_sync: newest } = source;
  const isOpen = newest !== null && newest.ended_at === null;
  return html`<li class="card" aria-label=${name}>
    <p class="bar-line"><span class="grow"><strong>${name}</strong> in <a dir="auto" href=${`${ROOT}/collections/${encodeURIComponent(source.collection)}`}>${source.collection}</a>
        <span class="soft small">${source.kind} \u00b7 ${scheduled(source)}</span></span>
      ${source.removing ? html`<span class="soft">being removed</span>` : buttons(source, isOpen)}</p>
    <p class="small" dir="ltr"><code>${source.uri}</code></p>
    ${newest ? progress(newest, isOpen) : html`<p class="soft small">Not synced yet.</p>`}
    ${hints(source.newest_look)}
    ${withheld(name)}
    ${newest ? history(name) : nothing}</li>`;
}

/** @param {Api["SourceView"]} source */
const scheduled = ({ schedule, time_zone: zone, next_sync_at: next }) =>
  schedule ? `${schedule} (${zone})${next ? `, next sync ${until(next)}` : ""}` : "synced on request";

/** @param {Api["SourceView"]} source @param {boolean} isOpen */
function buttons({ name, collection }, isOpen) {
  const kept = `Remove the source ${name}? Its documents stay in ${collection}.`;
  const deleted = `Remove the source ${name} and delete all its documents from ${collection}?`;
  /** @param {"keep" | "delete"} documents @param {string} question */
  const remove = (documents, question) => confirm(question) && attempt(() => send("DELETE", `/v1/sources/${name}?documents=${documents}`));
  return html`${may("write") && !isOpen ? html`<button aria-label=${`Sync now: ${name}`} @click=${() => attempt(() => post(`/v1/sources/${name}/sync`))}>Sync now</button>` : nothing}
    ${may("manage") ? html`<button class="quiet" aria-label=${`Remove ${name}, keep its documents`} @click=${() => remove("keep", kept)}>Remove</button>
      <button class="quiet" aria-label=${`Remove ${name} with its documents`} @click=${() => remove("delete", deleted)}>Remove with documents</button>` : nothing}`;
}

/** @param {Api["SyncView"]} sync @param {boolean} isOpen */
function progress(sync, isOpen) {
  return html`<p class="small number">${isOpen ? `${PHASES[sync.phase]}, started ${ago(sync.created_at)}` : `${PHASES[sync.phase]} ${ago(sync.ended_at ?? sync.created_at)}`}: ${changes(sync)}</p>
    ${sync.waiting ? html`<p class="small">${sync.waiting}</p>` : nothing}
    ${sync.error ? html`<p class="bad small" dir="auto">${sync.error}</p>` : nothing}
    ${sync.refused ? html`<details><summary class="small bad">${plural(sync.refused, "entry", "entries")} cannot be read</summary>
      <ul class="small">${sync.refused_entries.map((each) => html`<li><code dir="auto">${each.key}</code> <span dir="auto">${each.reason}</span></li>`)}</ul></details>` : nothing}`;
}

/** Render why hints are not looked up. @param {Api["LookView"] | null} look */
const hints = (look) => html`${look?.error ? html`<p class="bad small" dir="auto">Hints are looked up again later: ${look.error}</p>` : nothing}
  ${look?.waiting ? html`<p class="small">Hints wait: ${look.waiting}</p>` : nothing}`;

/** @param {Api["SyncView"]} sync */
function changes(sync) {
  const parts = /** @type {const} */ ([["created", "new"], ["changed", "changed"], ["deleted", "deleted"], ["missing", "missing"]]);
  const words = parts.flatMap(([field, word]) => (sync[field] ? [`${count(sync[field])} ${word}`] : []));
  return [`${plural(sync.seen, "entry", "entries")} listed`, ...(words.length ? words : ["no change"])].join(", ");
}

/** Render the deletions of a source that wait for approval. @param {string} name */
function withheld(name) {
  const found = withheldOf.get(name);
  if (!found?.deletions) return nothing;
  const { deletions, items, keys } = found;
  const question = `Delete up to ${plural(deletions, "document")}? The source is listed again first; if it lacks more, nothing is deleted.`;
  return html`<div class="warning" role="status"><p><strong>${count(deletions)} of ${plural(items, "document")}</strong> ${deletions === 1 ? "is" : "are"} missing in the source. They are not deleted until a person approves it.</p>
    <details><summary class="small">${keys.length < deletions ? `The first ${count(keys.length)} of them` : "Which ones?"}</summary>
      <ul class="small keys">${keys.map((key) => html`<li dir="auto">${key}</li>`)}</ul></details>
    ${may("manage") ? html`<p><button aria-label=${`Approve deletions: ${name}`} @click=${() => confirm(question) && attempt(() => post(`/v1/sources/${name}/approve`, { deletions }))}>Delete ${plural(deletions, "document")}</button></p>` : nothing}</div>`;
}

/** @param {string} name */
function history(name) {
  const items = syncsOf.get(name);
  /** @param {On<HTMLDetailsElement>} event */
  const opened = (event) => event.target.open && readSyncs(name).catch((problem) => notify(problem.message));
  return html`<details @toggle=${opened}><summary class="small">Last syncs</summary>
    ${items ? html`<div class="scrolls" tabindex="0" role="region" aria-label=${`Last syncs of ${name}`}><table><caption class="hidden">The last ${SHOWN} syncs</caption>
      <thead><tr>${["started", "state"].map((each) => html`<th scope="col">${each}</th>`)}${["listed", "new", "changed", "missing", "deleted", "withheld", "refused"].map((each) => html`<th scope="col" class="number">${each}</th>`)}</tr></thead>
      <tbody>${items.map((each) => html`<tr><td>${ago(each.created_at)}</td><td class=${each.error ? "bad" : ""}>${PHASES[each.phase]}</td>
        ${/** @type {const} */ (["seen", "created", "changed", "missing", "deleted", "withheld", "refused"]).map((field) => html`<td class="number">${count(each[field])}</td>`)}</tr>`)}</tbody></table></div>` : nothing}</details>`;
}
