// Sources: corpora that collections are kept in sync with, their last syncs, and deletions that wait for approval.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, get, post, send } from "../api.js";
import { redraw } from "../store.js";
import { ago, count, plural, until } from "../parts/format.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polledList } from "../parts/polling.js";
import { say } from "../parts/words.js";

export const title = say`Sources`;
export const titled = true;
const SHOWN = 10; // syncs of a source
const PHASES = /** @type {Record<string, string>} */ ({ queued: say`waits for a worker`, running: say`listing`, done: say`done`, failed: say`failed`, cancelled: say`cancelled` });

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
    ${all.length ? html`<ul role="list" class="jobs">${repeat(all, (/** @type {Api["SourceView"]} */ each) => each.name, one)}</ul>` : html`<p class="empty soft">${say`No sources yet. A source is a folder, a bucket, a repository, a table or a site. Its documents are added, updated and deleted in a collection as they change.`}</p>`}
    ${next ? html`<button @click=${sources.more}>${say`Show more sources`}</button>` : nothing}
    ${may("manage") ? addition() : nothing}
  </section>`;
}

const addition = () => html`<details><summary>${say`Add a source`}</summary><form class="fields" @submit=${add}>
  <label>${say`Name`} <input name="name" required maxlength="63" pattern="[a-z0-9][a-z0-9_\\-]*" placeholder="handbook"></label>
  <label>${say`Address`} <input name="uri" required placeholder=${say`file:///srv/handbook, s3://bucket/texts or https://example.org/docs/`}></label>
  <label>${say`Collection`} <input name="collection" placeholder="default"></label>
  <label>${say`Schedule`} <input name="schedule" placeholder=${say`0 3 * * *, or empty: only on request`}></label>
  <button type="submit">${say`Add`}</button></form>
  <p class="soft small">${say`Options of a kind, such as patterns of names, are set with ${html`<code>foreask sources add</code>`}.`}</p></details>`;

/** @param {Api["SourceView"]} source */
function one(source) {
  const { name, newest_sync: newest } = source;
  const isOpen = newest !== null && newest.ended_at === null;
  return html`<li class="card" aria-label=${name}>
    <p class="bar-line"><span class="grow">${say`${html`<strong>${name}</strong>`} in ${html`<a dir="auto" href=${`${ROOT}/collections/${encodeURIComponent(source.collection)}`}>${source.collection}</a>`}`}
        <span class="soft small">${source.kind} \u00b7 ${scheduled(source)}</span></span>
      ${source.removing ? html`<span class="soft">${say`being removed`}</span>` : buttons(source, isOpen)}</p>
    <p class="small" dir="ltr"><code>${source.uri}</code></p>
    ${newest ? progress(newest, isOpen) : html`<p class="soft small">${say`Not synced yet.`}</p>`}
    ${source.schedule_error ? html`<p class="bad small" dir="auto">${say`Problem with the schedule: ${source.schedule_error}`}</p>` : nothing}
    ${hints(source.newest_lookup)}
    ${withheld(name)}
    ${newest ? history(name) : nothing}</li>`;
}

/** @param {Api["SourceView"]} source */
const scheduled = ({ schedule, time_zone: zone, next_sync_at: next }) =>
  schedule ? [`${schedule} (${zone})`, ...(next ? [say`next sync ${until(next)}`] : [])].join(", ") : say`synced on request`;

/** @param {Api["SourceView"]} source @param {boolean} isOpen */
function buttons({ name, collection }, isOpen) {
  const kept = say`Remove the source ${name}? Its documents stay in ${collection}.`;
  const deleted = say`Remove the source ${name} and delete all its documents from ${collection}?`;
  /** @param {"keep" | "delete"} documents @param {string} question */
  const remove = (documents, question) => confirm(question) && attempt(() => send("DELETE", `/v1/sources/${name}?documents=${documents}`));
  return html`${may("write") && !isOpen ? html`<button aria-label=${say`Sync now: ${name}`} @click=${() => attempt(() => post(`/v1/sources/${name}/sync`))}>${say`Sync now`}</button>` : nothing}
    ${may("manage") ? html`<button class="quiet" aria-label=${say`Remove ${name}, keep its documents`} @click=${() => remove("keep", kept)}>${say`Remove`}</button>
      <button class="quiet" aria-label=${say`Remove ${name} with its documents`} @click=${() => remove("delete", deleted)}>${say`Remove with documents`}</button>` : nothing}`;
}

/** @param {Api["SyncView"]} sync @param {boolean} isOpen */
function progress(sync, isOpen) {
  return html`<p class="small number">${isOpen ? say`${PHASES[sync.state]}, started ${ago(sync.created_at)}` : `${PHASES[sync.state]} ${ago(sync.ended_at ?? sync.created_at)}`}: ${changes(sync)}</p>
    ${sync.waiting ? html`<p class="small">${sync.waiting}</p>` : nothing}
    ${sync.error ? html`<p class="bad small" dir="auto">${sync.error}</p>` : nothing}
    ${sync.refused ? html`<details><summary class="small bad">${say`${plural(sync.refused, "entry", "entries")} cannot be read`}</summary>
      <ul class="small">${sync.refused_entries.map((each) => html`<li><code dir="auto">${each.key}</code> <span dir="auto">${each.reason}</span></li>`)}</ul></details>` : nothing}`;
}

/** Render why hints are not looked up. @param {Api["LookupView"] | null} lookup */
const hints = (lookup) => html`${lookup?.error ? html`<p class="bad small" dir="auto">${say`Hints are looked up again later: ${lookup.error}`}</p>` : nothing}
  ${lookup?.waiting ? html`<p class="small">${say`Hints wait: ${lookup.waiting}`}</p>` : nothing}`;

/** @param {Api["SyncView"]} sync */
function changes(sync) {
  const parts = /** @type {const} */ ([["created", say`new`], ["changed", say`changed`], ["deleted", say`deleted`], ["missing", say`missing`]]);
  const words = parts.flatMap(([field, word]) => (sync[field] ? [`${count(sync[field])} ${word}`] : []));
  return [say`${plural(sync.seen, "entry", "entries")} listed`, ...(words.length ? words : [say`no change`])].join(", ");
}

/** Render the deletions of a source that wait for approval. @param {string} name */
function withheld(name) {
  const found = withheldOf.get(name);
  if (!found?.deletions) return nothing;
  const { deletions, items, keys } = found;
  const question = say`Delete up to ${plural(deletions, "document")}? The source is listed again first; if it lacks more, nothing is deleted.`;
  return html`<div class="warning" role="status"><p>${say`Missing in the source: ${html`<strong>${say`${count(deletions)} of ${plural(items, "document")}`}</strong>`}. They are not deleted until a person approves it.`}</p>
    <details><summary class="small">${keys.length < deletions ? say`The first ${count(keys.length)} of them` : say`Which ones?`}</summary>
      <ul class="small keys">${keys.map((key) => html`<li dir="auto">${key}</li>`)}</ul></details>
    ${may("manage") ? html`<p><button aria-label=${say`Approve deletions: ${name}`} @click=${() => confirm(question) && attempt(() => post(`/v1/sources/${name}/approve`, { deletions }))}>${say`Delete ${plural(deletions, "document")}`}</button></p>` : nothing}</div>`;
}

/** @param {string} name */
function history(name) {
  const items = syncsOf.get(name);
  /** @param {On<HTMLDetailsElement>} event */
  const opened = (event) => event.target.open && readSyncs(name).catch((problem) => notify(problem.message));
  return html`<details @toggle=${opened}><summary class="small">${say`Last syncs`}</summary>
    ${items ? html`<div class="scrolls" tabindex="0" role="region" aria-label=${say`Last syncs of ${name}`}><table><caption class="hidden">${say`The last ${SHOWN} syncs`}</caption>
      <thead><tr>${[say`started`, say`state`].map((each) => html`<th scope="col">${each}</th>`)}${[say`listed`, say`new`, say`changed`, say`missing`, say`deleted`, say`withheld`, say`refused`].map((each) => html`<th scope="col" class="number">${each}</th>`)}</tr></thead>
      <tbody>${items.map((each) => html`<tr><td>${ago(each.created_at)}</td><td class=${each.error ? "bad" : ""}>${PHASES[each.state]}</td>
        ${/** @type {const} */ (["seen", "created", "changed", "missing", "deleted", "withheld", "refused"]).map((field) => html`<td class="number">${count(each[field])}</td>`)}</tr>`)}</tbody></table></div>` : nothing}</details>`;
}
