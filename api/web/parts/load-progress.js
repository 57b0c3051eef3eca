// The job of the newest upload of this page, until it ends: its progress, time left and cost, and whether its documents
// are found already.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get } from "../api.js";
import { bar } from "./bars.js";
import { OPEN, doneOf, errorsOf, numbersOf, shareOf } from "./job-facts.js";
import { may } from "./permissions.js";
import { polling } from "./polling.js";
import { say } from "./words.js";

const FOUND = ["searchable", "ready", "degraded"]; // states of documents that queries find
const REFUSED = [403, 404]; // statuses after which another attempt is useless

/** @type {{id: string | null, job: Api["JobView"] | null, problem: any}} */
const seen = { id: null, job: null, problem: null };
const clock = polling(seen, read);

/** Follow a job instead of an earlier one; null: none. @param {string | null} id */
export function followJob(id) {
  if (id === seen.id) return; // several requests of an upload may end it
  clock.stop();
  Object.assign(seen, { id, job: null, problem: null });
  if (id && may("read")) clock.start();
}

async function read() {
  const { id } = seen;
  try {
    const job = await get(`/v1/jobs/${id ?? ""}`);
    if (id !== seen.id) return;
    seen.job = job;
    if (!OPEN.includes(job.state)) clock.stop();
  } catch (problem) {
    if (REFUSED.includes(problem.status)) clock.stop();
    throw problem;
  }
}

/**
 * Render the followed job.
 * @param {boolean} hasKnown whether the server had some of the files already: the job does not contain them
 */
export function jobProgress(hasKnown) {
  const { job } = seen;
  if (!job) return nothing;
  const isOpen = OPEN.includes(job.state);
  const numbers = html`<p class="soft small number">${[doneOf(job), ...numbersOf(job)].join(" \u00b7 ")}${
    errorsOf(job)}</p>`;
  return html`<div class="load-progress">${isOpen ? bar(shareOf(job), "working") : nothing}
    ${job.total ? numbers : nothing} ${askable(job, isOpen, hasKnown)}</div>`;
}

/**
 * Render a link to Ask, as soon as questions find the first of the documents.
 * @param {Api["JobView"]} job @param {boolean} isOpen @param {boolean} hasKnown
 */
function askable({ collection, documents }, isOpen, hasKnown) {
  const isFound = FOUND.some((state) => documents[state]) || (hasKnown && !isOpen);
  if (!isFound || !may("ask")) return nothing;
  const words = isOpen
    ? say`You can ask now. More is found as the documents are finished.`
    : say`You can ask about these documents now.`;
  const isAsk = [`${ROOT}/`, `${ROOT}/ask`].includes(location.pathname);
  const address = `${ROOT}/ask?${new URLSearchParams({ collection: collection ?? "" })}`;
  return html`<p class="bar-line"><span class="grow" role="status">${words}</span>
    ${isAsk ? nothing : html`<a class="button" href=${address}>${say`Ask a question`}</a>`}</p>`;
}
