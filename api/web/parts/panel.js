// The panel of a source in the history: on a small display it covers the answer, so Back closes it.

const COVERED = "(max-width: 63.99rem)"; // as in the style sheet
let isEntered = false; // whether the open panel has an entry of the history

/** Whether the entry of the history belongs to a panel, or did so before Back. */
export const isOfPanel = () => isEntered || Boolean(history.state?.source);

/** Whether a panel covers the answer. */
export const covers = () => matchMedia(COVERED).matches;

/**
 * Move the focus to the open panel, and give it an entry of the history if it covers the answer.
 * @param {string} chunkId of its source
 */
export function entered(chunkId) {
  if (covers()) {
    const state = { ...history.state, source: chunkId };
    if (isEntered) history.replaceState(state, "");
    else history.pushState(state, "");
    isEntered = true;
  }
  requestAnimationFrame(() => document.getElementById("source-title")?.focus());
}

/** Close a panel; `restored` closes a panel with an entry of the history, after Back. @param {() => void} close */
export function leave(close) {
  if (isEntered) history.back();
  else close();
}

/**
 * Follow the history: close the panel if the entry has none.
 * @param {() => void} close @returns {string} the chunk of the entry's panel, or nothing
 */
export function restored(close) {
  const chunkId = history.state?.source ?? "";
  if (!chunkId && isEntered) close();
  isEntered = Boolean(chunkId);
  return chunkId;
}
