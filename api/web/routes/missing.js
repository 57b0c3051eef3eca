// The screen of an address that no screen has.

import { html } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { say } from "../parts/words.js";

export const title = say`Page not found`;
export const titled = true;

export function load() {}

export function unload() {}

export function view() {
  return html`<section class="column wide">
    <p class="soft">${say`No screen has this address. The link may be incomplete.`}</p>
    <p><a class="button" href=${`${ROOT}/ask`}>${say`Ask a question`}</a></p></section>`;
}
