// Sources: corpora that collections are kept in sync with, their last syncs, and deletions that wait for approval.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, get, post, send } from "../api.js";
import { redraw, redrawNow } from "../store.js";
import { card } from "../kit/card.js";
import { confirmed } from "../kit/dialog.js";
import { empty } from "../kit/empty.js";
import { menu } from "../kit/menu.js";
import { skeleton } from "../kit/skeleton.js";
import { table } from "../kit/table.js";
import { ago, count, plural, until } from "../parts/format.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polledList } from "../parts/polling.js";
import { scheduleWords } from "../parts/schedule.js";
import { ADDITION, closeForm, editSource, focusForm, formOf, isEditing, newSource } from "../parts/source-form.js";
import { kindOf } from "../parts/source-kinds.js";
import { say } from "../parts/words.js";

export const title = say`Sources`;
export const titled = true;
const SHOWN = 10; // syncs of a source
const PHASES = /** @type {Record<string, string>} */ ({
  queued: say`waits for a worker`,
  running: say`listing`,
  done: say`done`,
  failed: say`failed`,
  cancelled: say`cancelled`,
});

/** @type {Map<string, Api["WithheldView"]>} */
const withheldOf = new Map();
/** @type {Map<string, Api["SyncView"][]>} */
const syncsOf = new Map();
/** @type {Set<string>} the sources whose last syncs are shown */
const opened = new Set();
const sources = polledList(
  () => get("/v1/sources"),
  (cursor) => get(`/v1/sources?cursor=${cursor}`),
  readWithheld,
);
export const { load } = sources;

export function unload() {
  closeForm();
  sources.unload();
}

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
  } catch (problem) {
    notify(problem.message, { seconds: 10 });
  }
}

/** @param {string} name */
async function readSyncs(name) {
  syncsOf.set(name, (await get(`/v1/sources/${name}/syncs?limit=${SHOWN}`)).items);
  redraw();
}

/** Open the form of a source, or of a new one, and go to its first field. @param {() => void} open */
function show(open) {
  open();
  redrawNow();
  focusForm();
}

export function view() {
  const { items, next, problem } = sources.state;
  if (!items) {
    const state = problem ? problemCard(problem, load) : skeleton({ cards: true });
    return html`<section class="column wide">${state}</section>`;
  }
  const all = sources.all((each) => each.name);
  const add =
    may("manage") && !isEditing()
      ? html`<button class="main" id=${ADDITION} @click=${() => show(newSource)}>${say`Add a source`}</button>`
      : nothing;
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${isEditing() ? html`<div class="source-form">${formOf(sources.poll)}</div>` : nothing}
    ${
      all.length
        ? html`${add === nothing ? nothing : html`<p class="kit-actions">${add}</p>`}
      <ul role="list" class="kit-cards">${repeat(all, (/** @type {Api["SourceView"]} */ each) => each.name, one)}</ul>`
        : nothing
    }
    ${
      !all.length && !isEditing()
        ? empty({
            sign: "folder-sync",
            title: say`No sources yet`,
            actions: add,
            text: say`A source is a folder, a site, a repository, a bucket or a table. Its documents are added, updated and deleted in a collection as they change.`,
          })
        : nothing
    }
    ${next ? html`<button @click=${sources.more}>${say`Show more sources`}</button>` : nothing}
  </section>`;
}

/** @param {Api["SourceView"]} source */
function one(source) {
  const { name, collection, newest_sync: newest, schedule_error: error } = source;
  const isOpen = newest !== null && newest.ended_at === null;
  const link = html`<a dir="auto" href=${`${ROOT}/collections/${encodeURIComponent(collection)}`}>${collection}</a>`;
  return card({
    label: name,
    title: name,
    facts: html`${say`${kindOf(source.kind)?.words ?? source.kind} in ${link}`} \u00b7 ${scheduled(source)}`,
    actions: source.removing ? html`<span class="soft">${say`being removed`}</span>` : buttons(source, isOpen),
    body: html`<p class="small" dir="ltr"><code>${source.uri}</code></p>
      ${newest ? progress(newest, isOpen) : html`<p class="soft small">${say`Not synced yet.`}</p>`}
      ${error ? html`<p class="bad small" dir="auto">${say`Problem with the schedule: ${error}`}</p>` : nothing}
      ${hints(source.newest_lookup)} ${withheld(source)} ${newest ? history(name) : nothing}`,
  });
}

/** @param {Api["SourceView"]} source */
function scheduled({ kind, schedule, time_zone: zone, next_sync_at: next }) {
  if (kindOf(kind)?.pushed) return say`sent by a program`;
  if (!schedule) return say`synced on request`;
  return [`${scheduleWords(schedule)} (${zone})`, ...(next ? [say`next sync ${until(next)}`] : [])].join(", ");
}

/** @param {Api["SourceView"]} source @param {boolean} isOpen */
function buttons(source, isOpen) {
  const { name } = source;
  const sync = may("write") && !isOpen && !kindOf(source.kind)?.pushed;
  const start = () => attempt(() => post(`/v1/sources/${name}/sync`));
  return html`
    ${sync ? html`<button aria-label=${say`Sync now: ${name}`} @click=${start}>${say`Sync now`}</button>` : nothing}
    ${menu({
      id: `source-${name}`,
      label: say`Actions of ${name}`,
      items: may("manage")
        ? [
            { words: say`Change`, run: () => show(() => editSource(source)) },
            { words: say`Remove, keep documents`, run: () => remove(source, "keep") },
            { words: say`Remove with documents`, run: () => remove(source, "delete"), danger: true },
          ]
        : [],
    })}`;
}

/** @param {Api["SourceView"]} source @param {"keep" | "delete"} documents */
async function remove({ name, collection }, documents) {
  const isDeletion = documents === "delete";
  const isSure = await confirmed({
    title: say`Remove the source ${name}?`,
    text: isDeletion
      ? say`All its documents are deleted from ${collection}. This cannot be undone.`
      : say`Its documents stay in ${collection}, and are no longer updated.`,
    action: isDeletion ? say`Remove with documents` : say`Remove`,
    danger: isDeletion,
  });
  if (isSure) await attempt(() => send("DELETE", `/v1/sources/${name}?documents=${documents}`));
}

/** @param {Api["SyncView"]} sync @param {boolean} isOpen */
function progress(sync, isOpen) {
  const phase = PHASES[sync.state];
  const ended = `${phase} ${ago(sync.ended_at ?? sync.created_at)}`;
  const state = isOpen ? say`${phase}, started ${ago(sync.created_at)}` : ended;
  const isListed = !isOpen || sync.seen > 0; // a sync that waits has no numbers yet
  return html`<p class="small number">${isListed ? `${state}: ${changes(sync)}` : state}</p>
    ${sync.waiting ? html`<p class="small">${sync.waiting}</p>` : nothing}
    ${sync.error ? html`<p class="bad small" dir="auto">${sync.error}</p>` : nothing}
    ${sync.refused ? refusedOf(sync) : nothing}`;
}

/** @param {Api["SyncView"]} sync */
function refusedOf(sync) {
  const entries = sync.refused_entries.map(
    ({ key, reason }) => html`<li><code dir="auto">${key}</code> <span dir="auto">${reason}</span></li>`,
  );
  return html`<details>
    <summary class="small bad">${say`${plural(sync.refused, "entry", "entries")} cannot be read`}</summary>
    <ul class="small">${entries}</ul></details>`;
}

/** Render why hints are not looked up. @param {Api["LookupView"] | null} lookup */
function hints(lookup) {
  const { error, waiting } = lookup ?? {};
  return html`
    ${error ? html`<p class="bad small" dir="auto">${say`Hints are looked up again later: ${error}`}</p>` : nothing}
    ${waiting ? html`<p class="small">${say`Hints wait: ${waiting}`}</p>` : nothing}`;
}

/** @param {Api["SyncView"]} sync */
function changes(sync) {
  const parts = /** @type {const} */ ([
    ["created", say`new`],
    ["changed", say`changed`],
    ["readers_changed", say`with other readers`],
    ["deleted", say`deleted`],
    ["missing", say`missing`],
  ]);
  const words = parts.flatMap(([field, word]) => (sync[field] ? [`${count(sync[field])} ${word}`] : []));
  return [say`${plural(sync.seen, "entry", "entries")} listed`, ...(words.length ? words : [say`no change`])].join(
    ", ",
  );
}

/** Render the deletions of a source that wait for approval. @param {Api["SourceView"]} source */
function withheld(source) {
  const { name } = source;
  const found = withheldOf.get(name);
  if (!found?.deletions) return nothing;
  const { deletions, items, keys } = found;
  const share = html`<strong>${say`${count(deletions)} of ${plural(items, "document")}`}</strong>`;
  const which = keys.length < deletions ? say`The first ${count(keys.length)} of them` : say`Which ones?`;
  const words = say`Delete ${plural(deletions, "document")}`;
  const button = html`<button aria-label=${say`Approve deletions: ${name}`}
    @click=${() => approve(source, deletions)}>${words}</button>`;
  return html`<div class="warning" role="status">
    <p>${say`Missing in the source: ${share}. They are not deleted until a person approves it.`}</p>
    <details><summary class="small">${which}</summary>
      <ul class="small keys">${keys.map((key) => html`<li dir="auto">${key}</li>`)}</ul></details>
    ${may("manage") ? html`<p>${button}</p>` : nothing}</div>`;
}

/** @param {Api["SourceView"]} source @param {number} deletions */
async function approve({ name, kind }, deletions) {
  const isSure = await confirmed({
    title: say`Delete up to ${plural(deletions, "document")}?`,
    text: kindOf(kind)?.pushed
      ? say`Its program did not list them any more.`
      : say`The source is listed again first; if it lacks more, nothing is deleted.`,
    action: say`Delete ${plural(deletions, "document")}`,
    danger: true,
  });
  if (isSure) await attempt(() => post(`/v1/sources/${name}/approve`, { deletions }));
}

const NUMBERS = /** @type {const} */ ([
  ["seen", say`listed`],
  ["created", say`new`],
  ["changed", say`changed`],
  ["missing", say`missing`],
  ["deleted", say`deleted`],
  ["withheld", say`withheld`],
  ["refused", say`refused`],
]);

/** @param {string} name */
function history(name) {
  const items = syncsOf.get(name);
  /** @param {On<HTMLDetailsElement>} event */
  const toggled = (event) => {
    opened[event.target.open ? "add" : "delete"](name);
    if (event.target.open) readSyncs(name).catch((problem) => notify(problem.message));
  };
  return html`<details ?open=${opened.has(name)} @toggle=${toggled}><summary class="small">${say`Last syncs`}</summary>
    ${
      items
        ? table({
            label: say`Last syncs of ${name}`,
            rows: items,
            key: (each) => each.id,
            columns: [
              { words: say`started`, cell: (each) => ago(each.created_at), main: true },
              {
                words: say`state`,
                cell: (each) => html`<span class=${each.error ? "bad" : nothing}>${PHASES[each.state]}</span>`,
              },
              ...NUMBERS.map(([field, words]) => ({
                words,
                number: true,
                cell: (/** @type {Api["SyncView"]} */ each) => count(each[field]),
              })),
            ],
          })
        : nothing
    }</details>`;
}
