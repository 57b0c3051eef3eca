// The screen to which the identity provider sends a person: it signs in, and opens the screen from before.

import { html } from "../vendor/lit-html.js";
import { ROOT, get } from "../api.js";
import { redraw } from "../store.js";
import { finish, signIn } from "../parts/sign-in.js";
import { say } from "../parts/words.js";

export const title = say`Sign in`;
export const titled = true;

let reason = "";

/** @param {{query: URLSearchParams}} address */
export async function load({ query }) {
  history.replaceState(null, "", location.pathname); // the code is used once, and no history shall have it
  try {
    const screen = await finish(query);
    location.replace(ROOT + screen);
  } catch (problem) {
    reason = problem.message;
    redraw();
  }
}

export function unload() {}

async function again() {
  try {
    await signIn(await get("/v1/sign-in"), "/");
  } catch (problem) {
    reason = problem.message;
    redraw();
  }
}

export function view() {
  const failed = html`<p role="alert">${reason}</p>
    <p><button class="main" @click=${again}>${say`Sign in again`}</button></p>`;
  return html`<section class="column wide">
    ${reason ? failed : html`<p class="soft" role="status">${say`Signing in…`}</p>`}</section>`;
}
