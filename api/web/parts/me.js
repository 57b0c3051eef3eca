// What the key may do: what it may not is not offered.

import { get } from "../api.js";
import { changed } from "../store.js";

/** @type {{may: string[] | null}} null: not known yet, or the server does not say */
const me = { may: null };

export async function loadMe() {
  me.may = await get("/v1/me").then((reply) => reply.may, () => null);
  changed();
}

/** @param {"read" | "ask" | "write" | "manage"} scope */
export const may = (scope) => me.may === null || me.may.includes(scope);
