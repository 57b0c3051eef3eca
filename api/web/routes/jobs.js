// Jobs: loads, reindexes and other long work, with their progress, and buttons to pause, resume and cancel them; and the
// batches of loads in the batch lane.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, get, post } from "../api.js";
import { confirmed } from "../kit/dialog.js";
import { bar } from "../parts/bars.js";
import { batches, readBatches } from "../parts/batches.js";
import { ago, count, duration, money, plural } from "../parts/format.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polledList } from "../parts/polling.js";
import { say } from "../parts/words.js";

export const title = say`Jobs`;
export const titled = true;
const KINDS = { load: say`Load`, sync: say`Sync`, reindex: say`Reindex`, build: say`Build`, evaluation: say`Evaluation`, gate: say`Gate`, verification: say`Verification`, erasure: say`Erasure` };
const STATES = { running: say`running`, paused: say`paused`, cancelling: say`being cancelled`, cancelled: say`cancelled`, done: say`done`, done_with_errors: say`done with errors`, failed: say`failed` };
const WAITS = /** @type {Record<string, string>} */ ({ budget: say`waiting for a budget`, provider: say`waiting for the provider` });
const COLOURS = /** @type {Record<string, string>} */ ({ running: "working", cancelling: "degraded", paused: "degraded", done_with_errors: "degraded", failed: "failed" });

const jobs = polledList(
  () => get("/v1/jobs"),
  (cursor) => get(`/v1/jobs?cursor=${cursor}`),
  readBatches,
);
export const { load, unload } = jobs;

/** @param {Api["JobView"]} job @param {"pause" | "resume" | "cancel" | "close"} action */
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
    ${all.length ? html`<ul role="list" class="jobs">${repeat(all, (/** @type {Api["JobView"]} */ each) => each.id, one)}</ul>` : html`<div class="empty"><p class="soft">${say`No jobs yet. Loads with ${html`<code>foreask ingest</code>`}, syncs of sources, reindexes, builds and evaluations are listed here with their progress and cost.`}</p>
      <p class="tools"><a class="button" href=${`${ROOT}/documents`}>${say`Add documents`}</a> <a class="button" href=${`${ROOT}/sources`}>${say`Add a source`}</a></p></div>`}
    ${next ? html`<button @click=${jobs.more}>${say`Show older jobs`}</button>` : nothing}
    ${batches()}
  </section>`;
}

/** Return whether a running job generates no questions now. @param {Api["JobView"]} job */
const waits = (job) => job.state === "running" && job.pause_reason !== null;

/** @param {Api["JobView"]} job */
function one(job) {
  const name = job.collection ? say`${KINDS[job.kind]} of ${job.collection}` : KINDS[job.kind];
  const kind = html`<strong>${KINDS[job.kind]}</strong>`;
  const failed = (job.documents.failed ?? 0) + (job.documents.degraded ?? 0);
  return html`<li class="card" aria-label=${name}>
    <p class="bar-line"><span class="grow">${job.collection ? say`${kind} of ${html`<a dir="auto" href=${`${ROOT}/collections/${encodeURIComponent(job.collection)}`}>${job.collection}</a>`}` : kind}
        <span class="soft small">${waits(job) ? WAITS[job.pause_reason ?? ""] : STATES[job.state]} \u00b7 ${say`started ${ago(job.created_at)}`}${job.ended_at ? ` \u00b7 ${say`ended ${ago(job.ended_at)}`}` : ""}</span></span>
      ${buttons(job, name)}</p>
    ${bar(job.total ? job.done / job.total : 0, waits(job) ? "degraded" : COLOURS[job.state] ?? "ready")}
    <p class="soft small number">${facts(job)}${failed ? html` \u00b7 <span class="bad">${say`${count(failed)} with errors`}</span>` : nothing}</p>
    ${job.message ? html`<p class="small">${job.message}</p>` : nothing}
    ${job.error ? html`<p class="bad small" dir="auto">${job.error}</p>` : nothing}</li>`;
}

/** @param {Api["JobView"]} job */
function facts(job) {
  const total = job.kind === "evaluation" ? plural(job.total, "query", "queries") : plural(job.total, "document");
  const parts = [say`${count(job.done)} of ${total}`];
  if (job.points !== null) parts.push(say`${plural(job.points, "point")} compared`);
  if (job.eta_seconds) parts.push(say`about ${duration(job.eta_seconds)} left`);
  if (job.cost !== null) parts.push(money(job.cost));
  return parts.join(" \u00b7 ");
}

/** Render the actions that the key may do. @param {Api["JobView"]} job @param {string} name */
function buttons(job, name) {
  const isOwn = job.kind === "load" || job.kind === "sync" ? may("write") : job.kind === "reindex" && may("manage");
  if (!isOwn || (job.state !== "running" && job.state !== "paused")) return nothing;
  /** @param {"pause" | "resume" | "close"} action @param {string} words */
  const button = (action, words) => html`<button aria-label=${`${words}: ${name}`} @click=${() => act(job, action)}>${words}</button>`;
  const cancel = async () => {
    const isSure = await confirmed({
      title: say`Cancel this job?`, text: say`Its queued documents are discarded.`, action: say`Cancel the job`, danger: true,
    });
    if (isSure) await act(job, "cancel");
  };
  return html`${job.kind === "load" && !job.closed ? button("close", say`Close`) : nothing}
    ${job.state === "running" ? button("pause", say`Pause`) : button("resume", say`Resume`)}
    <button class="quiet" aria-label=${say`Cancel: ${name}`} @click=${cancel}>${say`Cancel`}</button>`;
}
