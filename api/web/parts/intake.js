// Files that somebody chose or dropped, until the server has them.

import { html } from "../vendor/lit-html.js";
import { server } from "./me.js";
import { isSmall, offer, offering } from "./price.js";
import { send, uploads } from "./uploads.js";

/** @typedef {{entries: DroppedEntry[], files: File[]}} Given entries where the browser knows them: only they tell the files of a folder and their paths */

/**
 * Send files to a collection, where models have a price or `ask` says so only when somebody has seen what they cost.
 * @param {Given} given @param {string} collection @param {boolean} ask @param {() => void} taken is called when a file was taken
 */
export async function take(given, collection, ask, taken) {
  const files = given.entries.length ? (await Promise.all(given.entries.map(filesOf))).flat() : given.files.map(named);
  if (!files.length) return;
  const me = await server();
  const priced = Boolean(me?.prices || me?.embeddings?.some((each) => each.price));
  const offered = Boolean(me?.estimates) && (ask || (priced && !isSmall(files)));
  offer(files, collection, offered, (chosen) => send(chosen, { collection }, me?.limits.upload_bytes ?? 0, taken));
}

/** A file and its path in the folder that was chosen with it: files of the same name in two folders are two documents. @param {File} file */
const named = (file) => ({ file, path: file.webkitRelativePath || file.name });

/** The files of an entry, those of a folder with their paths. @param {DroppedEntry} entry @returns {Promise<import("./price.js").Chosen[]>} */
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

/** What waits for a look at its cost, and what is on its way. */
export const taking = () => html`${offering()} ${uploads()}`;
