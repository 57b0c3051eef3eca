// Icons. Each has words next to it or in the name of its button, so screen readers ignore it.

import { html } from "../vendor/lit-html.js";
import { SHAPES } from "../vendor/lucide.js";

/** Return an icon in the size and colour of the text. @param {string} name of an icon of Lucide */
export const icon = (name) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${SHAPES[name]}</svg>`;

/** The logo: a question mark on a page, as in the icon of the tab. */
export const logo = () => html`<svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
  <rect width="32" height="32" rx="7"></rect>
  <path d="M11 12a5 5 0 1 1 7.6 4.3c-1.7 1-2.6 1.8-2.6 3.7"></path><circle cx="16" cy="25" r="2"></circle></svg>`;
