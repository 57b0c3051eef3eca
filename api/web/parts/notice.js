// Notices about completed actions, and the display of problems.

import { html, nothing } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { duration } from "./format.js";
import { icon } from "./icon.js";
import { say } from "./words.js";

/** @type {{text: string, undo?: () => void, then?: () => void} | null} */
let shown = null;
let clock = 0;

/**
 * Show a notice. With `undo` the action can be reverted while the notice is visible.
 * @param {string} text
 * @param {{undo?: () => void, seconds?: number, then?: () => void}} [options]
 */
export function notify(text, { undo, seconds = 6, then } = {}) {
  end();
  shown = { text, undo, then };
  clock = window.setTimeout(end, seconds * 1000);
  redraw();
}

function end() {
  window.clearTimeout(clock);
  const last = shown;
  shown = null;
  last?.then?.();
  redraw();
}

// A page that is left or reloaded ends its notice, so that an action which waits for it is not lost.
addEventListener("pagehide", end);

function undo() {
  if (!shown?.undo) return; // the notice has just closed
  const { undo: back } = shown;
  shown = { ...shown, then: undefined };
  end();
  back();
}

export function notice() {
  return html`<div class="notice-area" role="status">
    ${shown
      ? html`<div class="notice">
          <span>${shown.text}</span>
          ${shown.undo ? html`<button class="quiet" @click=${undo}>${say`Undo`}</button>` : nothing}
          <button class="quiet" aria-label=${say`Close`} @click=${end}>${icon("x")}</button>
        </div>`
      : nothing}
  </div>`;
}

let ticking = 0;

/**
 * Show a problem. A missing collection is shown as an empty screen, because its first upload creates it.
 * @param {{message: string, component?: string | null, requestId?: string | null, again?: number,
 *   isNoCollection?: boolean, names?: string[]} | null} problem
 * @param {(event: Event) => void} [again]
 */
export function problemCard(problem, again) {
  if (!problem) return nothing;
  if (problem.isNoCollection) {
    return html`<div class="empty" role="status"><h2>${say`No documents yet`}</h2>
      ${problem.names?.length
        ? html`<p class="soft small" lang="en" dir="ltr">${problem.message}</p>`
        : html`<p class="soft small">${say`This collection has no documents yet.`}</p>`}</div>`;
  }
  const seconds = Math.ceil(Math.max(0, (problem.again ?? 0) - Date.now()) / 1000);
  if (seconds && !ticking) ticking = window.setTimeout(() => ((ticking = 0), redraw()), 1000);
  const words = seconds ? say`Try again in ${duration(seconds)}` : say`Try again`;
  return html`<div class="trouble">
    <p role="alert">${problem.message}</p>
    <p class="soft small">
      ${problem.component ? html`${problem.component} \u00b7 ` : nothing}
      ${problem.requestId ? say`request ${html`<code>${problem.requestId}</code>`}` : nothing}
      ${again ? html`<button class="quiet" ?disabled=${seconds > 0} @click=${again}>${words}</button>` : nothing}
    </p>
  </div>`;
}
