// Files that were selected or dropped, until they are uploaded.

import { html } from "../vendor/lit-html.js";
import { server } from "./permissions.js";
import { isOffering, isSmall, offer, offering } from "./estimate.js";
import { send, uploads } from "./uploads.js";

/**
 * @typedef {{entries: DroppedEntry[], files: File[]}} Selection
 *   `entries` if the browser provides them: only they give access to the files of a folder
 */

/**
 * Upload files to a collection. If models have a price or `ask` is set, the user confirms the cost first.
 * @param {Selection} given @param {string} collection @param {boolean} ask
 * @param {() => void} uploaded called after each uploaded file
 */
export async function submitFiles(given, collection, ask, uploaded) {
  const files = given.entries.length ? (await Promise.all(given.entries.map(filesOf))).flat() : given.files.map(named);
  if (!files.length) return;
  const me = await server();
  const { prompt, completion } = me?.prices ?? {};
  const priced = Boolean(prompt || completion || me?.embeddings?.some((each) => each.price));
  const offered = Boolean(me?.estimates) && (ask || (priced && !isSmall(files)));
  offer(files, collection, offered, (chosen) => send(chosen, { collection }, me?.limits.upload_bytes ?? 0, uploaded));
}

/**
 * Return a file with its path in the selected folder, because equal names in two folders are two documents.
 * @param {File} file
 */
const named = (file) => ({ file, path: file.webkitRelativePath || file.name });

/**
 * Return the files of an entry. Files of a folder have their paths.
 * @param {DroppedEntry} entry
 * @returns {Promise<import("./estimate.js").Chosen[]>}
 */
async function filesOf(entry) {
  if (entry.isFile) {
    /** @type {File} */
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ file, path: entry.fullPath.slice(1) }];
  }
  const reader = entry.createReader();
  /** @type {DroppedEntry[]} */
  const found = [];
  for (;;) {
    /** @type {DroppedEntry[]} */
    const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!part.length) return (await Promise.all(found.map(filesOf))).flat();
    found.push(...part);
  }
}

/** Render pending cost confirmations and the upload queue. */
export { isOffering };
export const pendingUploads = () => html`${offering()} ${uploads()}`;
