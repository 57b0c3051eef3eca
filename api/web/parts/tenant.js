// A tenant as its operator sees it: its limits with their use, its budgets, and its collections.

import { html, nothing } from "../vendor/lit-html.js";
import { get, latest, send } from "../api.js";
import { confirmed } from "../kit/dialog.js";
import { createForm } from "../kit/form.js";
import { skeleton } from "../kit/skeleton.js";
import { table } from "../kit/table.js";
import { redraw } from "../store.js";
import { bar } from "./bars.js";
import { count } from "./format.js";
import { limitTable } from "./limits.js";
import { notify, problemCard } from "./notice.js";
import { attempt } from "./operations.js";
import { say } from "./words.js";

/** @typedef {Api["BudgetView"]} Budget */
/**
 * @typedef {{tenant: string, limits: Api["TenantLimitView"][] | null, collections: Api["TenantCollectionView"][],
 *   budgets: Budget[], problem: any}} Opened
 */

const PERIODS = /** @type {const} */ ([["month", say`a month`], ["day", say`a day`], ["total", say`in total`]]);
const UNITS = /** @type {const} */ ([["money", say`money`], ["tokens", say`tokens`]]);
const SETTERS = { settings: say`settings`, operator: say`operator`, tenant: say`tenant` };

/** @type {Opened | null} */
let opened = null;
const newest = latest();

export const openedTenant = () => opened?.tenant ?? null;

/** @param {string} tenant */
const base = (tenant) => /** @type {const} */ (`/v1/operator/tenants/${encodeURIComponent(tenant)}`);

/** Open the details of a tenant, or close them. @param {string} tenant */
export async function toggleTenant(tenant) {
  opened = opened?.tenant === tenant ? null : { tenant, limits: null, collections: [], budgets: [], problem: null };
  redraw();
  if (opened) await read(opened);
}

/** @param {Opened} now */
async function read(now) {
  const path = base(now.tenant);
  try {
    const replies = Promise.all([get(`${path}/limits`), get(`${path}/budgets`), get(`${path}/collections?limit=200`)]);
    const [limits, budgets, collections] = await newest(replies);
    Object.assign(now, { limits: limits.items, budgets: budgets.items, collections: collections.items, problem: null });
  } catch (problem) {
    now.problem = problem;
  }
  redraw();
}

const addition = createForm(async ({ limit, unit, period, collection }) => {
  if (!opened) return;
  await send("PUT", `${base(opened.tenant)}/budgets`, { body: { limit, unit, period, collection } });
  notify(say`The budget was set.`);
  await read(opened);
});

/** @param {Budget} budget */
async function remove(budget) {
  if (!opened) return;
  const question = { title: say`Delete the budget of ${nameOf(budget)}?`, action: say`Delete`, danger: true };
  if (!(await confirmed(question))) return;
  const path = /** @type {const} */ (`${base(opened.tenant)}/budgets/${budget.id}`);
  await attempt(() => send("DELETE", path));
  await read(opened);
}

const UNIT_WORDS = Object.fromEntries(UNITS);
const PERIOD_WORDS = Object.fromEntries(PERIODS);

/** @param {Budget} each */
const nameOf = ({ collection, job_id: job, unit, period }) =>
  `${collection ?? (job ? say`job ${job}` : say`everything`)}, ${UNIT_WORDS[unit]} ${PERIOD_WORDS[period]}`;

export function tenantDetails() {
  if (!opened) return nothing;
  const now = opened;
  const { tenant, limits, budgets, problem } = now;
  if (problem) return problemCard(problem, () => read(now));
  if (!limits) return skeleton();
  return html`<div class="tenant">
    <section><h3>${say`Limits`}</h3>${limitTable(limits, say`Limits of ${tenant}`)}
      <p class="soft small">${say`These limits are set in ${html`<code>FOREASK_TENANT_LIMITS</code>`}.`}</p></section>
    <section><h3>${say`Budgets`}</h3>${budgets.length ? budgetTable(budgets) : html`<p class="soft">
      ${say`No budgets. A budget stops the generation of questions before its amount is exceeded.`}</p>`}
      <details><summary>${say`Set a budget`}</summary>
        ${addition.view({ action: say`Set budget`, body: fields })}</details></section>
    <section><h3>${say`Collections`}</h3>
      ${table({ label: say`Collections of ${tenant}`, rows: now.collections, columns: COLLECTION })}</section>
  </div>`;
}

/** @param {(facts: import("../kit/field.js").Field) => unknown} field */
const fields = (field) => [
  field({ name: "limit", label: say`Limit`, type: "number", min: 0, step: "any", required: true }),
  field({ name: "unit", label: say`Unit`, type: "select", options: UNITS }),
  field({ name: "period", label: say`Period`, type: "select", options: PERIODS }),
  field({
    name: "collection", label: say`Collection`, placeholder: say`all collections`,
    list: opened?.collections.map(({ name }) => name),
  }),
];

/** @param {Budget[]} rows */
const budgetTable = (rows) => table({
  label: say`Budgets`,
  rows,
  key: ({ id }) => id,
  columns: [
    { words: say`Budget`, cell: nameOf, main: true },
    { words: say`Spent`, cell: ({ spent }) => count(spent), number: true },
    { words: say`Share`, cell: share, silent: true, width: "minmax(2rem, 0.4fr)" },
    { words: say`Limit`, cell: ({ limit }) => count(limit), number: true },
    { words: say`Set by`, cell: ({ set_by: by }) => SETTERS[by] },
    { words: say`Actions`, cell: removal, silent: true },
  ],
});

/** @param {Budget} each */
const share = (each) => bar((each.spent + each.reserved) / each.limit, each.exhausted ? "degraded" : "working");

/** @param {Budget} each */
function removal(each) {
  if (each.set_by !== "operator") return nothing;
  return html`<button class="quiet" aria-label=${say`Delete the budget of ${nameOf(each)}`}
    @click=${() => remove(each)}>${say`Delete`}</button>`;
}

/** @param {Record<string, number>} counts */
export const total = (counts) => Object.values(counts).reduce((sum, each) => sum + each, 0);

/** @type {import("../kit/table.js").Column<Api["TenantCollectionView"]>[]} */
const COLLECTION = [
  { words: say`Collection`, cell: ({ name }) => name, main: true },
  { words: say`Embedding`, cell: (each) => each.embedding_model },
  { words: say`Documents`, cell: ({ documents }) => count(total(documents)), number: true },
];
