// Deletion of documents: they disappear at once. They are deleted when the notice closes or the page is left, unless
// the user chooses Undo.

import { send } from "../api.js";
import { redraw, session } from "../store.js";
import { nameOf, plural } from "./format.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

const TOGETHER = 100; // most ids of a request
const SECONDS = 8;

const STORE = "foreask.deleting"; // ids whose deletion is being sent

/**
 * Ids of the documents that are deleted, or whose deletion can still be undone. A reloaded page may read the list
 * before the deletions of its predecessor.
 * @type {Set<string>}
 */
export const deleting = new Set(JSON.parse(session.getItem(STORE) ?? "[]"));
session.removeItem(STORE);

/** @param {Api["DocumentView"][]} rows */
export function describe(rows) {
  return rows.length === 1 ? say`\u201c${nameOf(rows[0])}\u201d` : plural(rows.length, "document");
}

/** @param {Api["DocumentView"][]} rows @param {() => void} deleted called after the requests */
export function deleteDocuments(rows, deleted) {
  const ids = rows.map((row) => row.id);
  for (const id of ids) deleting.add(id);
  redraw();
  const one = say`${describe(rows)} will be deleted with its questions.`;
  const several = say`${describe(rows)} will be deleted with their questions.`;
  notify(rows.length === 1 ? one : several, {
    undo: () => (show(ids), redraw()),
    then: () => sendDeletions(ids).then(deleted),
    seconds: SECONDS,
  });
}

/** @param {string[]} ids */
function show(ids) {
  for (const id of ids) deleting.delete(id);
}

/** Send all requests at once, because the page may be closing. @param {string[]} ids */
async function sendDeletions(ids) {
  const number = Math.ceil(ids.length / TOGETHER);
  const groups = Array.from({ length: number }, (_, index) => ids.slice(index * TOGETHER, (index + 1) * TOGETHER));
  const requests = groups.map((group) => {
    const query = new URLSearchParams(group.map((id) => ["id", id]));
    return send("DELETE", `/v1/documents?${query}`, { keepalive: true });
  });
  try {
    session.setItem(STORE, JSON.stringify(ids));
  } catch {
    // The store is full: a page that is loaded at once may list the documents.
  }
  const results = await Promise.allSettled(requests);
  session.removeItem(STORE);
  for (const [index, result] of results.entries()) if (result.status === "rejected") show(groups[index]);
  const failed = results.find((result) => result.status === "rejected");
  if (failed) notify(failed.reason.message);
  redraw();
}
