// Limits of the tenant, which the settings define, and budgets, which can be set here.

import { html, nothing } from "../vendor/lit-html.js";
import { get, send } from "../api.js";
import { redraw, redrawNow } from "../store.js";
import { confirmed } from "../kit/dialog.js";
import { empty } from "../kit/empty.js";
import { createForm } from "../kit/form.js";
import { menu } from "../kit/menu.js";
import { skeleton } from "../kit/skeleton.js";
import { table } from "../kit/table.js";
import { bar } from "../parts/bars.js";
import { count, money } from "../parts/format.js";
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
const SIGNS = /** @type {Record<string, string>} */ ({ money: "USD", tokens: say`tokens` });
const SETTERS = { settings: say`settings`, operator: say`operator`, tenant: say`tenant` };
/**
 * @type {{budgets: Api["BudgetView"][] | null, limits: Api["TenantLimitView"][] | null, names: string[], problem: any,
 *   isAdding: boolean, unit: string, changed: string | null}} changed: id of the budget whose limit is changed
 */
const seen = { budgets: null, limits: null, names: [], problem: null, isAdding: false, unit: "money", changed: null };
const { start, poll, stop } = polling(seen, async () => {
  const [budgets, limits] = await Promise.all([get("/v1/budgets"), get("/v1/limits")]);
  Object.assign(seen, { budgets: budgets.items, limits: limits.items });
});

export async function load() {
  Object.assign(seen, { isAdding: false, unit: "money", changed: null });
  get("/v1/collections?limit=200").then(
    ({ items }) => ((seen.names = items.map((each) => each.name)), redraw()),
    () => {},
  );
  await start();
}

export const unload = stop;

const addition = createForm(async ({ collection, limit, period, unit }) => {
  await send("PUT", "/v1/budgets", { body: { collection, period, unit, limit } });
  notify(say`The budget was set.`);
  Object.assign(seen, { isAdding: false, unit: "money" });
  await poll();
});

/** The form of a limit; it belongs to the budget `seen.changed`. */
const change = createForm(async ({ limit }) => {
  const budget = seen.budgets?.find(({ id }) => id === seen.changed);
  if (!budget) return;
  const { collection, job_id, period, unit } = budget;
  await send("PUT", "/v1/budgets", { body: { collection, job_id, period, unit, limit } });
  seen.changed = null;
  notify(say`The budget was changed.`);
  await poll();
});

/**
 * Show a form, and go to its first field.
 * @param {{clear: () => void, focus: () => void}} form @param {() => void} open
 */
function show(form, open) {
  addition.clear();
  change.clear();
  Object.assign(seen, { isAdding: false, changed: null });
  open();
  redrawNow();
  form.focus();
}

/** @param {Api["BudgetView"]} budget */
function nameOf({ collection, job_id: job, unit, period }) {
  const subject = collection ?? (job ? say`job ${job}` : say`everything`);
  return `${subject}, ${UNITS[unit]} ${PERIODS[period]}`;
}

/** @param {Api["BudgetView"]} budget @param {number} value */
const amount = ({ unit }, value) => (unit === "money" ? money(value) : count(value));

/** @param {Api["BudgetView"]} budget */
async function remove(budget) {
  const isSure = await confirmed({
    title: say`Delete the budget of ${nameOf(budget)}?`,
    text: say`Questions are then generated without this limit.`,
    action: say`Delete`,
    danger: true,
  });
  if (!isSure) return;
  await attempt(() => send("DELETE", `/v1/budgets/${budget.id}`));
  await poll();
}

export function view() {
  const { budgets, limits, problem } = seen;
  const variable = html`<code>FOREASK_TENANT_LIMITS</code>`;
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    <h2>${say`Budgets`}</h2>
    ${budgets ? ofBudgets(budgets) : problem ? nothing : skeleton()}
    <h2>${say`Limits`}</h2>
    ${limits ? limitTable(limits, say`Limits`) : nothing}
    <p class="soft small">
      ${say`The operator sets these limits in ${variable}. Limits of a key are set with the key.`}</p>
  </section>`;
}

const EXPLAINED = say`A budget stops the generation of questions before its amount is exceeded. Documents are still accepted and found by their texts.`;

/** @param {Api["BudgetView"][]} budgets */
function ofBudgets(budgets) {
  const open = () => show(addition, () => (seen.isAdding = true));
  const actions = may("manage") ? html`<button class="main" @click=${open}>${say`Set a budget`}</button>` : nothing;
  if (seen.isAdding) return html`${budgets.length ? list(budgets) : nothing}${creation()}`;
  if (budgets.length) return html`${list(budgets)}<p class="kit-actions">${actions}</p>`;
  return empty({ sign: "gauge", title: say`No budgets`, text: EXPLAINED, actions });
}

/** @param {string} unit */
const chooseUnit = (unit) => ((seen.unit = unit), redraw());

const creation = () =>
  addition.view({
    action: say`Set budget`,
    label: say`Set a budget`,
    cancel: () => ((seen.isAdding = false), redraw()),
    body: (field) => html`
      ${field({ name: "collection", label: say`Collection`, list: seen.names, placeholder: say`all collections` })}
      ${field({ ...UNIT, value: seen.unit, changed: chooseUnit })} ${field(PERIOD)}
      ${field({ ...LIMIT, label: say`Limit`, unit: SIGNS[seen.unit] })}`,
  });

/** @typedef {import("../kit/field.js").Field} Field */
/** @type {Field} */
const UNIT = { name: "unit", label: say`Unit`, type: "select", options: Object.entries(UNITS) };
/** @type {Field} */
const PERIOD = {
  name: "period",
  label: say`Period`,
  type: "select",
  options: /** @type {const} */ (["month", "day", "total"]).map((each) => [each, PERIODS[each]]),
};
const LIMIT = /** @type {const} */ ({ name: "limit", type: "number", min: 0, step: "any", required: true });

/** Whether the key may change the budget. @param {Api["BudgetView"]} budget */
const isOurs = (budget) => budget.set_by === "tenant" && may("manage");

/** @param {Api["BudgetView"]} budget */
const share = ({ spent, reserved, limit, exhausted }) =>
  bar((spent + reserved) / limit, exhausted ? "degraded" : "working");

/** @param {Api["BudgetView"]} budget */
const named = (budget) =>
  html`${nameOf(budget)}${budget.exhausted ? html` <span class="bad">${say`used up`}</span>` : nothing}`;

/** @param {Api["BudgetView"][]} rows */
const list = (rows) =>
  table({
    label: say`Budgets`,
    rows,
    key: (each) => each.id,
    columns: [
      { words: say`budget`, main: true, cell: named },
      { words: say`spent`, number: true, cell: (each) => amount(each, each.spent) },
      { words: say`share`, silent: true, width: "minmax(4rem, 10rem)", cell: share },
      { words: say`limit`, number: true, cell: limitOf },
      { words: say`set by`, cell: (each) => SETTERS[each.set_by] },
      { words: say`actions`, silent: true, cell: (each) => (isOurs(each) ? actions(each) : nothing) },
    ],
  });

/** @param {Api["BudgetView"]} budget */
const actions = (budget) =>
  menu({
    id: `budget-${budget.id}`,
    label: say`Actions of ${nameOf(budget)}`,
    items: [
      { words: say`Change`, run: () => show(change, () => (seen.changed = budget.id)) },
      { words: say`Delete`, run: () => remove(budget), danger: true },
    ],
  });

/** Render the limit, or the form that changes it. @param {Api["BudgetView"]} budget */
function limitOf(budget) {
  if (seen.changed !== budget.id) return amount(budget, budget.limit);
  const label = say`Limit of ${nameOf(budget)}`;
  return change.view({
    action: say`Save`,
    inline: true,
    label: say`Change the limit of ${nameOf(budget)}`,
    cancel: () => ((seen.changed = null), redraw()),
    body: (field) => field({ ...LIMIT, label, silent: true, value: budget.limit, unit: SIGNS[budget.unit] }),
  });
}
