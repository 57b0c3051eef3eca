// Work: queues, progress, failures with their reasons, and costs.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, post } from "../api.js";
import { confirmed } from "../kit/dialog.js";
import { empty } from "../kit/empty.js";
import { table } from "../kit/table.js";
import { bar } from "../parts/bars.js";
import { callsInFlight, costs, readCosts, readThroughput, sample, throughput } from "../parts/charts.js";
import { ago, count, plural, duration, money } from "../parts/format.js";
import { limitName, paceOf } from "../parts/pace.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polling } from "../parts/polling.js";
import { say } from "../parts/words.js";

export const title = say`Work`;
export const titled = true;
/** @type {[keyof Api["StatusView"]["stages"], string][]} */
const STAGES = [
  ["parse", say`Parsing`], ["read", say`Reading pages`], ["generate", say`Generating questions`],
  ["index", say`Indexing`],
];
const DAMAGES = {
  failover: say`PostgreSQL may have lost changes that the index contains: it is being repaired.`,
  lost_points: say`The index has lost points of finished documents: it is being repaired, and results are incomplete.`,
};
const PERIODS = { day: say`a day`, month: say`a month`, total: say`in total` };
const PURPOSES = { generate: say`questions`, embed: say`embedding` };
const SPOKEN = 5000; // minimum milliseconds between two announcements to screen readers

/**
 * @type {{status: Api["StatusView"] | null, reasons: Api["DeadReasonView"][], problem: any, cause: string,
 *   spoken: string}}
 */
const work = { status: null, reasons: [], problem: null, cause: "", spoken: "" };
let spokenAt = -SPOKEN;
let polls = 0;

const { start: load, poll, stop } = polling(work, read);
export { load };
export const unload = stop;

async function read() {
  /** @type {Api["StatusView"]} */
  const status = await get("/v1/status");
  work.status = status;
  sample(status.limits, status.stages);
  if (polls++ % 5 === 0) {
    [{ items: work.reasons }] = await Promise.all([get("/v1/dead-letters/reasons"), readThroughput(), readCosts()]);
  }
  speak(status);
}

/**
 * Announce the sentence only when the cause changes, because its numbers change with every poll.
 * @param {Api["StatusView"]} status
 */
function speak(status) {
  const { cause } = status.pace;
  if (cause === work.cause || performance.now() - spokenAt < SPOKEN) return;
  work.cause = cause;
  work.spoken = paceOf(status);
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

export function view() {
  const { status, problem } = work;
  if (!status) return html`<section class="column">${problemCard(problem, load)}</section>`;
  const stages = STAGES.map(([name, words]) => ({ name, words, work: status.stages[name] }));
  const isOpen = stages.some((each) => openOf(each.work));
  const hasDocuments = Object.values(status.documents).some(Boolean);
  const shown = stages.filter((each) => each.name !== "read" || reads(status));
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${hasDocuments ? nothing : noDocuments()}
    ${hasDocuments || status.pace.cause !== "idle" ? pace(status) : nothing}
    ${(status.damaged ?? []).map(damage)}
    ${isOpen ? html`<div class="cards">${shown.map(stage)}</div>` : nothing}
    <div class="charts">${throughput()}${callsInFlight()}</div>
    <h2>${say`Failed`}</h2>
    ${failures()}
    <h2>${say`Limits`}</h2>
    ${limits(status.limits)}
    ${status.budgets.length ? html`<h2>${say`Budgets`}</h2>${budgets(status.budgets)}` : nothing}
    <h2>${say`Usage`}</h2>
    ${costs()}
    ${usage(status.usage)}
  </section>`;
}

/** @param {Api["StageView"]} stage */
const openOf = ({ due, in_flight: running, delayed }) => due + running + delayed;

const noDocuments = () => empty({
  title: say`No documents yet`, sign: "files",
  actions: html`<a class="button" href=${`${ROOT}/documents`}>${say`Add documents`}</a>`,
});

/** Show the bottleneck, with the words of a provider or a component as they are. @param {Api["StatusView"]} status */
function pace(status) {
  const { reason } = status.pace.values;
  return html`<p class="pace">${paceOf(status)}
      ${status.pace.cause === "budget" ? html`<a href=${`${ROOT}/limits`}>${say`Show budgets`}</a>` : nothing}
      ${status.pace.cause === "paused" ? html`<a href=${`${ROOT}/jobs`}>${say`Show jobs`}</a>` : nothing}</p>
    ${reason ? html`<p class="soft small" lang="en" dir="ltr">${reason}</p>` : nothing}
    <p class="hidden" role="status">${work.spoken}</p>`;
}

/** @param {Api["DamageView"]} each */
const damage = ({ collection, since, cause }) => html`<p class="warning"><b dir="auto">${collection}</b>:
  ${DAMAGES[cause]} ${say`Progress: ${html`<code>foreask verify --repair --collection ${collection}</code>`}`}
  <span class="soft">${ago(since)}</span></p>`;

/** Whether pages are or could be read: without OCR there is no such worker. @param {Api["StatusView"]} status */
const reads = ({ stages: { read }, pace: { workers } }) => Boolean(workers.read || openOf(read));

/** @param {{words: string, work: Api["StageView"]}} stage */
function stage({ words, work: { in_flight: running, due, delayed, oldest_seconds: oldest } }) {
  /** @param {string} name @param {number} value */
  const fact = (name, value) => html`<div><dt>${name}</dt><dd>${count(value)}</dd></div>`;
  return html`<div class="card"><h3>${words}</h3>
    <dl>${fact(say`running`, running)} ${fact(say`due`, due)}
      ${delayed ? fact(say`waiting for a retry`, delayed) : nothing}</dl>
    <p class="soft small">${oldest === null ? say`queue is empty` : say`oldest waiting ${duration(oldest)}`}</p></div>`;
}

/** @param {Api["LimitView"][] | null} all */
function limits(all) {
  if (!all) return html`<p class="soft">${say`Unknown: the broker is unavailable.`}</p>`;
  return table({ label: say`Limits`, rows: all, key: (each) => each.name, columns: [
    { words: say`Limit`, cell: (each) => limitName(each.name), main: true },
    { words: say`Used`, cell: usedOf, number: true },
    { words: say`Share`, cell: share, silent: true, width: "8rem" },
    { words: say`In flight`, cell: inFlight, number: true },
    { words: say`Provider`, cell: provider, width: "minmax(8rem, 1fr)" },
  ] });
}

/** @param {Api["LimitView"]} limit */
const usedOf = ({ per_minute: most, used }) => (most
  ? say`${count(used)} of ${count(most)} per minute` : say`${count(used)} in the last minute`);

/** @param {Api["LimitView"]} limit */
const share = ({ per_minute: most, used }) => (most
  ? bar(used / most, used > most * 0.9 ? "degraded" : "working") : nothing);

/** @param {Api["LimitView"]} limit */
const inFlight = ({ in_flight: running, in_flight_limit: most }) => (most
  ? say`${count(running)} of ${count(most)}` : count(running));

/** @param {Api["LimitView"]} limit */
function provider({ name, breaker, cooldown_seconds: pause, flex_pause_seconds: flex, reason }) {
  const state = breaker !== "closed" ? html`<span class="bad">${say`paused after failures`}</span>`
    : pause ? say`paused for ${duration(pause)}`
    : flex ? say`no flex capacity for ${duration(flex)}` : say`available`;
  const words = reason && name.endsWith("requests");
  const said = words ? html`<br><span class="soft small" lang="en" dir="ltr">${reason}</span>` : nothing;
  return html`<span>${state}${said}</span>`;
}

/** @param {Api["BudgetView"][]} all */
function budgets(all) {
  /** @param {Api["BudgetView"]} budget @param {number} value */
  const amount = (budget, value) => (budget.unit === "tokens" ? count(value) : money(value));
  /** @param {Api["BudgetView"]} budget */
  const limit = (budget) => (budget.unit === "tokens" ? plural(budget.limit, "token") : money(budget.limit));
  /** @param {Api["BudgetView"]} budget */
  const scope = ({ collection, job_id: job }) => collection ?? (job ? say`job ${job}` : say`everything`);
  return table({ label: say`Budgets`, rows: all, key: (each) => each.id, columns: [
    { words: say`Budget`, cell: scope, main: true },
    { words: say`Spent`, cell: (each) => amount(each, each.spent), number: true },
    { words: say`Share`, cell: ofBudget, silent: true, width: "8rem" },
    { words: say`Reserved`, cell: (each) => amount(each, each.reserved), number: true },
    { words: say`Limit`, cell: (each) => `${limit(each)} ${PERIODS[each.period]}`, number: true },
    { words: say`State`, cell: stateOf },
  ] });
}

/** @param {Api["BudgetView"]} budget */
const ofBudget = ({ spent, reserved, limit, exhausted }) =>
  bar((spent + reserved) / limit, exhausted ? "degraded" : "working");

/** @param {Api["BudgetView"]} budget */
const stateOf = ({ exhausted }) => (exhausted ? html`<span class="bad">${say`used up`}</span>` : say`available`);

/** @param {number} many @param {string} reason */
async function discard(many, reason) {
  const isSure = await confirmed({
    title: say`Discard ${plural(many, "failure")}?`, text: reason, action: say`Discard`, danger: true,
  });
  if (isSure) await resolve("discard", reason);
}

function failures() {
  if (!work.reasons.length) return html`<p class="soft">${say`No failures.`}</p>`;
  return html`<ul class="reasons" role="list">${work.reasons.map(failure)}</ul>`;
}

/** @param {Api["DeadReasonView"]} each */
function failure(each) {
  const many = each.documents + each.pages + each.chunks;
  const [only] = each.collections;
  /** @param {string} collection */
  const address = (collection) => `${ROOT}/documents?${new URLSearchParams({ collection, reason: each.reason })}`;
  const links = each.collections.map((name) => html` <a class="small" dir="auto" href=${address(name)}>${name}</a>`);
  return html`<li class="bar-line"><span class="number">${count(many)}</span>
    <span class="grow" dir="auto">${each.collections.length === 1
      ? html`<a href=${address(only)}>${each.reason}</a>` : html`${each.reason}${links}`}</span>
    ${may("write") ? html`<button @click=${() => resolve("retry", each.reason)}>${say`Try again`}</button>
      <button class="quiet" @click=${() => discard(many, each.reason)}>${say`Discard`}</button>` : nothing}</li>`;
}

/** @param {Api["UsageView"][]} all */
function usage(all) {
  if (!all.length) return html`<p class="soft">${say`No usage yet.`}</p>`;
  return table({ label: say`Usage`, rows: all, columns: [
    { words: say`Collection`, cell: collectionOf, main: true },
    { words: say`Model`, cell: modelOf },
    { words: say`Calls`, cell: (each) => count(each.calls), number: true },
    { words: say`Tokens`, cell: (each) => count(each.prompt_tokens + each.completion_tokens), number: true },
    { words: say`Cached`, cell: cached, number: true },
    { words: say`Cost`, cell: costOf, number: true },
  ] });
}

/** @param {Api["UsageView"]} usage */
const collectionOf = ({ collection: name }) => (name
  ? html`<a href=${`${ROOT}/collections/${encodeURIComponent(name)}`}>${name}</a>` : say`deleted`);

/** @param {Api["UsageView"]} usage */
const modelOf = ({ model, kind, tier }) => html`<span>${model}
  <br><span class="soft">${PURPOSES[kind]} \u00b7 ${tier}</span></span>`;

/** @param {Api["UsageView"]} usage */
const cached = ({ cached_tokens: tokens, prompt_tokens: all }) =>
  (tokens ? `${Math.round((100 * tokens) / all)} %` : "");

/** An embedded model costs nothing. @param {Api["UsageView"]} usage */
const costOf = ({ cost }) => (cost
  ? money(cost) : html`<span class="soft">${cost === 0 ? say`free` : say`price not set`}</span>`);
