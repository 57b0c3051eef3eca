// The banner of a tab that views as a person.

import { html } from "../vendor/lit-html.js";
import { ROOT, stopViewing } from "../api.js";
import { say } from "./words.js";

/** @param {import("../api.js").Viewed} person */
export function viewBanner({ user, groups }) {
  const stop = () => (stopViewing(), location.assign(`${ROOT}/access`));
  const name = html`<strong>${user}</strong>${groups.length ? ` (${groups.join(", ")})` : ""}`;
  return html`<aside class="viewing" aria-label=${say`View as a person`}>
    <p class="grow" dir="auto">${say`You see documents as ${name}. The audit log has a record of it.`}</p>
    <button @click=${stop}>${say`Stop viewing`}</button></aside>`;
}
