// The progress of a job in words and as a share: on Jobs, and below the uploads of this page.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { count, duration, money, plural } from "./format.js";
import { say } from "./words.js";

/** @typedef {Api["JobView"]} Job */

/** The states of a job that has not ended. */
export const OPEN = ["running", "paused", "cancelling"];
const WITH_DOCUMENTS = ["load", "sync", "reindex"]; // only their documents know their job

/** @param {Job} job */
export const hasOwnDocuments = ({ kind }) => WITH_DOCUMENTS.includes(kind);

/** Return the finished share of a job, in chunks if they are known: documents differ in their size. @param {Job} job */
export function shareOf({ chunks_done: chunks, chunks_total: most, done, total }) {
  if (chunks !== null && most) return chunks / most;
  return total ? done / total : 0;
}

/** @param {Job} job */
export function doneOf({ kind, done, total }) {
  const all = kind === "evaluation" ? plural(total, "query", "queries") : plural(total, "document");
  return say`${count(done)} of ${all}`;
}

/** Return the other known numbers of a job: its chunks, its time left and its cost. @param {Job} job */
export function numbersOf(job) {
  const parts = [];
  if (job.chunks_total) parts.push(say`${count(job.chunks_done ?? 0)} of ${plural(job.chunks_total, "chunk")}`);
  if (job.points !== null) parts.push(say`${plural(job.points, "point")} compared`);
  if (job.eta_seconds) parts.push(say`about ${duration(job.eta_seconds)} left`);
  if (job.cost) parts.push(money(job.cost));
  return parts;
}

/**
 * Return the address of the list of a job's documents.
 * @param {Job} job @param {Record<string, string>} [more] parameters of the list
 */
export const documentsOf = (job, more = {}) =>
  `${ROOT}/documents?${new URLSearchParams({ collection: job.collection ?? "", job: job.id, ...more })}`;

/** Link to the documents of a job that failed or are incomplete. @param {Job} job */
export function errorsOf(job) {
  const many = (job.documents.failed ?? 0) + (job.documents.degraded ?? 0);
  if (!many) return nothing;
  const words = say`${count(many)} with errors`;
  const address = documentsOf(job, { errors: "true" });
  return html` \u00b7 ${hasOwnDocuments(job)
    ? html`<a class="bad" href=${address}>${words}</a>` : html`<span class="bad">${words}</span>`}`;
}
