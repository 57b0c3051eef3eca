// The key: its name, its tenant, and its scopes. Actions that need other scopes are hidden.

import { get, onForbidden, viewed } from "../api.js";
import { redraw } from "../store.js";

/**
 * `all` is the scope `read` without a person: such a key also reads lists and numbers of all documents.
 * `tune` is the scope `ask` without a person, to whom the server returns no candidates of a search.
 * @typedef {"read" | "all" | "tune" | "ask" | "feedback" | "write" | "manage" | "delegate" | "operator"} Scope
 */

/** Scopes of a tab that views as a person. It gives no feedback, which would be the person's. @type {Scope[]} */
const OF_VIEW = ["read", "ask"];

/**
 * The key; null: not loaded yet, or not reported by the server.
 * @type {{scopes: string[] | null, tenant: string | null, key: string | null, isFiltered: boolean, isPerson: boolean}}
 */
const me = { scopes: null, tenant: null, key: null, isFiltered: false, isPerson: false };
/** @type {Promise<Api["MeView"] | null> | null} */
let reading = null;
let known = () => {};

/** @param {() => void} handler called when the scopes of a key were read */
export function onKnown(handler) {
  known = handler;
}

export async function loadPermissions() {
  const mine = (reading = get("/v1/me").catch(() => null));
  const reply = await mine;
  if (mine !== reading) return; // the key has changed
  const { scopes = null, tenant = null, key = null } = reply ?? {};
  Object.assign(me, { scopes, tenant, key, isFiltered: Boolean(reply?.filter), isPerson: Boolean(reply?.person) });
  known();
  redraw();
}

/** Return the tenant and the name of the key, without keys null. An operator's key has no tenant. */
export const identity = () => (me.key === null ? null : { tenant: me.tenant, key: me.key });

/** Return the server's limits and prices, or null if unavailable. @returns {Promise<Api["MeView"] | null>} */
export const server = async () => (await reading) ?? (await get("/v1/me").catch(() => null));

/**
 * Return whether the key has a scope. Before the scopes are known, all scopes of a tenant are assumed. Without keys,
 * the user is the operator, but has one tenant only, whose screens show all of it.
 * @param {Scope} scope
 * @returns {boolean}
 */
export function may(scope) {
  if (viewed && !OF_VIEW.includes(scope)) return false;
  if (scope === "all") return may("read") && !me.isPerson;
  if (scope === "tune") return may("ask") && !me.isPerson;
  if (scope === "operator") return Boolean(me.key !== null && me.scopes?.includes(scope));
  return me.scopes === null || me.scopes.includes(scope);
}

/** Whether the key may open originals: with the scope `ask` alone, unless a filter restricts its questions. */
export const mayOpenOriginals = () => may("read") || (may("ask") && !me.isFiltered);

/** Return whether the key reads all documents, once the server has reported its scopes. */
export async function readsAll() {
  const reply = await reading; // `me` has it a moment later
  return reply?.scopes ? reply.scopes.includes("read") && !reply.person : !viewed;
}

// A key may have lost a scope since it was read.
const PAUSE = 10_000; // milliseconds
let again = 0;
onForbidden(() => {
  if (Date.now() < again) return;
  again = Date.now() + PAUSE;
  loadPermissions();
});
