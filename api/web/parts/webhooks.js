// Webhooks and their recent deliveries.

import { html, nothing } from "../vendor/lit-html.js";
import { get, post, send } from "../api.js";
import { confirmed } from "../kit/dialog.js";
import { createForm } from "../kit/form.js";
import { redraw } from "../store.js";
import { ago, plural, until } from "./format.js";
import { icon } from "./icon.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

const SHOWN = 20;
const MARKS = { delivered: "good", failed: "bad", waiting: "soft" };
const STATES = { delivered: say`delivered`, failed: say`failed`, waiting: say`waiting` };

/**
 * @type {{
 *   hooks: Api["WebhookView"][] | null,
 *   secret: {id: string, value: string} | null,
 *   log: Map<string, Api["DeliveryView"][]>,
 * }}
 */
const seen = { hooks: null, secret: null, log: new Map() };

export async function loadWebhooks() {
  seen.hooks = await get("/v1/webhooks").then((reply) => reply.items, () => null);
  redraw();
}

/** @param {() => Promise<unknown>} action */
async function attempt(action) {
  try {
    await action();
    await loadWebhooks();
  } catch (problem) {
    notify(problem.message, { seconds: 10 });
  }
}

const addition = createForm(async ({ url }) => {
  const made = await post("/v1/webhooks", { url });
  seen.secret = { id: made.id, value: made.secret };
  await loadWebhooks();
});

/** @param {Api["WebhookView"]} hook */
async function remove(hook) {
  const isSure = await confirmed({
    title: say`Delete this webhook and its log?`, text: hook.url, action: say`Delete`, danger: true,
  });
  if (isSure) await attempt(() => send("DELETE", `/v1/webhooks/${hook.id}`));
}

/** @param {string} id */
async function read(id) {
  seen.log.set(id, (await get(`/v1/webhooks/${id}/deliveries?limit=${SHOWN}`)).items);
  redraw();
}

export function webhooks() {
  if (seen.hooks === null) return nothing;
  const none = say`No webhooks. Add one to be notified when documents are ready or fail.`;
  return html`<h2>${say`Webhooks`}</h2>
    ${seen.hooks.length
      ? html`<ul role="list">${seen.hooks.map(one)}</ul>`
      : html`<p class="soft">${none}</p>`}
    <details><summary class="soft small">${say`Add a webhook`}</summary>
      ${addition.view({
        action: say`Add`,
        label: say`Add a webhook`,
        inline: true,
        body: (field) =>
          field({ name: "url", label: "URL", type: "url", required: true, placeholder: "https://example.org/foreask" }),
      })}</details>`;
}

/** @param {Api["WebhookView"]} hook */
function one(hook) {
  const { secret } = seen;
  /** @param {On<HTMLDetailsElement>} event */
  const opened = (event) => event.target.open && read(hook.id).catch((problem) => notify(problem.message));
  return html`<li class="webhook"><p class="bar-line"><span class="grow"><span class="name" dir="ltr">${hook.url}</span>
      <span class="soft small"
        >${hook.events.length ? hook.events.join(", ") : say`all events`}${troubleOf(hook)}</span></span>
      ${hook.disabled_at
        ? html`<button @click=${() => attempt(() => post(`/v1/webhooks/${hook.id}/resume`))}>${say`Enable`}</button>`
        : nothing}
      <button class="quiet" aria-label=${say`Delete the webhook ${hook.url}`}
        @click=${() => remove(hook)}>${icon("x")}</button></p>
    ${secret?.id === hook.id
      ? html`<p class="warning"
          >${say`Copy the secret now. It is not shown again: ${html`<code>${secret.value}</code>`}`}</p>`
      : nothing}
    <details @toggle=${opened}><summary class="small">${say`Recent deliveries`}</summary>${log(hook)}</details></li>`;
}

/** @param {Api["WebhookView"]} hook */
function troubleOf({ disabled_at: disabled, failing_since: failing }) {
  if (disabled) return html` \u00b7 <span class="bad">${say`disabled ${ago(disabled)}`}</span>`;
  return failing ? html` \u00b7 <span class="bad">${say`failing since ${ago(failing)}`}</span>` : nothing;
}

/** @param {Api["DeliveryView"]} each */
function deliveryState(each) {
  const parts = [STATES[each.state] ?? each.state];
  if (each.attempts > 1) parts.push(plural(each.attempts, "attempt"));
  if (each.next_attempt_at && each.attempts) parts.push(say`next ${until(each.next_attempt_at)}`);
  return parts.join(", ");
}

/** @param {Api["WebhookView"]} hook */
function log(hook) {
  const items = seen.log.get(hook.id);
  if (!items) return nothing;
  if (!items.length) return html`<p class="soft small">${say`No deliveries yet.`}</p>`;
  /** @param {Api["DeliveryView"]} each */
  const again = (each) =>
    attempt(async () => {
      await post(`/v1/webhooks/${hook.id}/deliveries/${each.id}/retry`);
      await read(hook.id);
    });
  return html`<div class="scrolls" tabindex="0" role="group" aria-label=${say`Recent deliveries`}><table>
    <caption class="hidden">${say`The last ${SHOWN} deliveries`}</caption>
    <thead><tr>
      <th scope="col">${say`event`}</th>
      <th scope="col">${say`subject`}</th>
      <th scope="col">${say`state`}</th>
      <th scope="col">${say`response`}</th>
      <th scope="col">${say`time`}</th>
      <th scope="col"><span class="hidden">${say`actions`}</span></th>
    </tr></thead>
    <tbody>${items.map((each) => html`<tr>
      <td>${each.type}</td>
      <td dir="auto">${each.data.external_id ?? each.data.collection ?? ""}</td>
      <td class=${MARKS[each.state] ?? ""}>${deliveryState(each)}</td>
      <td dir="auto">${each.status ?? ""} ${each.error ?? ""}</td>
      <td>${ago(each.created_at)}</td>
      <td><button class="quiet" @click=${() => again(each)}>${say`Send again`}</button></td>
    </tr>`)}</tbody></table></div>`;
}
