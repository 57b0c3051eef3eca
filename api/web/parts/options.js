// The options of collections and builds, as users read them.

import { count, plural } from "./format.js";
import { say } from "./words.js";

/**
 * @typedef {Api["OptionsInForceView"]} InForce
 * @typedef {Exclude<keyof InForce, "instructions" | "prompt_version">} Option
 */

/** The names of options. @type {Record<Option, string>} */
export const LABELS = {
  questions_per_chunk: say`Questions per chunk`,
  chunk_max_chars: say`Maximum chunk length`,
  chunk_overlap_chars: say`Chunk overlap`,
  section_max_chars: say`Section length`,
  ocr_languages: say`Languages of scans`,
  prepend_questions: say`Put the questions before the text`,
  context: say`Write context and search terms`,
  captions: say`Describe pictures`,
  prompt: say`Prompt`,
};
/** The options that are on or off. */
export const SWITCHES = /** @type {const} */ (["prepend_questions", "context", "captions"]);
/** The options in order of their effect. */
export const ORDER = /** @type {Option[]} */ (Object.keys(LABELS));
const LENGTHS = ["chunk_max_chars", "chunk_overlap_chars", "section_max_chars"];

/** Return the value of an option in words; a prompt as it is. @param {Option} name @param {InForce} inForce */
export function inWords(name, inForce) {
  const value = inForce[name];
  if (value === "auto") return say`auto: 3 to 10, by the length of the chunk`;
  if (name === "questions_per_chunk") return count(Number(value));
  if (typeof value === "boolean") return value ? say`yes` : say`no`;
  if (value !== null) return LENGTHS.includes(name) ? plural(Number(value), "character") : String(value);
  if (name === "section_max_chars") return say`no sections`;
  return say`the installed ones of English, German, French and Spanish`;
}

/** Return the options in which two builds differ. @param {InForce} one @param {InForce} other */
export const differing = (one, other) => ORDER.filter((name) => one[name] !== other[name]);

/**
 * Return the options to change. An empty field and the server's own value are null: the option follows the server's
 * settings.
 * @param {Record<string, any>} values of a form, null for an empty field
 * @param {Record<string, any>} own the collection's options; null: the server decides
 * @param {InForce} inForce @param {InForce} defaults of the server
 */
export function changesOf(values, own, inForce, defaults) {
  /** @type {Record<string, any>} */
  const changes = {};
  for (const name of ORDER) {
    if (!(name in values)) continue;
    const value = typed(name, values[name]);
    if (value === null) {
      if (own[name] !== null) changes[name] = null;
    } else if (value !== written(inForce[name])) changes[name] = value === written(defaults[name]) ? null : value;
  }
  return changes;
}

/** Return the value of an option that a user has entered. @param {Option} name @param {any} entered */
function typed(name, entered) {
  if (entered === null || typeof entered === "boolean" || name === "prompt" || name === "ocr_languages") return entered;
  if (name === "questions_per_chunk" && entered === "auto") return "auto";
  const message = say`\u201c${entered}\u201d is not a whole number. Use digits only.`;
  if (!/^\d+$/.test(entered)) throw Object.assign(new Error(message), { field: name });
  return Number(entered);
}

/** Return a value as a form returns it: without white space around it. @param {unknown} value */
const written = (value) => (typeof value === "string" ? value.trim() : value);
