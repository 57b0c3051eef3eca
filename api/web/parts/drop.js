// The drop zone: files that are dropped on it, or chosen, are uploaded to the selected collection.

import { html } from "../vendor/lit-html.js";
import { redraw, remembered } from "../store.js";
import { collections } from "./collections.js";
import { icon } from "./icon.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

/** @type {typeof import("./submission.js") | null} loaded when files are added */
let submission = null;
let isOver = false;

/** @param {import("./submission.js").Selection} given @param {() => void} uploaded called after each uploaded file */
export async function addFiles(given, uploaded) {
  const collection = collections.chosen; // the selection may change while the module is loaded
  try {
    submission ??= await import("./submission.js");
    await submission.submitFiles(given, collection, remembered("estimate") === "always", uploaded);
  } catch (problem) {
    notify(say`The files were not uploaded: ${problem.message}`);
  }
}

/** Render pending confirmations and the upload queue. */
export const pending = () => submission?.pendingUploads() ?? "";

/** @param {() => void} uploaded called after each uploaded file */
export function dropZone(uploaded) {
  /** @param {boolean} over */
  const hover = (over) => ((isOver = over), redraw());
  /** @param {Dropped} event */
  const dropped = (event) => {
    event.preventDefault();
    hover(false);
    const { items, files } = event.dataTransfer; // the browser empties it when the handler returns
    addFiles({ entries: [...items].flatMap((item) => item.webkitGetAsEntry?.() ?? []), files: [...files] }, uploaded);
  };
  /** @param {On<HTMLInputElement & {files: FileList}>} event */
  const chosen = (event) => {
    addFiles({ entries: [], files: [...event.target.files] }, uploaded);
    event.target.value = "";
  };
  /** @param {Event} event */
  const over = (event) => (event.preventDefault(), isOver || hover(true));
  return html`<div class="drop-zone ${isOver ? "over" : ""}" @dragover=${over} @dragleave=${() => hover(false)}
      @drop=${dropped}>
    ${icon("upload")}<p>${say`Drop files or folders here`}</p>
    <label class="button ${submission?.isOffering() ? "" : "main"}">${say`Choose files`}
      <input class="hidden" type="file" multiple @change=${chosen}></label></div>`;
}
