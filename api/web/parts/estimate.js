// The cost estimate that is shown before an upload, if a model has a price or the user always wants it.

import { html, nothing } from "../vendor/lit-html.js";
import { post } from "../api.js";
import { redraw } from "../store.js";
import { plural, duration, size, totalCost } from "./format.js";
import { icon } from "./icon.js";
import { say } from "./words.js";

const SAMPLE_FILES = 200; // files in a request
const SAMPLE_BYTES = 4 * 1024 * 1024 - 64 * 1024;
const SHOWN = 100; // names in the list
const FEW_BYTES = 100_000; // a single smaller file is uploaded without an estimate

/** @typedef {{file: File, path: string}} Chosen */
/**
 * @typedef {{files: Chosen[], collection: string, estimate: Api["EstimateView"] | null, leftOut: number,
 *   problem: any, send: (files: Chosen[]) => void}} Offer
 */
/** @type {Offer[]} one for each collection */
let offers = [];

/** @param {{file: File}[]} files */
export const isSmall = (files) => files.length === 1 && files[0].file.size < FEW_BYTES;

/**
 * Upload files, after confirmation of the estimate if `ask` is set. Files that wait for confirmation in the same
 * collection are added.
 * @param {Chosen[]} chosen @param {string} collection @param {boolean} ask whether to show the estimate first
 * @param {(files: Chosen[]) => void} send
 */
export async function offer(chosen, collection, ask, send) {
  const before = offers.find((each) => each.collection === collection);
  if (!ask && !before) return send(chosen);
  await replace(before, [...(before?.files ?? []), ...chosen], collection, send);
}

/**
 * Show the estimate of files instead of an earlier one. Files are uploaded at once if there is no number to confirm.
 * @param {Offer | undefined} before @param {Chosen[]} files
 * @param {string} collection @param {(files: Chosen[]) => void} send
 */
async function replace(before, files, collection, send) {
  /** @type {Offer} */
  const mine = { files, collection, estimate: null, leftOut: 0, problem: null, send };
  end(before);
  if (!files.length) return;
  offers = [...offers, mine];
  redraw();
  try {
    const { estimate, left_out: leftOut } = await post("/v1/documents/estimate", form(files, collection));
    if (!offers.includes(mine)) return;
    Object.assign(mine, { estimate, leftOut: leftOut.length });
    if (!estimate) upload(mine);
  } catch (problem) {
    mine.problem = problem;
  }
  redraw();
}

/** @param {Offer | undefined} offered */
function end(offered) {
  offers = offers.filter((each) => each !== offered);
  redraw();
}

/** @param {Offer} offered */
function upload(offered) {
  end(offered);
  offered.send(offered.files);
}

/** Return a form with an evenly spaced sample of the files. @param {Chosen[]} files @param {string} collection */
function form(files, collection) {
  const sample = new FormData();
  sample.append("collection", collection);
  sample.append("count", String(files.length));
  let bytes = 0;
  for (let index = 0; index < files.length; index += Math.ceil(files.length / SAMPLE_FILES)) {
    const { file } = files[index];
    if (bytes + file.size > SAMPLE_BYTES) continue;
    bytes += file.size;
    sample.append("file", file, file.name);
  }
  return sample;
}

// Files that wait for confirmation exist only in this page.
addEventListener("beforeunload", (event) => offers.length && event.preventDefault());

export const offering = () => offers.map(offered);
export const isOffering = () => offers.length > 0;

/** @param {Offer} each */
function offered(each) {
  const { files, collection, estimate, leftOut, problem } = each;
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  const total = html`<strong>${plural(files.length, "file")}, ${size(bytes)}</strong>`;
  const target = html`<span dir="auto">${say`\u201c${collection}\u201d`}</span>`;
  const waiting = html`. ${say`Estimating the cost\u2026`}`;
  const sampled = plural(leftOut, "file");
  const unknown = say`${sampled} in the sample cannot be estimated before parsing. The estimate assumes that they are like the others.`;
  return html`<section class="card" role="status" aria-label=${say`Cost estimate`}>
    <p>${say`${total} for ${target}`}${estimate ? html`: ${summary(estimate)}` : problem ? nothing : waiting}</p>
    ${problem ? html`<p class="soft">${problem.message}</p>` : nothing}
    ${leftOut ? html`<p class="soft small">${unknown}</p>` : nothing}
    ${names(each)}
    <p class="tools">
      <button class="main" ?disabled=${!estimate && !problem} @click=${() => upload(each)}>${say`Upload`}</button>
      <button @click=${() => end(each)}>${say`Cancel`}</button></p>
  </section>`;
}

/** List the files, each with a button that removes it. @param {Offer} each */
function names(each) {
  const { files, collection, send } = each;
  /** @param {Chosen} chosen */
  const without = (chosen) => replace(each, files.filter((file) => file !== chosen), collection, send);
  /** @param {Chosen} chosen */
  const row = (chosen) => html`<li class="bar-line"><span class="grow clip" dir="auto">${chosen.path}</span>
    <span class="soft number">${size(chosen.file.size)}</span>
    <button class="quiet" aria-label=${say`Remove ${chosen.path}`} @click=${() => without(chosen)}>${icon("x")}</button>
    </li>`;
  const others = files.length - SHOWN;
  return html`<ul class="names small" role="list" tabindex="0" aria-label=${say`Files`}>
    ${files.slice(0, SHOWN).map(row)}
    ${others > 0 ? html`<li class="soft">${say`and ${plural(others, "file")} more`}</li>` : nothing}</ul>`;
}

/** @param {Api["EstimateView"]} each */
function summary(each) {
  const tokens = each.prompt_tokens + each.completion_tokens;
  const parts = [say`about ${plural(each.calls, "call")}`, plural(tokens, "token")];
  parts.push(totalCost([each.llm_cost, each.embedding_cost]));
  if (each.seconds !== null) parts.push(say`${duration(each.seconds)} at the rate limits`);
  return parts.join(" \u00b7 ");
}
