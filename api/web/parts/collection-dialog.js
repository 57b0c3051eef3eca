// The open dialog of a screen of collections.

import { nothing } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { notify } from "./notice.js";

/** @type {(() => unknown) | null} renders the open dialog */
let opened = null;

/** Load the dialogs, and open one. @param {(all: typeof import("./collection-dialogs.js")) => unknown} open */
export async function openDialog(open) {
  try {
    await open(await import("./collection-dialogs.js"));
  } catch (problem) { // the server has a newer version of the page
    notify(problem.message);
  }
}

/** Render the open dialog. */
export const collectionDialog = () => opened?.() ?? nothing;

/** @param {() => unknown} view renders a dialog */
export function showDialog(view) {
  opened = view;
  redraw();
}

export function closeDialog() {
  opened = null;
  redraw();
}
