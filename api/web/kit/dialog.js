// Dialogs: a question before an action that cannot be undone, and a window for a form.
//
//   if (await confirmed({ title: say`Delete the budget?`, text: say`Questions are generated without a limit.`,
//     action: say`Delete budget`, danger: true })) await remove();
//
//   ${isAdding ? dialog({ title: say`New collection`, body: form.view(…), close: () => show(false) }) : nothing}
//
// If an action can be undone, do it at once, and show a notice with `undo` instead of a question.

import { html, nothing } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { say } from "../parts/words.js";

/** @typedef {{title: unknown, text?: unknown, action: unknown, danger?: boolean}} Question danger: data is deleted */

/** @type {{facts: Question, answer: (isSure: boolean) => void} | null} */
let asked = null;

/** Ask a question; false: the user cancelled it. @param {Question} facts @returns {Promise<boolean>} */
export const confirmed = (facts) =>
  new Promise((resolve) => {
    asked?.answer(false);
    /** @param {boolean} isSure */
    const answer = (isSure) => {
      resolve(isSure);
      if (asked?.answer === answer) asked = null; // it may be the next question
      redraw();
    };
    asked = { facts, answer };
    redraw();
  });

/** Close the question, as when another screen is opened. */
export const dismiss = () => asked?.answer(false);

/** Render the question. The frame of the page contains it. */
export function confirmation() {
  if (!asked) return nothing;
  const {
    facts: { title, text, action, danger },
    answer,
  } = asked;
  /** @param {boolean} isSure @returns {(event: any) => void} */
  const answered = (isSure) => (event) => {
    event.target.closest?.("dialog")?.close(); // it returns the focus; a dialog that is removed does not
    answer(isSure);
  };
  const body = html`${text ? html`<p>${text}</p>` : nothing}<p class="kit-actions">
    <button class=${danger ? "kit-destroy" : "main"} type="button" @click=${answered(true)}>${action}</button>
    <button type="button" autofocus @click=${answered(false)}>${say`Cancel`}</button></p>`;
  return dialog({ id: "confirmation", title, body, close: () => answer(false) });
}

/**
 * Render an open dialog. Render nothing to close it, or call `close()` of its element, which returns the focus.
 *
 * @param {{title: unknown, body: unknown, close: () => void, id?: string}} facts
 *   close: called when the user closes it; id: unique on the screen
 */
export function dialog({ title, body, close, id = "dialog" }) {
  queueMicrotask(() => {
    const element = /** @type {HTMLDialogElement | null} */ (document.getElementById(id));
    if (element && !element.open) element.showModal();
  });
  /** @param {any} event */
  const closed = (event) => event.target.id === id && close();
  return html`<dialog class="kit-dialog" id=${id} aria-labelledby=${`${id}-title`} @close=${closed}>
    <h2 id=${`${id}-title`}>${title}</h2>${body}</dialog>`;
}
