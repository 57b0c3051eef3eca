// A card: an object of a list, with its name, facts and actions. A list with the class `kit-cards` contains it.
//
//   html`<ul role="list" class="kit-cards">${all.map((each) => card({ label: each.name, title: each.name,
//     facts: each.kind, actions: html`<button>${say`Sync now`}</button>`, body: progress(each) }))}</ul>`

import { html, nothing } from "../vendor/lit-html.js";

/**
 * @param {{label: string, title: unknown, facts?: unknown, actions?: unknown, body?: unknown}} parts
 *   label: name for screen readers; facts: one line below the title
 */
export const card = ({ label, title, facts, actions, body }) => html`<li class="kit-card" aria-label=${label}>
  <div class="kit-card-head">
    <div class="kit-card-name"><strong dir="auto">${title}</strong>
      ${facts ? html`<span class="kit-facts">${facts}</span>` : nothing}</div>
    ${actions ? html`<div class="kit-card-actions">${actions}</div>` : nothing}
  </div>
  ${body ?? nothing}</li>`;
