// The links between the screens of operations, and the one-time display of a secret.

import { html } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { notify } from "./notice.js";

const SCREENS = [["/operations", "Keys"], ["/operations/limits", "Limits and budgets"], ["/operations/audit", "Audit"]];

/** @param {string} title of the current screen */
export const tabs = (title) => html`<div class="tabs" role="group" aria-label="Operations">${SCREENS.map(([path, words]) => html`<a class="button"
  href=${ROOT + path} aria-current=${words === title ? "page" : "false"}>${words}</a>`)}</div>`;

/** Run an action, and show its problem. @param {() => Promise<unknown>} action */
export async function attempt(action) {
  try {
    await action();
    return true;
  } catch (problem) {
    notify(problem.message, { seconds: 10 });
    return false;
  }
}

/** Render a number field of a limit. @param {string} name @param {string} words @param {number | null | undefined} value @param {boolean} whole */
export const limitField = (name, words, value, whole) => html`<label>${words} <input name=${name} type="number" min=${whole ? 1 : 0} step=${whole ? 1 : "any"}
  value=${value ?? ""} placeholder="no limit"></label>`;
