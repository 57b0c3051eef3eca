// What files will cost, said before they are sent: where a model has a price, or where one always wants to know.

import { html, nothing } from "../vendor/lit-html.js";
import { post } from "../api.js";
import { changed } from "../store.js";
import { count, counted, duration, money, size } from "./format.js";

const SAMPLE_FILES = 200; // of a form
const SAMPLE_BYTES = 4 * 1024 * 1024 - 64 * 1024;
const FEW_BYTES = 100_000; // of one file that goes at once

/** @typedef {{file: File, path: string}} Chosen */
/** @type {{files: Chosen[], collection: string, estimate: Api["EstimateView"] | null, leftOut: number, problem: any, send: (files: Chosen[]) => void}[]} one for each collection */
let offers = [];

/** @param {{file: File}[]} files */
export const isSmall = (files) => files.length === 1 && files[0].file.size < FEW_BYTES;

/**
 * Send files, at once or when somebody has seen what they will cost. Those of the collection that wait for that wait with them.
 * @param {Chosen[]} chosen @param {string} collection @param {boolean} ask whether somebody is to see it @param {(files: Chosen[]) => void} send
 */
export async function offer(chosen, collection, ask, send) {
  const before = offers.find((each) => each.collection === collection);
  if (!ask && !before) return send(chosen);
  const files = [...(before?.files ?? []), ...chosen];
  /** @type {typeof offers[number]} */
  const mine = { files, collection, estimate: null, leftOut: 0, problem: null, send };
  offers = [...offers.filter((each) => each !== before), mine];
  changed();
  try {
    const reply = await post("/v1/documents/estimate", form(files, collection));
    Object.assign(mine, { estimate: reply.estimate, leftOut: reply.left_out.length });
    if (!reply.estimate) mine.problem = { message: "The cost of these files cannot be estimated before they are parsed." };
  } catch (problem) {
    mine.problem = problem;
  }
  changed();
}

/** Some of the files, from all over the list, that stand for the others. @param {Chosen[]} files @param {string} collection */
function form(files, collection) {
  const sample = new FormData();
  sample.append("collection", collection);
  sample.append("count", String(files.length));
  let bytes = 0;
  for (let place = 0; place < files.length; place += Math.ceil(files.length / SAMPLE_FILES)) {
    const { file } = files[place];
    if (bytes + file.size > SAMPLE_BYTES) continue;
    bytes += file.size;
    sample.append("file", file, file.name);
  }
  return sample;
}

// Files that nobody has sent yet are nowhere else.
addEventListener("beforeunload", (event) => offers.length && event.preventDefault());

export const offering = () => offers.map(offered);

/** @param {typeof offers[number]} each */
function offered(each) {
  const { files, collection, estimate, leftOut, problem, send } = each;
  const end = () => ((offers = offers.filter((other) => other !== each)), changed());
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  return html`<section class="card" role="status" aria-label="Cost estimate">
    <p><strong>${counted(files.length, "file")}, ${size(bytes)}</strong> for <span dir="auto">\u201c${collection}\u201d</span>${estimate ? html`: ${told(estimate)}` : problem ? nothing : ". Estimating the cost\u2026"}</p>
    ${problem ? html`<p class="soft">${problem.message}</p>` : nothing}
    ${leftOut ? html`<p class="soft small">${counted(leftOut, "file")} in the sample cannot be estimated before parsing. The estimate assumes that they are like the others.</p>` : nothing}
    <p class="soft small">Nothing has been uploaded yet. Reloading the page discards this selection.</p>
    <p class="tools"><button class="main" ?disabled=${!estimate && !problem} @click=${() => (end(), send(files))}>Upload</button><button @click=${end}>Cancel</button></p>
  </section>`;
}

/** @param {Api["EstimateView"]} each */
function told(each) {
  const cost = [each.llm_cost, each.embedding_cost].filter((one) => one !== null).reduce((sum, one) => sum + one, 0);
  const parts = [`about ${counted(each.calls, "call")}`, `${count(each.prompt_tokens + each.completion_tokens)} tokens`];
  if (each.llm_cost !== null || each.embedding_cost !== null) parts.push(money(cost));
  if (each.seconds !== null) parts.push(`${duration(each.seconds)} at the rate limits`);
  return parts.join(" \u00b7 ");
}
