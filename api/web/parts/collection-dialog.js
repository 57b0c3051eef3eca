// The open dialog of a screen of collections.

import { nothing } from "../vendor/lit-html.js";
import { redraw } from "../store.js";

/** @type {(() => unknown) | null} renders the open dialog */
let opened = null;

/** Return the module with the dialogs. */
export const dialogs = () => import("./collection-dialogs.js");

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
