// The scopes of the key. Actions that need other scopes are hidden.

import { get, onForbidden } from "../api.js";
import { redraw } from "../store.js";

/** @type {{scopes: string[] | null}} null: not loaded yet, or not reported by the server */
const me = { scopes: null };
/** @type {Promise<Api["MeView"] | null> | null} */
let reading = null;

export async function loadPermissions() {
  const mine = (reading = get("/v1/me").catch(() => null));
  const reply = await mine;
  if (mine !== reading) return; // the key has changed
  me.scopes = reply?.scopes ?? null;
  redraw();
}

/** Return the server's limits and prices, or null if unavailable. @returns {Promise<Api["MeView"] | null>} */
export const server = async () => (await reading) ?? (await get("/v1/me").catch(() => null));

/** @param {"read" | "ask" | "feedback" | "write" | "manage"} scope */
export const may = (scope) => me.scopes === null || me.scopes.includes(scope);

// A key may have lost a scope since it was read.
const PAUSE = 10_000; // milliseconds
let again = 0;
onForbidden(() => {
  if (Date.now() < again) return;
  again = Date.now() + PAUSE;
  loadPermissions();
});
