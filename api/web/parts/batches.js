// Batches at the provider, with their progress, and a button to cancel them.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { get, post } from "../api.js";
import { redraw } from "../store.js";
import { card } from "../kit/card.js";
import { confirmed } from "../kit/dialog.js";
import { bar } from "./bars.js";
import { ago, count, money, plural, size } from "./format.js";
import { notify } from "./notice.js";
import { may } from "./permissions.js";
import { say } from "./words.js";

const SHOWN = 10;
const NEXT = /** @type {Record<string, string>} */ ({
  planning: say`Chunks are added until no further one arrives for a while, or the batch is full.`,
  planned: say`Its file is uploaded next.`,
  creating: say`The provider has its file, and is asked to start it.`,
  running: say`The provider works on it, for up to 24 hours.`,
  collecting: say`Its results are being stored.`,
});
const CANCELLED = say`It is being cancelled: results that the provider has by then are stored.`;
const STATES = /** @type {Record<string, string>} */ ({
  planning: say`planning`, planned: say`planned`, creating: say`creating`, running: say`running`,
  collecting: say`collecting`,
  done: say`done`, failed: say`failed`,
});
const CANCELLABLE = ["planning", "planned", "creating", "running"];

/** @type {{items: Api["BatchView"][]}} */
const seen = { items: [] };

/** Read the newest batches; they are not shown if that fails. */
export async function readBatches() {
  seen.items = await get(`/v1/batches?limit=${SHOWN}`).then((page) => page.items, () => seen.items);
}

/** @param {Api["BatchView"]} batch */
async function cancel(batch) {
  try {
    await post(`/v1/batches/${batch.id}/cancel`);
    await readBatches();
    redraw();
  } catch (problem) {
    notify(problem.message);
  }
}

/** Render the newest batches; nothing if the tenant has none. */
export function batches() {
  if (!seen.items.length) return nothing;
  return html`<h2>${say`Batches`}</h2><ul role="list" class="kit-cards">${repeat(seen.items, idOf, one)}</ul>`;
}

/** @param {Api["BatchView"]} batch */
const idOf = ({ id }) => id;

/** @param {Api["BatchView"]} batch */
function one(batch) {
  const name = say`Batch of ${plural(batch.lines, "request")}`;
  const isOpen = CANCELLABLE.includes(batch.state);
  const next = isOpen && batch.cancelled_at ? CANCELLED : NEXT[batch.state];
  const done = Math.max(batch.done, batch.settled);
  const facts = [
    say`${count(batch.done)} done at the provider`, say`${count(batch.settled)} settled`, size(batch.bytes),
    ...(batch.cost === null ? [] : [money(batch.cost)]),
  ];
  return card({
    label: name, title: name, actions: isOpen && !batch.cancelled_at && may("write") ? button(batch, name) : null,
    facts: [
      STATES[batch.state] ?? batch.state, say`planned ${ago(batch.created_at)}`,
      ...(batch.ended_at ? [say`ended ${ago(batch.ended_at)}`] : []),
    ].join(" \u00b7 "),
    body: html`${batch.ended_at ? nothing : bar(batch.lines ? done / batch.lines : 0, "working")}
    <p class="soft small number">${facts.join(" \u00b7 ")}</p>
    ${next ? html`<p class="small">${next}</p>` : nothing}
    ${batch.error ? html`<p class="bad small" dir="auto">${batch.error}</p>` : nothing}`,
  });
}

/** @param {Api["BatchView"]} batch @param {string} name */
function button(batch, name) {
  const asked = async () => {
    const isSure = await confirmed({
      title: say`Cancel this batch?`, text: say`Its results are stored; other requests go to the next batch.`,
      action: say`Cancel the batch`, danger: true,
    });
    if (isSure) await cancel(batch);
  };
  return html`<button class="quiet" aria-label=${say`Cancel: ${name}`} @click=${asked}>${say`Cancel`}</button>`;
}
