// The dialog for the API key, opened when the API requires one.

import { html, nothing } from "../vendor/lit-html.js";
import { storeKey, onKeyRequired } from "../api.js";
import { redraw } from "../store.js";
import { loadPermissions } from "./permissions.js";
import { say } from "./words.js";

/** @type {{resolve: () => void, state: import("../api.js").KeyState} | null} */
let pending = null;
const REASONS = {
  missing: say`This server requires an API key.`,
  unknown: say`This key is not valid. Check that you copied all of it.`,
  revoked: say`This key was revoked, so the server no longer accepts it.`,
  expired: say`This key has expired, so the server no longer accepts it.`,
};

onKeyRequired(
  (state) =>
    new Promise((resolve) => {
      pending = { resolve, state };
      redraw();
    }),
);

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
  return html`<dialog id="key-dialog" aria-labelledby="key-title" @cancel=${cancelled}
      @close=${() => pending && redraw()}>
    <form @submit=${given}>
      <h2 id="key-title">${say`API key required`}</h2>
      <p role=${pending.state === "missing" ? nothing : "alert"}>${REASONS[pending.state]}</p>
      <p class="soft small">${say`The operator creates keys with ${html`<code>foreask keys create</code>`}.`}</p>
      <label>${say`Key`} <input name="key" type="password" autocomplete="off" required autofocus></label>
      <label class="check"><input name="remember" type="checkbox"> ${say`Remember on this device`}</label>
      <button class="main" type="submit">${say`Continue`}</button>
    </form>
  </dialog>`;
}
