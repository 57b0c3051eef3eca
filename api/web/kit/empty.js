// An empty list: a sentence about its contents, and a button for the first item.
//
//   empty({ sign: "folder-sync", title: say`No sources yet`, text: say`A source is a folder, a bucket or a site.`,
//     actions: html`<button class="main" @click=${start}>${say`Add a source`}</button>` })

import { html, nothing } from "../vendor/lit-html.js";
import { icon } from "../parts/icon.js";

/** @param {{title: unknown, text?: unknown, sign?: string, actions?: unknown}} parts sign: name of an icon */
export const empty = ({ title, text, sign, actions }) => html`<div class="kit-empty">
  ${sign ? icon(sign) : nothing}<h2>${title}</h2>${text ? html`<p>${text}</p>` : nothing}
  ${actions ? html`<p class="kit-actions">${actions}</p>` : nothing}</div>`;
