// Jobs: loads, reindexes and other long work, with their progress, and buttons to pause, resume and cancel them; and
// the batches of loads in the batch lane.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, get, post } from "../api.js";
import { card } from "../kit/card.js";
import { confirmed } from "../kit/dialog.js";
import { empty } from "../kit/empty.js";
import { bar } from "../parts/bars.js";
import { batches, readBatches } from "../parts/batches.js";
import { ago } from "../parts/format.js";
import { OPEN, documentsOf, doneOf, errorsOf, hasOwnDocuments, numbersOf, shareOf } from "../parts/job-facts.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polledList } from "../parts/polling.js";
import { say } from "../parts/words.js";

/** @typedef {Api["JobView"]} Job */

export const title = say`Jobs`;
export const titled = true;
const KINDS = {
  load: say`Load`, sync: say`Sync`, reindex: say`Reindex`, build: say`Build`, evaluation: say`Evaluation`,
  gate: say`Gate`, verification: say`Verification`, erasure: say`Erasure`,
};
const STATES = {
  running: say`running`, paused: say`paused`, cancelling: say`being cancelled`, cancelled: say`cancelled`,
  done: say`done`, done_with_errors: say`done with errors`, failed: say`failed`,
};
/** Reasons why a job waits that is not paused. @type {Record<string, string>} */
const WAITS = { budget: say`waiting for a budget`, provider: say`waiting for the provider` };
/** @type {Record<string, string>} */
const PAUSES = {
  user: say`Paused by a user.`, budget: say`Its budget is used up: no questions are generated.`,
  provider: say`The provider fails or pauses: no questions are generated.`,
  disk: say`Paused: the disk is nearly full.`, approval: say`Paused: deletions of its source need approval.`,
};
/** @type {Record<string, string>} */
const COLOURS = { running: "working", cancelling: "degraded", paused: "degraded" };

const jobs = polledList(
  () => get("/v1/jobs"),
  (cursor) => get(`/v1/jobs?cursor=${cursor}`),
  readBatches,
);
export const { load, unload } = jobs;

/** @param {Job} job @param {"pause" | "resume" | "cancel" | "close"} action */
async function act(job, action) {
  try {
    await post(`/v1/jobs/${job.id}/${action}`);
    await jobs.poll();
  } catch (problem) {
    notify(problem.message);
  }
}

export function view() {
  const { items, next, problem } = jobs.state;
  if (!items) return html`<section class="column">${problemCard(problem, load)}</section>`;
  const all = jobs.all((each) => each.id);
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${all.length ? html`<ul role="list" class="kit-cards">${repeat(all, idOf, one)}</ul>` : none()}
    ${next ? html`<button @click=${jobs.more}>${say`Show older jobs`}</button>` : nothing}
    ${batches()}
  </section>`;
}

/** @param {Job} job */
const idOf = ({ id }) => id;

const none = () => empty({
  title: say`No jobs yet`,
  text: say`Uploads, syncs of sources, reindexes, builds and evaluations are listed here with their progress and cost.`,
  actions: html`<a class="button" href=${`${ROOT}/documents`}>${say`Add documents`}</a>
    <a class="button" href=${`${ROOT}/sources`}>${say`Add a source`}</a>`,
});

/** Return whether a running job generates no questions now. @param {Job} job */
const waits = (job) => job.state === "running" && job.pause_reason !== null;

/** @param {Job} job */
function one(job) {
  const name = job.collection ? say`${KINDS[job.kind]} of ${job.collection}` : KINDS[job.kind];
  const message = messageOf(job);
  return card({
    label: name, title: titleOf(job), actions: buttons(job, name),
    facts: [
      waits(job) ? WAITS[job.pause_reason ?? ""] : STATES[job.state], say`started ${ago(job.created_at)}`,
      ...(job.ended_at ? [say`ended ${ago(job.ended_at)}`] : []),
    ].join(" \u00b7 "),
    body: html`${OPEN.includes(job.state) ? bar(shareOf(job), waits(job) ? "degraded" : COLOURS[job.state]) : nothing}
      <p class="soft small number">${facts(job)}${errorsOf(job)}</p>
      ${message ? html`<p class="small">${message}</p>` : nothing}
      ${job.error ? html`<p class="bad small" dir="auto">${job.error}</p>` : nothing}`,
  });
}

/** @param {Job} job */
function titleOf({ id, kind, collection }) {
  if (kind === "erasure" && may("manage")) {
    const words = collection ? say`${KINDS[kind]} of ${collection}` : KINDS[kind];
    return html`<a dir="auto" href=${`${ROOT}/erase/${id}`}>${words}</a>`;
  }
  if (!collection) return KINDS[kind];
  const address = `${ROOT}/collections/${encodeURIComponent(collection)}`;
  return say`${KINDS[kind]} of ${html`<a dir="auto" href=${address}>${collection}</a>`}`;
}

/** @param {Job} job */
function facts(job) {
  const hasDocuments = hasOwnDocuments(job) && Object.keys(job.documents).length;
  const parts = [hasDocuments ? html`<a href=${documentsOf(job)}>${doneOf(job)}</a>` : doneOf(job), ...numbersOf(job)];
  return parts.map((part, index) => html`${index ? " \u00b7 " : ""}${part}`);
}

/** Return the reason why a job waits; null without one. @param {Job} job */
function messageOf(job) {
  if (job.pause_reason) return PAUSES[job.pause_reason];
  const known = Object.values(job.documents).reduce((sum, each) => sum + each, 0);
  if (job.kind !== "load" || job.state !== "running" || job.closed || job.done !== known) return null;
  const finished = known ? say`The uploaded documents are finished.` : say`No document has been uploaded.`;
  return `${finished} ${say`The job ends when no more documents follow: its client closes it, or you do.`}`;
}

/** Render the actions that the key may do. @param {Job} job @param {string} name */
function buttons(job, name) {
  const isOwn = job.kind === "load" || job.kind === "sync" ? may("write") : job.kind === "reindex" && may("manage");
  if (!isOwn || (job.state !== "running" && job.state !== "paused")) return nothing;
  /** @param {"pause" | "resume" | "close"} action @param {string} words */
  const button = (action, words) => html`<button aria-label=${`${words}: ${name}`}
    @click=${() => act(job, action)}>${words}</button>`;
  const cancel = async () => {
    const isSure = await confirmed({
      title: say`Cancel this job?`, text: say`Its queued documents are discarded.`, action: say`Cancel the job`,
      danger: true,
    });
    if (isSure) await act(job, "cancel");
  };
  return html`${job.kind === "load" && !job.closed ? button("close", say`Close`) : nothing}
    ${job.state === "running" ? button("pause", say`Pause`) : button("resume", say`Resume`)}
    <button class="quiet" aria-label=${say`Cancel: ${name}`} @click=${cancel}>${say`Cancel`}</button>`;
}
