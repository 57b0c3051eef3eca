// The search for a person's data: the documents and users' records in which texts occur, and their numbers.

import { post } from "../api.js";
import { plural } from "./format.js";
import { say } from "./words.js";

/** @typedef {Api["FoundDocumentView"]} Found */
/** @typedef {{examined: number, documents: Found[], records: Record<string, number>}} Result */

export const MOST_TEXTS = 10;
export const MOST_DOCUMENTS = 1000; // of an erasure
const LONGEST = 100; // characters of a text
/** Numbers of queries that are counted as such. */
const WITHIN_QUERIES = ["queries_in_gaps", "feedback"];

/** The parts of a document in which a text occurs. @type {Record<string, string>} */
export const PARTS = {
  text: say`text`,
  title: say`title`,
  filename: say`file name`,
  external_id: say`external id`,
  metadata: say`metadata`,
  questions: say`submitted questions`,
};

/** The rows that an erasure deletes, with their numbers. @type {Record<string, (number: number) => string>} */
const KINDS = {
  documents: (number) => plural(number, "document"),
  versions: (number) => plural(number, "version"),
  chunks: (number) => plural(number, "chunk"),
  questions: (number) => plural(number, "question"),
  queries: (number) => plural(number, "logged question"),
  accepted_questions: (number) => plural(number, "accepted question"),
  resolutions: (number) => plural(number, "resolution of a gap", "resolutions of gaps"),
  shared_answers: (number) => plural(number, "shared answer"),
  conversations: (number) => plural(number, "stored conversation"),
  completions: (number) => plural(number, "paid reply", "paid replies"),
};

/** Return the texts in the lines of a field, each once. @param {string | null} lines */
export const textsOf = (lines) => [...new Set((lines ?? "").split("\n").map((line) => line.trim()).filter(Boolean))];

/** Return the reason why texts cannot be searched; an empty string if they can. @param {string[]} texts */
export function wrongTexts(texts) {
  if (!texts.length) return say`Enter at least one text.`;
  if (texts.length > MOST_TEXTS) return say`Enter at most ${MOST_TEXTS} texts.`;
  const length = (/** @type {string} */ text) => [...text].length;
  if (texts.some((text) => length(text) < 2)) return say`Each text needs at least two characters.`;
  return texts.some((text) => length(text) > LONGEST) ? say`A text may have ${LONGEST} characters.` : "";
}

/**
 * Search all pages, and pass on the sums so far after each. The search ends when `goesOn` returns false.
 *
 * @param {string[]} texts @param {string} collection an empty string: all
 * @param {(result: Result) => boolean} goesOn
 */
export async function searchPerson(texts, collection, goesOn) {
  /** @type {Result} */
  let result = { examined: 0, documents: [], records: {} };
  /** @type {string | null} */
  let cursor = null;
  do {
    const body = { texts, collection: collection || null, document_ids: [], cursor };
    /** @type {Api["ErasurePreviewView"]} */
    const page = await post("/v1/erasure-previews", body);
    result = {
      examined: result.examined + page.examined,
      documents: [...result.documents, ...page.documents],
      records: sums([result.records, page.records]),
    };
    cursor = page.next_cursor;
  } while (goesOn(result) && cursor);
  return result;
}

/** Add up numbers by their names. @param {Record<string, number>[]} all */
export function sums(all) {
  /** @type {Record<string, number>} */
  const total = {};
  for (const each of all) for (const [name, value] of Object.entries(each)) total[name] = (total[name] ?? 0) + value;
  return total;
}

/** Return the words of numbers that are not zero, in the order of the kinds. @param {Record<string, number>} numbers */
export const wordsOf = (numbers) =>
  Object.entries(KINDS).flatMap(([kind, words]) => (numbers[kind] ? [words(numbers[kind])] : []));

/** Return the number of users' records. @param {Record<string, number>} records */
export const recordsOf = (records) =>
  Object.entries(records).reduce((sum, [kind, number]) => sum + (WITHIN_QUERIES.includes(kind) ? 0 : number), 0);
