// The dialog for the API key, opened when the API requires one. The module is loaded then, or after the first screen.

import { html, nothing } from "../vendor/lit-html.js";
import { key, storeKey } from "../api.js";
import { redraw } from "../store.js";
import { loadPermissions } from "./permissions.js";
import { say } from "./words.js";

/** @import { Refusal } from "../api.js" */
/**
 * `signInForm` draws the dialog of a server at which persons sign in; `problem`: why they cannot sign in now.
 * @typedef {{resolve: () => void, refusal: Refusal, problem: string,
 *   signInForm: ((words: string, keyForm: unknown) => unknown) | null}} Pending
 */
/** @type {Pending | null} */
let pending = null;
/** @type {Record<string, string>} */
const REASONS = {
  missing: say`This server requires an API key.`,
  unknown: say`This key is not valid. Check that you copied all of it.`,
  revoked: say`This key was revoked, so the server no longer accepts it.`,
  expired: say`This key has expired, so the server no longer accepts it.`,
};

/** Show the dialog; resolve when a key was entered. @param {Refusal} refusal */
export async function ask(refusal) {
  const signing = await import("./sign-in.js");
  const [provider, problem] = await signing.providerOf();
  await new Promise((resolve) => {
    const signInForm = provider && signing.signInForm.bind(null, provider, refusal);
    pending = { resolve: () => resolve(null), refusal, problem, signInForm };
    redraw();
  });
}

/** @param {On<HTMLFormElement>} event */
function given(event) {
  event.preventDefault();
  const fields = new FormData(event.target);
  const value = String(fields.get("key") ?? "").trim();
  if (!value) return;
  storeKey(value, fields.has("remember"));
  const request = pending; // null: the form was submitted twice
  pending = null;
  event.target.closest("dialog")?.close(); // it returns the focus; a dialog that is removed does not
  redraw();
  request?.resolve();
  loadPermissions(); // another key may have other scopes
}

const PAUSE = 1000; // milliseconds
let typedAt = -PAUSE;
document.addEventListener("keydown", (event) => (typedAt = event.key === "Enter" ? -PAUSE : performance.now()), true);

/**
 * Open the dialog, but not while the user types: the rest of the text would go into the key field.
 * @param {HTMLDialogElement | null} element
 */
function opened(element) {
  if (!element || element.open) return;
  const types = performance.now() - typedAt < PAUSE && document.activeElement?.matches("input, textarea");
  if (types) window.setTimeout(redraw, PAUSE);
  else element.showModal();
}

export function keyDialog() {
  if (!pending) return nothing;
  queueMicrotask(() => opened(document.querySelector("#key-dialog")));
  /** @param {Event} event */
  const cancelled = (event) => event.preventDefault();
  const { refusal, problem, signInForm } = pending;
  return html`<dialog id="key-dialog" aria-labelledby="key-title" @cancel=${cancelled}
      @close=${() => pending && redraw()}>
    ${signInForm ? signInForm(key() ? reasonOf(refusal) : "", otherForm()) : keyForm(refusal, problem)}
  </dialog>`;
}

/** @param {Refusal} refusal */
const reasonOf = ({ state, detail }) => REASONS[state] ?? detail;

/** @param {Refusal} refusal @param {string} problem why persons cannot sign in now */
const keyForm = (refusal, problem) => html`<form @submit=${given}>
  <h2 id="key-title">${say`API key required`}</h2>
  <p role=${refusal.state === "missing" ? nothing : "alert"}>${reasonOf(refusal)}</p>
  <p class="soft small">${say`The operator creates keys with ${html`<code>foreask keys create</code>`}.`}</p>
  ${problem ? html`<p class="soft small" role="alert">${problem}</p>` : nothing}
  ${keyFields(true)}
  <button class="main" type="submit">${say`Continue`}</button>
</form>`;

/** @param {boolean} first whether the field gets the focus */
const keyFields = (first) => html`
  <label>${say`Key`} <input name="key" type="password" autocomplete="off" required ?autofocus=${first}></label>
  <label class="check"><input name="remember" type="checkbox"> ${say`Remember on this device`}</label>`;

/** The form for a key below the sign-in. */
const otherForm = () => html`<form @submit=${given}>
  ${keyFields(false)}<button type="submit">${say`Continue`}</button></form>`;
