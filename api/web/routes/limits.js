// Limits of the tenant, which the settings define, and budgets, which can be set here.

import { html, nothing } from "../vendor/lit-html.js";
import { get, send } from "../api.js";
import { redraw } from "../store.js";
import { bar } from "../parts/bars.js";
import { count, size } from "../parts/format.js";
import { notify, problemCard } from "../parts/notice.js";
import { attempt } from "../parts/operations.js";
import { may, server } from "../parts/permissions.js";
import { polling } from "../parts/polling.js";

export const title = "Limits and budgets";
export const titled = true;
const PERIODS = { day: "a day", month: "a month", total: "in total" };
const LIMITS = /** @type {const} */ ([["requests_per_second", "Requests per second", count], ["upload_bytes_per_day", "Uploads per day", size], ["documents", "Documents", count],
  ["collections", "Collections", count], ["tokens_per_day", "Tokens of the ingest per day", count], ["cost_per_day", "Cost of the ingest per day", count],
  ["query_tokens_per_day", "Tokens of queries per day", count], ["query_cost_per_day", "Cost of queries per day", count]]);

/** @type {{budgets: Api["BudgetView"][] | null, limits: Api["LimitsView"] | null, names: string[], problem: any}} */
const seen = { budgets: null, limits: null, names: [], problem: null };
const { poll, stop } = polling(seen, async () => {
  seen.budgets = (await get("/v1/budgets")).items;
});

export async function load() {
  server().then((me) => ((seen.limits = me?.limits ?? null), redraw()));
  get("/v1/collections?limit=200").then(({ items }) => ((seen.names = items.map((each) => each.name)), redraw()), () => {});
  await poll();
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
  if (await set({ collection: collection || null, period, unit, limit: Number(limit) }, "The budget was set.")) form.reset();
}

/** @param {Api["BudgetView"]} budget @param {On<HTMLFormElement>} event */
function change(budget, event) {
  event.preventDefault();
  const { collection, job_id, period, unit } = budget;
  set({ collection, job_id, period, unit, limit: Number(new FormData(event.target).get("limit")) }, "The budget was changed.");
}

/** @param {Api["BudgetView"]} budget */
const nameOf = (budget) => `${budget.collection ?? (budget.job_id ? `job ${budget.job_id}` : "everything")}, ${budget.unit} ${PERIODS[budget.period]}`;

/** @param {Api["BudgetView"]} budget */
async function remove(budget) {
  if (!confirm(`Delete the budget of ${nameOf(budget)}?`)) return;
  await attempt(() => send("DELETE", `/v1/budgets/${budget.id}`));
  await poll();
}

export function view() {
  const { budgets, limits, problem } = seen;
  const shown = limits ? LIMITS.filter(([name]) => limits[name] !== null) : [];
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    <h2>Budgets</h2>
    ${budgets && !budgets.length ? html`<p class="soft">No budgets. A budget stops the generation of questions before its amount is exceeded. Documents are still accepted and found by their texts.</p>` : nothing}
    ${budgets?.length ? table(budgets) : nothing}
    ${may("manage") ? addition() : nothing}
    <h2>Limits</h2>
    ${shown.length ? html`<table><tbody>${shown.map(([name, words, written]) => html`<tr><th scope="row">${words}</th><td class="number">${written(limits?.[name] ?? 0)}</td></tr>`)}</tbody></table>` : html`<p class="soft">No limits of this tenant.</p>`}
    <p class="soft small">The operator sets these limits in <code>FOREASK_TENANT_LIMITS</code>. Limits of a key are set with the key.</p>
  </section>`;
}

const addition = () => html`<details><summary>Set a budget</summary><form class="options" @submit=${add}>
  <label>Collection <input name="collection" list="budgeted" placeholder="all collections"></label><datalist id="budgeted">${seen.names.map((name) => html`<option value=${name}></option>`)}</datalist>
  <label>Unit <select name="unit"><option value="money">money</option><option value="tokens">tokens</option></select></label>
  <label>Period <select name="period"><option value="month">a month</option><option value="day">a day</option><option value="total">in total</option></select></label>
  <label>Limit <input name="limit" type="number" min="0" step="any" required></label>
  <button class="main" type="submit">Set</button></form></details>`;

/** Whether the key may change the budget. @param {Api["BudgetView"]} budget */
const isOurs = (budget) => budget.set_by === "tenant" && may("manage");

/** @param {Api["BudgetView"][]} all */
function table(all) {
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Budgets"><table>
    <thead><tr><th scope="col">budget</th><th scope="col">spent</th><th scope="col"><span class="hidden">share</span></th><th scope="col">limit</th><th scope="col">set by</th><th scope="col"><span class="hidden">actions</span></th></tr></thead>
    <tbody>${all.map((each) => html`<tr><th scope="row" dir="auto">${nameOf(each)}${each.exhausted ? html` <span class="bad">used up</span>` : nothing}</th>
      <td class="number">${count(each.spent)}</td><td>${bar((each.spent + each.reserved) / each.limit, each.exhausted ? "degraded" : "working")}</td>
      <td class="number">${isOurs(each) ? html`<form class="bar-line" @submit=${(/** @type {On<HTMLFormElement>} */ event) => change(each, event)}>
        <input name="limit" type="number" min="0" step="any" required value=${each.limit} aria-label=${`Limit of ${nameOf(each)}`}><button type="submit" aria-label=${`Change the limit of ${nameOf(each)}`}>Change</button></form>` : count(each.limit)}</td>
      <td>${each.set_by}</td>
      <td>${isOurs(each) ? html`<button class="quiet" aria-label=${`Delete the budget of ${nameOf(each)}`} @click=${() => remove(each)}>\u2715</button>` : nothing}</td></tr>`)}</tbody></table></div>`;
}
