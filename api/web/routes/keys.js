// Keys: their permissions, limits and last use; create, change and revoke them.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { get, post, send } from "../api.js";
import { redraw, redrawNow } from "../store.js";
import { copy } from "../parts/clipboard.js";
import { ago, count, dateOf } from "../parts/format.js";
import { notify, problemCard } from "../parts/notice.js";
import { attempt, limitField } from "../parts/operations.js";
import { may, server } from "../parts/permissions.js";
import { polledList } from "../parts/polling.js";
import { say } from "../parts/words.js";

export const title = say`Keys`;
export const titled = true;
const SCOPES = /** @type {const} */ ([["ask", say`Ask questions`], ["read", say`Read documents`], ["feedback", say`Give feedback`], ["write", say`Add and change documents`], ["manage", say`Manage`]]);
/** @type {Record<string, string>} */
const SCOPE_WORDS = { ask: say`ask`, read: say`read`, feedback: say`feedback`, write: say`write`, manage: say`manage` };
/** @param {readonly string[]} scopes */
const scopesOf = (scopes) => scopes.map((each) => SCOPE_WORDS[each] ?? each).join(", ");
/** The limits of a key: field, label, text with a value, and whether values are whole. @type {["requests_per_second" | "tokens_per_day" | "cost_per_day" | "max_tokens", string, (value: string) => string, boolean][]} */
const LIMITS = [["requests_per_second", say`Requests per second`, (value) => say`${value} requests per second`, false], ["tokens_per_day", say`Tokens per day`, (value) => say`${value} tokens per day`, true],
  ["cost_per_day", say`Cost per day`, (value) => say`${value} cost per day`, false], ["max_tokens", say`Tokens per reply`, (value) => say`${value} tokens per reply`, true]];
const DAYS = [["", say`never`], ["30", say`in 30 days`], ["90", say`in 90 days`], ["365", say`in a year`]];
const DAY = 86_400; // seconds

/** @type {{settings: Api["SettingsKeyView"][], made: Api["NewKeyView"] | null, isRequired: boolean}} */
const seen = { settings: [], made: null, isRequired: true };
const keys = polledList(
  async () => {
    const page = await get("/v1/keys");
    seen.settings = page.from_settings;
    return page;
  },
  (cursor) => get(`/v1/keys?cursor=${cursor}`),
  async () => {},
);

export async function load() {
  seen.made = null;
  server().then((me) => ((seen.isRequired = me?.key !== null), redraw()));
  await keys.load();
}

export function unload() {
  seen.made = null; // a secret is shown once
  keys.unload();
}

/** @param {FormData} fields @returns {any} */
const limitsOf = (fields) => Object.fromEntries(LIMITS.map(([name]) => [name, fields.get(name) ? Number(fields.get(name)) : null]));

/** @param {On<HTMLFormElement>} event */
async function make(event) {
  event.preventDefault();
  const form = event.target;
  const fields = new FormData(form);
  const days = Number(fields.get("days"));
  const [field, value] = String(fields.get("filter") ?? "").split("=", 2);
  const limits = limitsOf(fields);
  const body = /** @type {any} */ ({
    name: fields.get("name"),
    scopes: fields.getAll("scope"),
    expires_in_seconds: days ? days * DAY : null,
    filter: field ? { [field.trim()]: (value ?? "").trim() } : null,
    limits: Object.values(limits).some(Boolean) ? limits : null,
  });
  await attempt(async () => {
    seen.made = await post("/v1/keys", body);
    form.reset();
    await keys.poll();
    redrawNow();
    document.getElementById("made")?.focus();
  });
}

/** @param {Api["KeyView"]} key */
async function revoke(key) {
  if (!confirm(say`Revoke the key ${key.name}? Programs that use it are refused within five seconds. This cannot be undone.`)) return;
  if (await attempt(() => send("DELETE", `/v1/keys/${key.id}`))) notify(say`The key ${key.name} was revoked.`);
  if (seen.made?.id === key.id) seen.made = null;
  await keys.poll();
}

/** @param {Api["KeyView"]} key @param {On<HTMLFormElement>} event */
async function change(key, event) {
  event.preventDefault();
  const limits = limitsOf(new FormData(event.target));
  if (await attempt(() => send("PATCH", `/v1/keys/${key.id}`, { body: { limits } }))) notify(say`The limits of ${key.name} apply within five seconds.`);
  await keys.poll();
}

export function view() {
  const { items, next, problem } = keys.state;
  const all = items ? keys.all((each) => each.id) : [];
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${seen.isRequired ? nothing : html`<p class="warning">${say`This server requires no keys: every program on its machine has all permissions. To require keys, create the first one with ${html`<code>foreask keys setting</code>`}.`}</p>`}
    ${seen.made ? secret(seen.made) : nothing}
    ${items && seen.isRequired ? addition() : nothing}
    ${items && !all.length ? html`<p class="empty soft">${say`No keys yet. Create one for each program and person, so that each can be limited and revoked alone.`}</p>` : nothing}
    ${all.length ? html`<ul role="list" class="jobs">${repeat(all, (/** @type {Api["KeyView"]} */ each) => each.id, one)}</ul>` : nothing}
    ${next ? html`<button @click=${keys.more}>${say`Show older keys`}</button>` : nothing}
    ${seen.settings.length ? html`<h2>${say`From the settings`}</h2><ul role="list">${seen.settings.map((each) => html`<li class="soft"><code>${each.name}</code> ${scopesOf(each.scopes)}</li>`)}</ul>
      <p class="soft small">${say`These keys can be changed only in the server's settings.`}</p>` : nothing}
  </section>`;
}

/** @param {Api["NewKeyView"]} made */
function secret(made) {
  const clicked = () => copy(made.key, say`Key copied.`);
  return html`<div class="warning" id="made" tabindex="-1" role="status"><p>${say`The key ${made.name} was created. Copy it now: it is not shown again.`}</p>
    <p class="bar-line"><code class="grow name" dir="ltr">${made.key}</code><button @click=${clicked}>${say`Copy`}</button></p></div>`;
}

const addition = () => html`<details><summary>${say`Create a key`}</summary><form class="options" @submit=${make}>
  <label>${say`Name`} <input name="name" required maxlength="63" pattern="[A-Za-z0-9][A-Za-z0-9._@\\-]*" placeholder="website" autocomplete="off"></label>
  <label>${say`Expires`} <select name="days">${DAYS.map(([value, words]) => html`<option value=${value}>${words}</option>`)}</select></label>
  <fieldset class="whole tools"><legend>${say`Permissions`}</legend>${SCOPES.filter(([scope]) => may(scope)).map(([scope, words]) => html`<label class="check"><input type="checkbox" name="scope" value=${scope} ?checked=${scope === "ask"}> ${words}</label>`)}</fieldset>
  <label class="whole">${say`Only documents with`} <input name="filter" placeholder=${say`audience=public, or empty: all documents`} pattern="[^=]+=.+"></label>
  ${LIMITS.map(([name, words, , whole]) => limitField(name, words, null, whole))}
  <p class="soft small">${say`A key for some documents can only ask and give feedback. A key with limits cannot manage.`}</p>
  <button class="main" type="submit">${say`Create`}</button></form></details>`;

/** @param {Api["KeyView"]} key */
function one(key) {
  const limits = LIMITS.flatMap(([name, , words]) => (key.limits[name] === null ? [] : [words(count(key.limits[name] ?? 0))]));
  const ended = key.revoked_at !== null || (key.expires_at !== null && Date.parse(key.expires_at) <= Date.now());
  const state = key.revoked_at ? say`revoked ${ago(key.revoked_at)}` : ended ? say`expired` : key.expires_at ? say`expires on ${dateOf(key.expires_at)}` : say`does not expire`;
  return html`<li class="card" aria-label=${key.name}>
    <p class="bar-line"><span class="grow"><strong>${key.name}</strong> ${key.prefix ? html`<code>${key.prefix}\u2026</code>` : nothing}
      <span class="soft small">${scopesOf(key.scopes)} \u00b7 <span class=${ended ? "bad" : ""}>${state}</span> \u00b7 ${key.last_used_at ? say`last used ${ago(key.last_used_at)}` : say`not used yet`}</span></span>
      ${ended ? nothing : html`<button class="danger" aria-label=${say`Revoke ${key.name}`} @click=${() => revoke(key)}>${say`Revoke`}</button>`}</p>
    ${key.filter ? html`<p class="small">${say`Only documents with ${html`<code dir="auto">${JSON.stringify(key.filter)}</code>`}`}</p>` : nothing}
    ${limits.length ? html`<p class="small number">${limits.join(" \u00b7 ")}</p>` : nothing}
    ${ended || key.scopes.includes("manage") ? nothing : html`<details><summary class="small">${say`Change limits`}</summary><form class="options" aria-label=${say`Limits of ${key.name}`} @submit=${(/** @type {On<HTMLFormElement>} */ event) => change(key, event)}>
      ${LIMITS.map(([name, words, , whole]) => limitField(name, words, key.limits[name], whole))}<button type="submit">${say`Save`}</button></form></details>`}</li>`;
}
