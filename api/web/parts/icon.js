// Icons. Each has words next to it, so screen readers ignore it.

import { html } from "../vendor/lit-html.js";
import { SHAPES } from "../vendor/lucide.js";

/** Return an icon in the size and colour of the text. @param {string} name of an icon of Lucide */
export const icon = (name) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${SHAPES[name]}</svg>`;
