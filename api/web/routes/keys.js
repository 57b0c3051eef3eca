// Keys: their permissions, limits and last use; create, change and revoke them.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { get, post, send } from "../api.js";
import { redraw, redrawNow } from "../store.js";
import { card } from "../kit/card.js";
import { confirmed } from "../kit/dialog.js";
import { empty } from "../kit/empty.js";
import { createForm } from "../kit/form.js";
import { menu } from "../kit/menu.js";
import { skeleton } from "../kit/skeleton.js";
import { copy } from "../parts/clipboard.js";
import { ago, count, dateOf, money } from "../parts/format.js";
import { notify, problemCard } from "../parts/notice.js";
import { attempt } from "../parts/operations.js";
import { may, server } from "../parts/permissions.js";
import { polledList } from "../parts/polling.js";
import { say } from "../parts/words.js";

export const title = say`Keys`;
export const titled = true;
const SCOPES = /** @type {const} */ ([
  ["ask", say`Ask questions`],
  ["read", say`Read documents`],
  ["feedback", say`Give feedback`],
  ["write", say`Add and change documents`],
  ["manage", say`Manage`],
  ["delegate", say`Act for persons`],
]);
/** @type {Record<string, string>} */
const SCOPE_WORDS = {
  ask: say`ask`, read: say`read`, feedback: say`feedback`, write: say`write`, manage: say`manage`,
  delegate: say`delegate`,
};
/** @param {readonly string[]} scopes */
const scopesOf = (scopes) => scopes.map((each) => SCOPE_WORDS[each] ?? each).join(", ");
/** @typedef {"requests_per_second" | "tokens_per_day" | "cost_per_day" | "max_tokens"} LimitName */
/**
 * @type {readonly {name: LimitName, label: string, words: (value: number) => string, whole?: boolean,
 *   unit?: string}[]}
 */
const LIMITS = [
  {
    name: "requests_per_second",
    label: say`Requests per second`,
    words: (value) => say`${count(value)} requests per second`,
  },
  {
    name: "tokens_per_day",
    label: say`Tokens per day`,
    words: (value) => say`${count(value)} tokens per day`,
    whole: true,
  },
  { name: "cost_per_day", label: say`Cost per day`, words: (value) => say`${money(value)} per day`, unit: "USD" },
  {
    name: "max_tokens",
    label: say`Tokens per reply`,
    words: (value) => say`${count(value)} tokens per reply`,
    whole: true,
  },
];
/** @type {readonly [string, string][]} */
const DAYS = [
  ["", say`never`],
  ["30", say`in 30 days`],
  ["90", say`in 90 days`],
  ["365", say`in a year`],
];
const DAY = 86_400; // seconds

/**
 * @type {{settings: Api["SettingsKeyView"][], made: Api["NewKeyView"] | null, isRequired: boolean, isAdding: boolean,
 *   changed: string | null}} changed: id of the key whose limits are changed
 */
const seen = { settings: [], made: null, isRequired: true, isAdding: false, changed: null };
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
  close();
  server().then((me) => ((seen.isRequired = me?.key !== null), redraw()));
  await keys.load();
}

export function unload() {
  close();
  keys.unload();
}

/** Close the forms, and forget the secret, which is shown once. */
function close() {
  Object.assign(seen, { made: null, isAdding: false, changed: null });
}

const addition = createForm(make);

/** @param {any} values */
async function make({ name, scopes, days, filter, limits }) {
  const [field, value] = (filter ?? "").split("=", 2);
  seen.made = await post("/v1/keys", {
    name,
    scopes,
    expires_in_seconds: days ? Number(days) * DAY : null,
    filter: field ? { [field.trim()]: (value ?? "").trim() } : null,
    limits: Object.values(limits).some((each) => each !== null) ? limits : null,
  });
  seen.isAdding = false;
  await keys.poll();
  redrawNow();
  document.getElementById("made")?.focus();
}

/** @param {Api["KeyView"]} key */
async function revoke(key) {
  const isSure = await confirmed({
    title: say`Revoke the key ${key.name}?`,
    text: say`Programs that use it are refused within five seconds. This cannot be undone.`,
    action: say`Revoke`,
    danger: true,
  });
  if (!isSure) return;
  if (await attempt(() => send("DELETE", `/v1/keys/${key.id}`))) notify(say`The key ${key.name} was revoked.`);
  if (seen.made?.id === key.id) seen.made = null;
  await keys.poll();
}

/** The form of limits; it belongs to the key `seen.changed`. */
const change = createForm(async ({ limits }) => {
  const key = keys.all((each) => each.id).find(({ id }) => id === seen.changed);
  if (!key) return;
  await send("PATCH", `/v1/keys/${key.id}`, { body: { limits } });
  seen.changed = null;
  notify(say`The limits of ${key.name} apply within five seconds.`);
  await keys.poll();
});

/**
 * Show a form, and go to its first field.
 * @param {{clear: () => void, focus: () => void}} form @param {() => void} open
 */
function show(form, open) {
  addition.clear();
  change.clear();
  Object.assign(seen, { isAdding: false, changed: null });
  open();
  redrawNow();
  form.focus();
}

export function view() {
  const { items, next, problem } = keys.state;
  if (!items) {
    const state = problem ? problemCard(problem, load) : skeleton({ cards: true });
    return html`<section class="column wide">${state}</section>`;
  }
  const all = keys.all((each) => each.id);
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${seen.isRequired ? nothing : html`<p class="warning">${NOT_REQUIRED}</p>`}
    ${seen.made ? secret(seen.made) : nothing}
    ${seen.isAdding ? html`<h2>${say`Create a key`}</h2>${creation()}` : nothing}
    ${seen.isRequired && !seen.isAdding ? start(!all.length) : nothing}
    ${all.length ? html`<ul role="list" class="kit-cards">${repeat(all, idOf, one)}</ul>` : nothing}
    ${next ? html`<button @click=${keys.more}>${say`Show older keys`}</button>` : nothing}
    ${seen.settings.length ? ofSettings() : nothing}
  </section>`;
}

/** @param {Api["KeyView"]} key */
const idOf = ({ id }) => id;

const COMMAND = html`<code>foreask keys setting</code>`;
const NOT_REQUIRED = say`This server requires no keys: every program on its machine has all permissions. To require keys, create the first one with ${COMMAND}.`;

/** Render the button of the form. @param {boolean} isFirst whether there are no keys yet */
function start(isFirst) {
  const open = () => show(addition, () => (seen.isAdding = true));
  const actions = html`<button class="main" @click=${open}>${say`Create a key`}</button>`;
  if (!isFirst) return html`<p class="kit-actions">${actions}</p>`;
  const text = say`Create one for each program and person, so that each can be limited and revoked alone.`;
  return empty({ sign: "key-round", title: say`No keys yet`, text, actions });
}

function ofSettings() {
  const all = seen.settings.map(
    (each) => html`<li class="soft"><code>${each.name}</code> ${scopesOf(each.scopes)}</li>`,
  );
  return html`<h2>${say`From the settings`}</h2><ul role="list">${all}</ul>
    <p class="soft small">${say`These keys can be changed only in the server's settings.`}</p>`;
}

/** @param {Api["NewKeyView"]} made */
function secret(made) {
  const clicked = () => copy(made.key, say`Key copied.`);
  return html`<div class="warning" id="made" tabindex="-1" role="status">
    <p>${say`The key ${made.name} was created. Copy it now: it is not shown again.`}</p>
    <p class="bar-line"><code class="grow name" dir="ltr">${made.key}</code>
      <button @click=${clicked}>${say`Copy`}</button></p></div>`;
}

/**
 * Render the fields of limits.
 * @param {(facts: import("../kit/field.js").Field) => unknown} field @param {Api["KeyView"]["limits"]} [limits]
 */
const limitFields = (field, limits) =>
  LIMITS.map(({ name, label, whole, unit }) =>
    field({
      name: `limits.${name}`,
      label,
      unit,
      type: "number",
      min: whole ? 1 : 0,
      step: whole ? 1 : "any",
      value: limits?.[name] ?? undefined,
      placeholder: say`no limit`,
    }),
  );

const creation = () =>
  addition.view({
    action: say`Create`,
    label: say`Create a key`,
    cancel: () => ((seen.isAdding = false), redraw()),
    body: (field) => html`${field(NAME)} ${field({ name: "days", label: say`Expires`, type: "select", options: DAYS })}
      ${field({ ...PERMISSIONS, options: SCOPES.filter(([scope]) => may(scope)) })}
      ${field(FILTER)} ${limitFields(field)}
      <p class="kit-hint kit-wide">${say`A key with limits cannot manage.`}</p>`,
  });

/** @type {import("../kit/field.js").Field} */
const NAME = {
  name: "name",
  label: say`Name`,
  required: true,
  longest: 63,
  placeholder: "website",
  pattern: "[A-Za-z0-9][A-Za-z0-9._@\\-]*",
  mismatch: say`Letters, digits and . _ @ - only.`,
};
/** @type {import("../kit/field.js").Field} */
const PERMISSIONS = { name: "scopes", label: say`Permissions`, type: "checks", wide: true, value: ["ask"] };
/** @type {import("../kit/field.js").Field} */
const FILTER = {
  name: "filter",
  label: say`Only documents with`,
  hint: say`A field of their metadata and its value. Such a key can only ask and give feedback. Empty: all documents`,
  wide: true,
  code: true,
  placeholder: "audience=public",
  pattern: "[^=]+=.+",
  mismatch: say`Write a field and its value: audience=public.`,
};

/** Describe whether a key is valid. @param {Api["KeyView"]} key @param {boolean} hasEnded */
function stateOf(key, hasEnded) {
  if (key.revoked_at) return say`revoked ${ago(key.revoked_at)}`;
  if (hasEnded) return say`expired`;
  return key.expires_at ? say`expires on ${dateOf(key.expires_at)}` : say`does not expire`;
}

/** @param {Api["KeyView"]} key */
function one(key) {
  const hasEnded = key.revoked_at !== null || (key.expires_at !== null && Date.parse(key.expires_at) <= Date.now());
  const canBeLimited = !hasEnded && !key.scopes.includes("manage");
  const state = html`<span class=${hasEnded ? "bad" : nothing}>${stateOf(key, hasEnded)}</span>`;
  const used = key.last_used_at ? say`last used ${ago(key.last_used_at)}` : say`not used yet`;
  return card({
    label: key.name,
    title: html`${key.name} ${key.prefix ? html`<code class="soft">${key.prefix}\u2026</code>` : nothing}`,
    facts: html`${scopesOf(key.scopes)} \u00b7 ${state} \u00b7 ${used}`,
    actions: hasEnded ? nothing : actions(key, canBeLimited),
    body: html`${facts(key)}${canBeLimited && seen.changed === key.id ? changing(key) : nothing}`,
  });
}

/** @param {Api["KeyView"]} key @param {boolean} canBeLimited */
const actions = (key, canBeLimited) =>
  menu({
    id: `key-${key.id}`,
    label: say`Actions of ${key.name}`,
    items: [
      canBeLimited && { words: say`Change limits`, run: () => show(change, () => (seen.changed = key.id)) },
      { words: say`Revoke`, run: () => revoke(key), danger: true },
    ],
  });

/** Render the filter and the limits. @param {Api["KeyView"]} key */
function facts({ filter, limits }) {
  const code = html`<code dir="auto">${JSON.stringify(filter)}</code>`;
  const set = LIMITS.flatMap(({ name, words }) => (limits[name] === null ? [] : [words(limits[name] ?? 0)]));
  return html`${filter ? html`<p class="small">${say`Only documents with ${code}`}</p>` : nothing}
    ${set.length ? html`<p class="small number">${set.join(" \u00b7 ")}</p>` : nothing}`;
}

/** @param {Api["KeyView"]} key */
const changing = (key) =>
  change.view({
    action: say`Save`,
    label: say`Limits of ${key.name}`,
    cancel: () => ((seen.changed = null), redraw()),
    body: (field) => limitFields(field, key.limits),
  });
