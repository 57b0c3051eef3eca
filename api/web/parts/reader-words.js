// The readers of documents in words: every person, groups and users.

import { count } from "./format.js";
import { say } from "./words.js";

export const LONGEST = 256; // characters of a name
const SHOWN = 4; // readers of a document
/** @type {Record<string, string>} */
const OTHERS = { everyone: say`every person`, nobody: say`no person`, unset: say`not set` };
/** @type {Record<string, string>} by the server's default */
const UNSET = { everyone: say`not set (every person reads it)`, nobody: say`not set (no person reads it)` };

/**
 * Return a reader in words.
 * @param {string} reader `everyone`, `group:NAME` or `user:NAME`; `unset` and `nobody` for documents without readers
 */
export function readerWords(reader) {
  if (reader.startsWith("group:")) return say`group ${reader.slice("group:".length)}`;
  if (reader.startsWith("user:")) return say`user ${reader.slice("user:".length)}`;
  return OTHERS[reader] ?? reader;
}

/** Return the words of a document that names no readers. @param {string | undefined} byDefault who reads it */
export const unsetWords = (byDefault = "") => UNSET[byDefault] ?? OTHERS.unset;

/**
 * Return the readers of a document in words.
 * @param {readonly string[] | null} readers null: it names none @param {string} [byDefault] who reads it then
 */
export function readersWords(readers, byDefault) {
  if (readers === null) return unsetWords(byDefault);
  if (!readers.length) return OTHERS.nobody;
  if (readers.includes("everyone")) return OTHERS.everyone;
  const shown = readers.slice(0, SHOWN).map(readerWords).join(", ");
  const more = readers.length - SHOWN;
  return more > 0 ? say`${shown} and ${count(more)} more` : shown;
}

/** Return the names in the lines of a field, each once. @param {string | null} text */
export const namesIn = (text) => [...new Set((text ?? "").split("\n").map((line) => line.trim()).filter(Boolean))];
