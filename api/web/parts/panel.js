// The panel of a source in the history: on a small display it covers the answer, so Back closes it.

const COVERED = "(max-width: 63.99rem)"; // as in the style sheet
let isEntered = false; // whether the open panel has an entry of the history

/** Whether the shown entry of the history is the one of a panel, or was it before the browser went back. */
export const isOfPanel = () => isEntered || Boolean(history.state?.source);

/** Whether a panel covers the answer. */
export const covers = () => matchMedia(COVERED).matches;

/** Move the focus to the open panel, and give it an entry of the history if it covers the answer. @param {string} chunkId of its source */
export function entered(chunkId) {
  if (covers()) {
    const state = { ...history.state, source: chunkId };
    if (isEntered) history.replaceState(state, "");
    else history.pushState(state, "");
    isEntered = true;
  }
  requestAnimationFrame(() => document.getElementById("source-title")?.focus());
}

/** Close a panel: a panel with an entry of the history is closed by `restored`, after the browser went back. @param {() => void} close */
export function leave(close) {
  if (isEntered) history.back();
  else close();
}

/** Follow the history: close the panel if the entry has none, and return the chunk of the entry's panel. @param {() => void} close */
export function restored(close) {
  /** @type {string} */
  const chunkId = history.state?.source ?? "";
  if (!chunkId && isEntered) close();
  isEntered = Boolean(chunkId);
  return chunkId;
}
