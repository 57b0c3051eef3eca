// Helpers of the screens of keys, limits and the audit log.

import { html } from "../vendor/lit-html.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

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
  value=${value ?? ""} placeholder=${say`no limit`}></label>`;
