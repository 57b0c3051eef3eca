// A screen about collections before the first one exists.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { empty } from "../kit/empty.js";
import { may } from "./permissions.js";
import { say } from "./words.js";

/** @param {unknown} text about the purpose of the screen */
export const noCollections = (text) => empty({
  sign: "library",
  title: say`No collections yet`,
  text,
  actions: may("write") ? html`<a class="button main" href=${`${ROOT}/documents`}>${say`Upload documents`}</a>
    ${may("manage") ? creation() : nothing}` : nothing,
});

const creation = () => html`<a class="button" href=${`${ROOT}/collections?new`}>${say`Create a collection`}</a>`;
