// Limits of the tenant, which the settings define, and budgets, which can be set here.

import { html, nothing } from "../vendor/lit-html.js";
import { get, send } from "../api.js";
import { redraw } from "../store.js";
import { bar } from "../parts/bars.js";
import { count } from "../parts/format.js";
import { icon } from "../parts/icon.js";
import { limitTable } from "../parts/limits.js";
import { notify, problemCard } from "../parts/notice.js";
import { attempt } from "../parts/operations.js";
import { may } from "../parts/permissions.js";
import { polling } from "../parts/polling.js";
import { say } from "../parts/words.js";

export const title = say`Limits and budgets`;
export const titled = true;
const PERIODS = { day: say`a day`, month: say`a month`, total: say`in total` };
const UNITS = { money: say`money`, tokens: say`tokens` };
const SETTERS = { settings: say`settings`, operator: say`operator`, tenant: say`tenant` };

/** @type {{budgets: Api["BudgetView"][] | null, limits: Api["TenantLimitView"][], names: string[], problem: any}} */
const seen = { budgets: null, limits: [], names: [], problem: null };
const { start, poll, stop } = polling(seen, async () => {
  const [budgets, limits] = await Promise.all([get("/v1/budgets"), get("/v1/limits")]);
  Object.assign(seen, { budgets: budgets.items, limits: limits.items });
});

export async function load() {
  get("/v1/collections?limit=200").then(({ items }) => ((seen.names = items.map((each) => each.name)), redraw()), () => {});
  await start();
}

export const unload = stop;

/** @param {any} body @param {string} words */
async function set(body, words) {
  const isSet = await attempt(() => send("PUT", "/v1/budgets", { body }));
  if (isSet) notify(words);
  await poll();
  return isSet;
}

/** @param {On<HTMLFormElement>} event */
async function add(event) {
  event.preventDefault();
  const form = event.target;
  const { collection, limit, period, unit } = Object.fromEntries(new FormData(form));
  if (await set({ collection: collection || null, period, unit, limit: Number(limit) }, say`The budget was set.`)) form.reset();
}

/** @param {Api["BudgetView"]} budget @param {On<HTMLFormElement>} event */
function change(budget, event) {
  event.preventDefault();
  const { collection, job_id, period, unit } = budget;
  set({ collection, job_id, period, unit, limit: Number(new FormData(event.target).get("limit")) }, say`The budget was changed.`);
}

/** @param {Api["BudgetView"]} budget */
const nameOf = (budget) => `${budget.collection ?? (budget.job_id ? say`job ${budget.job_id}` : say`everything`)}, ${UNITS[budget.unit]} ${PERIODS[budget.period]}`;

/** @param {Api["BudgetView"]} budget */
async function remove(budget) {
  if (!confirm(say`Delete the budget of ${nameOf(budget)}?`)) return;
  await attempt(() => send("DELETE", `/v1/budgets/${budget.id}`));
  await poll();
}

export function view() {
  const { budgets, limits, problem } = seen;
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    <h2>${say`Budgets`}</h2>
    ${budgets && !budgets.length ? html`<p class="soft">${say`No budgets. A budget stops the generation of questions before its amount is exceeded. Documents are still accepted and found by their texts.`}</p>` : nothing}
    ${budgets?.length ? table(budgets) : nothing}
    ${may("manage") ? addition() : nothing}
    <h2>${say`Limits`}</h2>
    ${limitTable(limits, say`Limits`)}
    <p class="soft small">${say`The operator sets these limits in ${html`<code>FOREASK_TENANT_LIMITS</code>`}. Limits of a key are set with the key.`}</p>
  </section>`;
}

const addition = () => html`<details><summary>${say`Set a budget`}</summary><form class="options" @submit=${add}>
  <label>${say`Collection`} <input name="collection" list="budgeted" placeholder=${say`all collections`}></label><datalist id="budgeted">${seen.names.map((name) => html`<option value=${name}></option>`)}</datalist>
  <label>${say`Unit`} <select name="unit">${Object.entries(UNITS).map(([unit, words]) => html`<option value=${unit}>${words}</option>`)}</select></label>
  <label>${say`Period`} <select name="period">${/** @type {const} */ (["month", "day", "total"]).map((period) => html`<option value=${period}>${PERIODS[period]}</option>`)}</select></label>
  <label>${say`Limit`} <input name="limit" type="number" min="0" step="any" required></label>
  <button class="main" type="submit">${say`Set budget`}</button></form></details>`;

/** Whether the key may change the budget. @param {Api["BudgetView"]} budget */
const isOurs = (budget) => budget.set_by === "tenant" && may("manage");

/** @param {Api["BudgetView"][]} all */
function table(all) {
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${say`Budgets`}><table>
    <thead><tr><th scope="col">${say`budget`}</th><th scope="col">${say`spent`}</th><th scope="col"><span class="hidden">${say`share`}</span></th><th scope="col">${say`limit`}</th><th scope="col">${say`set by`}</th><th scope="col"><span class="hidden">${say`actions`}</span></th></tr></thead>
    <tbody>${all.map((each) => html`<tr><th scope="row" dir="auto">${nameOf(each)}${each.exhausted ? html` <span class="bad">${say`used up`}</span>` : nothing}</th>
      <td class="number">${count(each.spent)}</td><td>${bar((each.spent + each.reserved) / each.limit, each.exhausted ? "degraded" : "working")}</td>
      <td class="number">${isOurs(each) ? html`<form class="bar-line" @submit=${(/** @type {On<HTMLFormElement>} */ event) => change(each, event)}>
        <input name="limit" type="number" min="0" step="any" required value=${each.limit} aria-label=${say`Limit of ${nameOf(each)}`}><button type="submit" aria-label=${say`Change the limit of ${nameOf(each)}`}>${say`Change`}</button></form>` : count(each.limit)}</td>
      <td>${SETTERS[each.set_by]}</td>
      <td>${isOurs(each) ? html`<button class="quiet" aria-label=${say`Delete the budget of ${nameOf(each)}`} @click=${() => remove(each)}>${icon("x")}</button>` : nothing}</td></tr>`)}</tbody></table></div>`;
}
