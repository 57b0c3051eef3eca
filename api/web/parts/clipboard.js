// Copying. Browsers offer the clipboard to pages over HTTPS and on this computer only; elsewhere, selected text is
// copied.

import { notify } from "./notice.js";
import { say } from "./words.js";

/** Copy a text, and report it. @param {string} text @param {string} words notice about the success */
export async function copy(text, words) {
  notify((await copied(text)) ? words : say`The browser did not allow copying.`);
}

/** Copy a text; return whether it was copied. @param {string} text */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedFromField(text);
  }
}

/** Copy a text from a field that is added for this purpose. @param {string} text */
function copiedFromField(text) {
  const focused = document.activeElement;
  const field = Object.assign(document.createElement("textarea"), { value: text, readOnly: true, className: "hidden" });
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  return isCopied;
}
