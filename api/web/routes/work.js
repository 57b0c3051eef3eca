// Work: queues, progress, failures with their reasons, and costs.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, post } from "../api.js";
import { bar } from "../parts/bars.js";
import { callsInFlight, costs, readCosts, readThroughput, sample, throughput } from "../parts/charts.js";
import { count, plural, duration, money } from "../parts/format.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polling } from "../parts/polling.js";
import { loadWebhooks, webhooks } from "../parts/webhooks.js";

export const title = "Work";
export const titled = true;
const STAGES = [["parse", "Parsing"], ["read", "Reading pages"], ["generate", "Generating questions"], ["index", "Indexing"]];

const SPOKEN = 5000; // minimum milliseconds between two announcements to screen readers

/** @type {{status: Api["StatusView"] | null, reasons: Api["DeadReasonView"][], problem: any, cause: string, spoken: string}} */
const work = { status: null, reasons: [], problem: null, cause: "", spoken: "" };
let spokenAt = -SPOKEN;
let polls = 0;

const { poll, stop } = polling(work, read);
export const unload = stop;

export async function load() {
  stop();
  if (may("manage")) loadWebhooks();
  await poll();
}

async function read() {
  /** @type {Api["StatusView"]} */
  const status = await get("/v1/status");
  work.status = status;
  sample(status.limits, status.stages);
  if (polls++ % 5 === 0) {
    [{ items: work.reasons }] = await Promise.all([get("/v1/dead/reasons"), readThroughput(), readCosts()]);
  }
  speak(status.pace);
}

/** Announce the sentence only when the cause changes, because its numbers change with every poll. @param {Api["PaceView"]} pace */
function speak(pace) {
  if (pace.cause === work.cause || performance.now() - spokenAt < SPOKEN) return;
  work.cause = pace.cause;
  work.spoken = pace.sentence;
  spokenAt = performance.now();
}

/** @param {"retry" | "discard"} how @param {string} reason */
async function resolve(how, reason) {
  try {
    const { documents, pages, chunks, in_work: left } = await post(`/v1/dead/${how}`, { reason });
    const rest = left ? ` ${plural(left, "chunk")} of documents in progress were skipped.` : "";
    notify(`${plural(documents + pages + chunks, "failure")} ${how === "retry" ? "queued for retry" : "discarded"}.${rest}`);
    polls = 0;
    await poll();
  } catch (problem) {
    notify(problem.message);
  }
}

export function view() {
  const { status, problem } = work;
  if (!status) return html`<section class="column">${problemCard(problem, load)}</section>`;
  const open = Object.values(status.stages).some((stage) => stage.due + stage.in_flight + stage.later);
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${Object.values(status.documents).some(Boolean) ? nothing : html`<p class="soft">No documents yet. <a href=${`${ROOT}/documents`}>Add documents</a></p>`}
    ${open || status.pace ? nothing : html`<p>No work is waiting.</p>`}
    ${open && !status.pace ? html`<p class="soft">${plural(Math.round(status.chunks_per_minute), "chunk")} per minute${status.eta_seconds ? ` \u00b7 about ${duration(status.eta_seconds)} left` : ""}</p>` : nothing}
    ${status.pace ? html`<p class="pace">${status.pace.sentence}</p><p class="hidden" role="status">${work.spoken}</p>` : nothing}
    <div class="cards">${STAGES.filter(([name]) => name !== "read" || reads(status)).map(([name, words]) => stage(words, status.stages[name]))}</div>
    <div class="charts">${throughput()}${callsInFlight()}</div>
    <h2>Limits</h2>
    ${limits(status.limits)}
    ${status.budgets.length ? html`<h2>Budgets</h2>${budgets(status.budgets)}` : nothing}
    <h2>Failed</h2>
    ${failures()}
    <h2>Usage</h2>
    ${costs()}
    ${usage(status.usage)}
    ${may("manage") ? webhooks() : nothing}
  </section>`;
}

/** Whether pages are or could be read: without OCR there is no such worker. @param {Api["StatusView"]} status */
const reads = ({ stages: { read }, pace }) => Boolean(pace?.workers.read || read.due + read.in_flight + read.later);

/** @param {string} words @param {Api["StageView"]} each */
function stage(words, each) {
  return html`<div class="card"><h3>${words}</h3>
    <dl><div><dt>running</dt><dd>${count(each.in_flight)}</dd></div><div><dt>due</dt><dd>${count(each.due)}</dd></div>
      <div><dt>later</dt><dd>${count(each.later)}</dd></div></dl>
    <p class="soft small">${each.oldest_seconds === null ? "queue is empty" : `oldest waiting ${duration(each.oldest_seconds)}`}</p></div>`;
}

/** @param {Api["LimitView"][] | null} all */
function limits(all) {
  if (!all) return html`<p class="soft">Unknown: the broker is unavailable.</p>`;
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Limits"><table><thead><tr><th>limit</th><th class="number">used</th><th></th><th class="number">in flight</th><th>provider</th></tr></thead>
    <tbody>${all.map((each) => html`<tr><th scope="row">${each.name}</th>
      <td class="number">${each.per_minute ? `${count(each.used)} of ${count(each.per_minute)} per minute` : `${count(each.used)} in the last minute`}</td>
      <td>${each.per_minute ? bar(each.used / each.per_minute, each.used > each.per_minute * 0.9 ? "degraded" : "working") : nothing}</td>
      <td class="number">${count(each.in_flight)}${each.in_flight_limit ? ` of ${count(each.in_flight_limit)}` : ""}</td>
      <td>${each.breaker === "closed" ? (each.cooldown_seconds ? `rate-limited for ${duration(each.cooldown_seconds)}` : each.flex_pause_seconds ? `no flex capacity for ${duration(each.flex_pause_seconds)}` : "available") : html`<span class="bad">paused after failures</span>`}</td></tr>`)}</tbody></table></div>`;
}

/** @param {Api["BudgetView"][]} all */
function budgets(all) {
  /** @param {Api["BudgetView"]} budget @param {number} value */
  const amount = (budget, value) => (budget.unit === "tokens" ? count(value) : money(value));
  const periods = { day: "a day", month: "a month", total: "in total" };
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Budgets"><table><thead><tr><th>budget</th><th class="number">spent</th><th></th><th class="number">reserved</th><th class="number">limit</th><th>state</th></tr></thead>
    <tbody>${all.map((each) => html`<tr><th scope="row" dir="auto">${each.collection ?? (each.job_id ? `job ${each.job_id}` : "everything")}</th>
      <td class="number">${amount(each, each.spent)}</td>
      <td>${bar((each.spent + each.reserved) / each.limit, each.exhausted ? "degraded" : "working")}</td>
      <td class="number">${amount(each, each.reserved)}</td>
      <td class="number">${amount(each, each.limit)}${each.unit === "tokens" ? " tokens" : ""} ${periods[each.period]}</td>
      <td>${each.exhausted ? html`<span class="bad">used up</span>` : "available"}</td></tr>`)}</tbody></table></div>`;
}

function failures() {
  if (!work.reasons.length) return html`<p class="soft">No failures.</p>`;
  return html`<ul class="reasons" role="list">${work.reasons.map((each) => {
    const many = each.documents + each.pages + each.chunks;
    return html`<li class="bar-line"><span class="number">${count(many)}</span><span class="grow" dir="auto">${each.reason}</span>
      ${may("write") ? html`<button @click=${() => resolve("retry", each.reason)}>Try again</button>
        <button class="quiet" @click=${() => confirm(`Discard ${plural(many, "failure")}?`) && resolve("discard", each.reason)}>Discard</button>` : nothing}</li>`;
  })}</ul>`;
}

/** @param {Api["StatusView"]["usage"]} all */
function usage(all) {
  if (!all.length) return html`<p class="soft">No usage yet.</p>`;
  const words = { generate: "questions", embed: "embedding" };
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Usage"><table><thead><tr><th>collection</th><th>purpose</th><th>model</th><th>tier</th><th class="number">calls</th><th class="number">tokens</th><th class="number">cached</th><th class="number">cost</th></tr></thead>
    <tbody>${all.map((each) => html`<tr><th scope="row" dir="auto">${each.collection ? html`<a href=${`${ROOT}/collections/${encodeURIComponent(each.collection)}`}>${each.collection}</a>` : "deleted"}</th><td>${words[each.kind]}</td><td>${each.model}</td><td>${each.tier}</td>
      <td class="number">${count(each.calls)}</td><td class="number">${count(each.prompt_tokens + each.completion_tokens)}</td>
      <td class="number">${each.cached_tokens ? `${Math.round((100 * each.cached_tokens) / each.prompt_tokens)} %` : ""}</td>
      <td class="number">${each.cost === null ? html`<span class="soft">price not set</span>` : money(each.cost)}</td></tr>`)}</tbody></table></div>`;
}
