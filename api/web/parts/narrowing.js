// The job, the reason of a failure or the reader to which a link has narrowed the list of documents: a part of its
// address.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { readerWords } from "./reader-words.js";
import { say } from "./words.js";

const NAMES = ["job", "reason", "errors", "readable_by"];

const query = () => new URLSearchParams(location.search);

/** Return the parameters of the API's list that the address adds. @returns {[string, string][]} */
export function narrowed() {
  const address = query();
  /** @type {[string, string][]} */
  const found = [];
  for (const name of ["job", "reason", "readable_by"]) {
    const value = address.get(name);
    if (value) found.push([name, value]);
  }
  if (address.get("errors")) found.push(["state", "failed,degraded"]);
  return found;
}

/** Remove the parameters from the address. */
export function widen() {
  const rest = query();
  for (const name of NAMES) rest.delete(name);
  history.replaceState(history.state, "", `${location.pathname}${String(rest) && `?${rest}`}`);
}

/** Show how the list is narrowed, with a button that ends it. @param {() => void} ended called when the list changes */
export function narrowing(ended) {
  const values = Object.fromEntries(narrowed());
  if (!values.job && !values.reason && !values.readable_by) return nothing;
  const clear = () => (widen(), ended());
  const job = html`<a href=${`${ROOT}/jobs`}>${say`one job`}</a>`;
  const reader = html`<span dir="auto">${readerWords(values.readable_by ?? "")}</span>`;
  const words = values.readable_by ? say`Readers: ${reader}`
    : values.reason ? say`Failed: ${html`<q dir="auto">${values.reason}</q>`}`
    : values.state ? say`Failed and incomplete documents of ${job}` : say`Documents of ${job}`;
  return html`<p class="tools narrowing"><span class="grow">${words}</span>
    <button class="quiet" @click=${clear}>${say`Show all documents`}</button></p>`;
}
