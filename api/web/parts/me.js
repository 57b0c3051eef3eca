// What the server is and what the key may do: what it may not is not offered.

import { get, whenRefused } from "../api.js";
import { changed } from "../store.js";

/** @type {{may: string[] | null}} null: not known yet, or the server does not say */
const me = { may: null };
/** @type {Promise<Api["MeView"] | null> | null} */
let reading = null;

export async function loadMe() {
  const mine = (reading = get("/v1/me").catch(() => null));
  const reply = await mine;
  if (mine !== reading) return; // another key was given meanwhile
  me.may = reply?.may ?? null;
  changed();
}

/** What the server takes and what it asks for it; null: it does not say. @returns {Promise<Api["MeView"] | null>} */
export const server = async () => (await reading) ?? (await get("/v1/me").catch(() => null));

/** @param {"read" | "ask" | "write" | "manage"} scope */
export const may = (scope) => me.may === null || me.may.includes(scope);

// A key may have lost a scope since it was read.
const PAUSE = 10_000; // milliseconds
let again = 0;
whenRefused(() => {
  if (Date.now() < again) return;
  again = Date.now() + PAUSE;
  loadMe();
});
