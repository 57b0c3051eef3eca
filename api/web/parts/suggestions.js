// Suggested questions of the chosen collection: generated questions that its documents answer.

import { html, nothing } from "../vendor/lit-html.js";
import { get } from "../api.js";
import { redraw } from "../store.js";
import { collections } from "./collections.js";
import { say } from "./words.js";

const SHOWN = 4;
const seen = { of: "", questions: /** @type {string[]} */ ([]) };

/** Load the suggestions of the chosen collection. The old ones remain until then. */
export async function suggest() {
  const of = collections.chosen;
  if (seen.of !== of) Object.assign(seen, { of, questions: [] });
  if (!collections.items.some((each) => each.name === of)) return; // nothing was uploaded to it yet
  const { items } = await get(
    `/v1/collections/${encodeURIComponent(of)}/suggestions?limit=${SHOWN}`,
  ).catch(() => ({ items: [] }));
  if (seen.of === of) seen.questions = items.map((each) => each.question);
  redraw();
}

export const hasSuggestions = () => seen.of === collections.chosen && seen.questions.length > 0;

/** @param {(question: string) => void} ask */
export function suggestions(ask) {
  if (!hasSuggestions()) return nothing;
  return html`<div class="empty"><h2>${say`Try one of these`}</h2>
    <ul class="examples">${seen.questions.map(
      (text) => html`<li><button class="quiet" dir="auto" @click=${() => ask(text)}>${text}</button></li>`,
    )}</ul></div>`;
}
