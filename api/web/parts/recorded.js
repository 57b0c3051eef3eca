// Recorded changes in words: the kinds of objects, the actions, and the fields with their values.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { count, listed, momentOf } from "./format.js";
import { say } from "./words.js";

/** @typedef {Api["AuditEntryView"]} Entry */

/** @type {Record<string, string>} */
const ACTORS = { "command line": say`command line`, local: say`local program`, operator: say`operator` };
/** @type {Record<string, string>} */
const KINDS = {
  key: say`key`, budget: say`budget`, webhook: say`webhook`, collection: say`collection`, build: say`build`,
  source: say`source`, document: say`document`, person: say`person`, gap: say`gap`, tenant: say`tenant`,
};
/**
 * Whole phrases, because each language orders their words differently.
 * @type {Record<string, (kind: string, name: unknown) => unknown>}
 */
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
/**
 * Names of fields; a field of an object, such as `limits.max_tokens`, is found by its last part.
 * @type {Record<string, string>}
 */
const FIELDS = {
  scopes: say`permissions`, filter: say`filter`, expires_at: say`expires`, revoked_at: say`revoked`,
  requests_per_second: say`requests per second`, tokens_per_day: say`tokens per day`,
  cost_per_day: say`cost per day`, max_tokens: say`tokens per reply`,
  url: say`address`, uri: say`address`, events: say`events`, disabled_at: say`disabled`,
  limit: say`limit`, set_by: say`set by`, collection: say`collection`,
  embedding_model: say`embedding`, build_state: say`state`, questions_per_chunk: say`questions per chunk`,
  prompt: say`prompt`, chunk_max_chars: say`longest chunk, in characters`,
  chunk_overlap_chars: say`overlap of chunks, in characters`, section_max_chars: say`longest section, in characters`,
  prepend_questions: say`questions in front of the text`, ocr_languages: say`languages of scans`,
  captions: say`descriptions of pictures`, context: say`context of chunks`, filterable: say`fields for filters`,
  secret_name: say`secret`, schedule: say`schedule`, time_zone: say`time zone`,
  max_delete_share: say`share of deletions without approval`, removed_at: say`removed`,
  removed_with_documents: say`removed with documents`, approved: say`deletions approved`,
  assigned_to: say`assigned to`, resolved_at: say`resolved`,
};
/** @type {Record<string, string>} */
const VALUES = {
  live: say`live`, filling: say`filling`, paused: say`paused`, dropping: say`being deleted`,
  ask: say`ask`, read: say`read`, feedback: say`feedback`, write: say`write`, manage: say`manage`,
  operator: say`operator`, settings: say`settings`, tenant: say`tenant`,
};
const CODED = ["scopes", "build_state", "set_by"]; // fields whose values are codes

/** The screen of an object. @type {Record<string, (name: string) => string>} */
const SCREENS = {
  key: () => "/keys",
  budget: () => "/limits",
  webhook: () => "/work",
  source: () => "/sources",
  gap: (name) => `/gaps?collection=${collectionIn(name)}`,
  collection: (name) => `/collections/${encodeURIComponent(name)}`,
  build: (name) => `/collections/${collectionIn(name)}`,
};

/** Return the collection in the name of a build or a gap, such as `handbook, build 2`. @param {string} name */
const collectionIn = (name) => encodeURIComponent(name.split(", ")[0]);

/** @param {Entry} each */
export function actorOf({ actor }) {
  const name = actor.name ?? ACTORS[actor.kind] ?? actor.kind;
  return actor.kind === "operator" && actor.name ? say`${name} (operator)` : name;
}

/**
 * Describe a change, with a link to its object. A process of another release may have recorded another action.
 * @param {Entry} each
 */
export function described({ action, object, object_name: title }) {
  const kind = KINDS[object] ?? object;
  const isLost = ["erase", "delete", "remove"].includes(action);
  const path = isLost ? undefined : SCREENS[object]?.(title);
  const name = path
    ? html`<a class="name" dir="auto" href=${ROOT + path}>${title}</a>`
    : html`<span class="name" dir="auto">${title}</span>`;
  return ACTIONS[action]?.(kind, name) ?? html`${action} ${kind} ${name}`;
}

/** Describe the changed fields. @param {Entry} each */
export const changes = (each) => Object.entries(each.changes).map(([field, { before, after }]) => html`
  <div dir="auto">${nameOf(field)}:
    ${before === null ? nothing : html`${written(field, before)} \u2192 `}${written(field, after)}</div>`);

/** @param {string} field */
const nameOf = (field) => FIELDS[field] ?? FIELDS[lastOf(field)] ?? field.replaceAll("_", " ");

/** @param {string} field */
const lastOf = (field) => field.slice(field.lastIndexOf(".") + 1);

/** Write a value without brackets and microseconds. @param {string} field @param {unknown} value @returns {string} */
export function written(field, value) {
  if (value === null || value === undefined) return "\u2013";
  if (typeof value === "boolean") return value ? say`yes` : say`no`;
  if (typeof value === "number") return count(value);
  if (Array.isArray(value)) return value.length ? listed(value.map((each) => written(field, each))) : say`none`;
  if (typeof value === "object") {
    return Object.entries(value).map(([name, each]) => `${name}: ${written(name, each)}`).join(", ") || say`none`;
  }
  if (field.endsWith("_at")) return momentOf(String(value));
  return (CODED.includes(field) && VALUES[String(value)]) || String(value);
}
