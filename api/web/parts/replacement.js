// "Replace file": another file is uploaded under the external id of a document, as its next version.

import { get, upload } from "../api.js";
import { nameOf } from "./format.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

const SECONDS = 600; // the notice of a running upload closes when it ends

/**
 * Ask for a file, and upload it.
 * @param {Api["DocumentView"]} document @param {() => void} then called after the upload
 */
export function replaceFile({ id }, then) {
  const field = document.createElement("input");
  field.type = "file";
  field.addEventListener("change", () => field.files?.[0] && send(id, field.files[0], then));
  field.click();
}

/** @param {string} id @param {File} file @param {() => void} then */
async function send(id, file, then) {
  try {
    const replaced = await get(`/v1/documents/${id}`); // rows of a list have no metadata
    const form = new FormData();
    form.append("collection", replaced.collection);
    form.append("external_id", replaced.external_id);
    form.append("metadata", JSON.stringify(replaced.metadata ?? {}));
    form.append("file", file, file.name);
    notify(say`Uploading \u201c${file.name}\u201d\u2026`, { seconds: SECONDS });
    const { status } = await upload("/v1/documents", form, () => {}, new AbortController().signal);
    if (status === 200) notify(say`This file is stored already, so nothing changes.`);
    else notify(say`The file of \u201c${nameOf(replaced)}\u201d was replaced. Its text is being read.`);
    then();
  } catch (problem) {
    notify(say`The file was not replaced: ${problem.message}`);
  }
}
