// Work: queues, progress, failures with their reasons, and costs.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, post } from "../api.js";
import { confirmed } from "../kit/dialog.js";
import { bar } from "../parts/bars.js";
import { callsInFlight, costs, readCosts, readThroughput, sample, throughput } from "../parts/charts.js";
import { ago, count, plural, duration, money } from "../parts/format.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polling } from "../parts/polling.js";
import { loadWebhooks, webhooks } from "../parts/webhooks.js";
import { language, say } from "../parts/words.js";

export const title = say`Work`;
export const titled = true;
const STAGES = [["parse", say`Parsing`], ["read", say`Reading pages`], ["generate", say`Generating questions`], ["index", say`Indexing`]];

const PACES = {
  component_down: say`A component is unavailable.`, idle: say`No work is waiting.`, breaker: say`Calls are paused after failures of the provider.`,
  cooldown: say`Calls to the provider are paused for a while.`, limit: say`A limit is reached.`, budget: say`A budget is used up.`, paused: say`Work is paused.`,
  no_worker: say`No worker runs for some of the work.`, working: say`The work is being done.`,
};
/** Names of limits, as the server writes them with a space. @type {Record<string, string>} */
const LIMITS = {
  llm_requests: say`language model requests`, llm_tokens: say`language model tokens`, embedding_requests: say`embedding requests`, embedding_tokens: say`embedding tokens`,
};
const SPOKEN = 5000; // minimum milliseconds between two announcements to screen readers

/** @type {{status: Api["StatusView"] | null, reasons: Api["DeadReasonView"][], problem: any, cause: string, spoken: string}} */
const work = { status: null, reasons: [], problem: null, cause: "", spoken: "" };
let spokenAt = -SPOKEN;
let polls = 0;

const { start, poll, stop } = polling(work, read);
export const unload = stop;

export async function load() {
  if (may("manage")) loadWebhooks();
  await start();
}

async function read() {
  /** @type {Api["StatusView"]} */
  const status = await get("/v1/status");
  work.status = status;
  sample(status.limits, status.stages);
  if (polls++ % 5 === 0) {
    [{ items: work.reasons }] = await Promise.all([get("/v1/dead-letters/reasons"), readThroughput(), readCosts()]);
  }
  speak(status.pace);
}

/** Announce the sentence only when the cause changes, because its numbers change with every poll. @param {Api["PaceView"]} pace */
function speak(pace) {
  if (pace.cause === work.cause || performance.now() - spokenAt < SPOKEN) return;
  work.cause = pace.cause;
  work.spoken = language === "en" ? pace.message : PACES[pace.cause];
  spokenAt = performance.now();
}

/** @param {"retry" | "discard"} how @param {string} reason */
async function resolve(how, reason) {
  try {
    const { documents, pages, chunks, in_progress: left } = await post(`/v1/dead-letters/${how}`, { reason });
    const rest = left ? say`${plural(left, "chunk")} of documents in progress were skipped.` : "";
    const failed = plural(documents + pages + chunks, "failure");
    notify(`${how === "retry" ? say`${failed} queued for retry.` : say`${failed} discarded.`} ${rest}`.trim());
    polls = 0;
    await poll();
  } catch (problem) {
    notify(problem.message);
  }
}

/** Describe the bottleneck. The server's sentence is English, so other languages have their own in front of it. @param {Api["PaceView"]} pace */
const paceOf = ({ cause, message }) => (language === "en" ? message : html`${PACES[cause]} <span class="soft small" lang="en" dir="ltr">${message}</span>`);

export function view() {
  const { status, problem } = work;
  if (!status) return html`<section class="column">${problemCard(problem, load)}</section>`;
  const open = Object.values(status.stages).some((stage) => stage.due + stage.in_flight + stage.delayed);
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${Object.values(status.documents).some(Boolean) ? nothing : html`<p class="soft">${say`No documents yet.`} <a href=${`${ROOT}/documents`}>${say`Add documents`}</a></p>`}
    ${open || status.pace ? nothing : html`<p>${say`No work is waiting.`}</p>`}
    ${open && !status.pace ? html`<p class="soft">${say`${plural(Math.round(status.chunks_per_minute), "chunk")} per minute`}${status.eta_seconds ? ` \u00b7 ${say`about ${duration(status.eta_seconds)} left`}` : ""}</p>` : nothing}
    ${status.pace ? html`<p class="pace">${paceOf(status.pace)}</p><p class="hidden" role="status">${work.spoken}</p>` : nothing}
    ${(status.damaged ?? []).map(damage)}
    <div class="cards">${STAGES.filter(([name]) => name !== "read" || reads(status)).map(([name, words]) => stage(words, status.stages[name]))}</div>
    <div class="charts">${throughput()}${callsInFlight()}</div>
    <h2>${say`Limits`}</h2>
    ${limits(status.limits)}
    ${status.budgets.length ? html`<h2>${say`Budgets`}</h2>${budgets(status.budgets)}` : nothing}
    <h2>${say`Failed`}</h2>
    ${failures()}
    <h2>${say`Usage`}</h2>
    ${costs()}
    ${usage(status.usage)}
    ${may("manage") ? webhooks() : nothing}
  </section>`;
}

/** @param {Api["DamageView"]} each */
const damage = ({ collection, since, message }) => html`<p class="warning"><b dir="auto">${collection}</b>:
  ${say`The index is being repaired. Progress: ${html`<code>foreask verify --repair --collection ${collection}</code>`}`}
  <span lang="en" dir="ltr">${message}</span> <span class="soft">${ago(since)}</span></p>`;

/** Whether pages are or could be read: without OCR there is no such worker. @param {Api["StatusView"]} status */
const reads = ({ stages: { read }, pace }) => Boolean(pace?.workers.read || read.due + read.in_flight + read.delayed);

/** @param {string} words @param {Api["StageView"]} each */
function stage(words, each) {
  return html`<div class="card"><h2>${words}</h2>
    <dl><div><dt>${say`running`}</dt><dd>${count(each.in_flight)}</dd></div><div><dt>${say`due`}</dt><dd>${count(each.due)}</dd></div>
      <div><dt>${say`delayed`}</dt><dd>${count(each.delayed)}</dd></div></dl>
    <p class="soft small">${each.oldest_seconds === null ? say`queue is empty` : say`oldest waiting ${duration(each.oldest_seconds)}`}</p></div>`;
}

/** @param {Api["LimitView"][] | null} all */
function limits(all) {
  if (!all) return html`<p class="soft">${say`Unknown: the broker is unavailable.`}</p>`;
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${say`Limits`}><table><thead><tr><th>${say`limit`}</th><th class="number">${say`used`}</th><th><span class="hidden">${say`share`}</span></th><th class="number">${say`in flight`}</th><th>${say`provider`}</th></tr></thead>
    <tbody>${all.map((each) => html`<tr><th scope="row">${LIMITS[each.name.replace(" ", "_")] ?? each.name}</th>
      <td class="number">${each.per_minute ? say`${count(each.used)} of ${count(each.per_minute)} per minute` : say`${count(each.used)} in the last minute`}</td>
      <td>${each.per_minute ? bar(each.used / each.per_minute, each.used > each.per_minute * 0.9 ? "degraded" : "working") : nothing}</td>
      <td class="number">${each.in_flight_limit ? say`${count(each.in_flight)} of ${count(each.in_flight_limit)}` : count(each.in_flight)}</td>
      <td>${each.breaker === "closed" ? (each.cooldown_seconds ? say`paused for ${duration(each.cooldown_seconds)}` : each.flex_pause_seconds ? say`no flex capacity for ${duration(each.flex_pause_seconds)}` : say`available`) : html`<span class="bad">${say`paused after failures`}</span>`}${each.reason && each.name.endsWith("requests") ? html`<br><span class="soft small" lang="en" dir="ltr">${each.reason}</span>` : nothing}</td></tr>`)}</tbody></table></div>`;
}

/** @param {Api["BudgetView"][]} all */
function budgets(all) {
  /** @param {Api["BudgetView"]} budget @param {number} value */
  const amount = (budget, value) => (budget.unit === "tokens" ? count(value) : money(value));
  /** @param {Api["BudgetView"]} budget */
  const limit = (budget) => (budget.unit === "tokens" ? plural(budget.limit, "token") : money(budget.limit));
  const periods = { day: say`a day`, month: say`a month`, total: say`in total` };
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${say`Budgets`}><table><thead><tr><th>${say`budget`}</th><th class="number">${say`spent`}</th><th><span class="hidden">${say`share`}</span></th><th class="number">${say`reserved`}</th><th class="number">${say`limit`}</th><th>${say`state`}</th></tr></thead>
    <tbody>${all.map((each) => html`<tr><th scope="row" dir="auto">${each.collection ?? (each.job_id ? say`job ${each.job_id}` : say`everything`)}</th>
      <td class="number">${amount(each, each.spent)}</td>
      <td>${bar((each.spent + each.reserved) / each.limit, each.exhausted ? "degraded" : "working")}</td>
      <td class="number">${amount(each, each.reserved)}</td>
      <td class="number">${limit(each)} ${periods[each.period]}</td>
      <td>${each.exhausted ? html`<span class="bad">${say`used up`}</span>` : say`available`}</td></tr>`)}</tbody></table></div>`;
}

/** @param {number} many @param {string} reason */
async function discard(many, reason) {
  const isSure = await confirmed({
    title: say`Discard ${plural(many, "failure")}?`, text: reason, action: say`Discard`, danger: true,
  });
  if (isSure) await resolve("discard", reason);
}

function failures() {
  if (!work.reasons.length) return html`<p class="soft">${say`No failures.`}</p>`;
  return html`<ul class="reasons" role="list">${work.reasons.map((each) => {
    const many = each.documents + each.pages + each.chunks;
    return html`<li class="bar-line"><span class="number">${count(many)}</span><span class="grow" dir="auto">${each.reason}</span>
      ${may("write") ? html`<button @click=${() => resolve("retry", each.reason)}>${say`Try again`}</button>
        <button class="quiet" @click=${() => discard(many, each.reason)}>${say`Discard`}</button>` : nothing}</li>`;
  })}</ul>`;
}

/** @param {Api["StatusView"]["usage"]} all */
function usage(all) {
  if (!all.length) return html`<p class="soft">${say`No usage yet.`}</p>`;
  const words = { generate: say`questions`, embed: say`embedding` };
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${say`Usage`}><table><thead><tr><th>${say`collection`}</th><th>${say`purpose`}</th><th>${say`model`}</th><th>${say`tier`}</th><th class="number">${say`calls`}</th><th class="number">${say`tokens`}</th><th class="number">${say`cached`}</th><th class="number">${say`cost`}</th></tr></thead>
    <tbody>${all.map((each) => html`<tr><th scope="row" dir="auto">${each.collection ? html`<a href=${`${ROOT}/collections/${encodeURIComponent(each.collection)}`}>${each.collection}</a>` : say`deleted`}</th><td>${words[each.kind]}</td><td>${each.model}</td><td>${each.tier}</td>
      <td class="number">${count(each.calls)}</td><td class="number">${count(each.prompt_tokens + each.completion_tokens)}</td>
      <td class="number">${each.cached_tokens ? `${Math.round((100 * each.cached_tokens) / each.prompt_tokens)} %` : ""}</td>
      <td class="number">${each.cost === null ? html`<span class="soft">${say`price not set`}</span>` : money(each.cost)}</td></tr>`)}</tbody></table></div>`;
}
