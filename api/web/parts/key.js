// The dialog that asks for a key where the API does.

import { html, nothing } from "../vendor/lit-html.js";
import { key, keepKey, whenKeyIsNeeded } from "../api.js";
import { changed } from "../store.js";
import { loadMe } from "./me.js";

/** @type {{resolve: () => void, refused: boolean} | null} */
let wanted = null;

whenKeyIsNeeded(
  () =>
    new Promise((resolve) => {
      wanted = { resolve, refused: key() !== "" };
      changed();
    }),
);

/** @param {On<HTMLFormElement>} event */
function given(event) {
  event.preventDefault();
  const fields = new FormData(event.target);
  const value = String(fields.get("key") ?? "").trim();
  if (!value) return;
  keepKey(value, fields.has("remember"));
  const asked = wanted; // null: it was answered already, and the dialog goes with the next frame
  wanted = null;
  changed();
  asked?.resolve();
  loadMe(); // another key may do other things
}

const PAUSE = 1000; // milliseconds
let typedAt = -PAUSE;
document.addEventListener("keydown", (event) => (typedAt = event.key === "Enter" ? -PAUSE : performance.now()), true);

/** Open the dialog, but not under the fingers of somebody who types: the rest would go into the field of the key. @param {HTMLDialogElement | null} element */
function opened(element) {
  if (!element || element.open) return;
  const types = performance.now() - typedAt < PAUSE && document.activeElement?.matches("input, textarea");
  if (types) window.setTimeout(changed, PAUSE);
  else element.showModal();
}

export function keyDialog() {
  if (!wanted) return nothing;
  queueMicrotask(() => opened(document.querySelector("#key-dialog")));
  /** @param {Event} event */
  const cancelled = (event) => event.preventDefault();
  return html`<dialog id="key-dialog" aria-labelledby="key-title" @cancel=${cancelled} @close=${() => wanted && changed()}>
    <form @submit=${given}>
      <h2 id="key-title">API key required</h2>
      <p>${wanted.refused ? "The server no longer accepts this key." : "This server requires an API key."}
        The operator creates keys with <code>foreask keys make</code>.</p>
      <label>Key <input name="key" type="password" autocomplete="off" required autofocus></label>
      <label class="check"><input name="remember" type="checkbox"> Remember on this device</label>
      <button class="main" type="submit">Continue</button>
    </form>
  </dialog>`;
}
