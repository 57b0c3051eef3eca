// The person who is signed in. Their token is stored like a key that is not remembered: until the tab is closed.

import { session } from "./store.js";

export const PERSON = "foreask.person";
/**
 * `id` stays the same when the token is renewed; `until`: its expiry in milliseconds since 1970; `refresh`: null if
 * it cannot be renewed.
 * @typedef {{id: string, name: string, token: string, until: number, refresh: string | null}} Person
 */

/** Return the person; null without a sign-in. @returns {Person | null} */
export function person() {
  try {
    return JSON.parse(session.getItem(PERSON) ?? "null");
  } catch {
    return null; // written by other software
  }
}

export const forgetPerson = () => session.removeItem(PERSON);
