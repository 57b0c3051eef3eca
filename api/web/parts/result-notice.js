// The notice about a result. The server's sentence is English; its codes have sentences in the page's language.

import { html, nothing } from "../vendor/lit-html.js";
import { language, say } from "./words.js";

/** @type {Record<string, string>} */
const SENTENCES = {
  index_damaged: say`The index of this collection is being repaired, so passages may be missing.`,
  no_documents: say`This collection has no documents yet.`,
  nothing_searchable: say`No document of this collection is searchable yet.`,
  unknown_fields: say`No document has the fields of the filter.`,
  nothing_chosen: say`No document passes the filter.`,
};

/** @param {{notice: string | null, noticeCodes: string[]}} turn */
export function resultNotice({ notice, noticeCodes: codes }) {
  if (!notice) return nothing;
  const isKnown = language !== "en" && codes.length > 0 && codes.every((code) => code in SENTENCES);
  if (isKnown) return html`<p class="warning">${codes.map((code) => SENTENCES[code]).join(" ")}</p>`;
  return html`<p class="warning" lang="en" dir="ltr">${notice}</p>`;
}
