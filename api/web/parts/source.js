// The source panel: a passage with its neighbours in the document, and its scores.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get } from "../api.js";
import { redraw } from "../store.js";
import { channelBars } from "./bars.js";
import { nameOf, positionOf, score } from "./format.js";
import { icon } from "./icon.js";
import { may, mayOpenOriginals } from "./permissions.js";
import { passage } from "./prose.js";
import { citedSentences, inAddress, toPassage } from "./sentences.js";
import { say } from "./words.js";

/** @type {Map<string, Api["ChunkInContextView"] | null>} */
const around = new Map();
const MOST = 50;

/** @param {string} chunkId */
function neighbours(chunkId) {
  if (!may("read")) return null;
  if (!around.has(chunkId)) {
    if (around.size >= MOST) around.clear();
    around.set(chunkId, null);
    get(`/v1/chunks/${chunkId}?before=1&after=1`).then(
      (read) => {
        around.set(chunkId, read);
        redraw();
        requestAnimationFrame(() => requestAnimationFrame(toPassage)); // the preceding chunk has moved the passage down
      },
      () => {}, // the passage is shown without its neighbours
    );
  }
  return around.get(chunkId);
}

/** @type {typeof import("./kinds.js") | null} */
let kinds = null;
const loadKinds = () => import("./kinds.js").then((loaded) => ((kinds = loaded), redraw()), () => {});

/** @import { Span } from "./sentences.js" */
/** @typedef {{chunk: Api["RetrievedChunkView"], sentences: Span[]}} Shown its sentences support the answer */

/** @type {typeof import("./original.js") | null} */
let original = null;
let beside = ""; // id of the chunk whose original is shown next to it

/** @param {string} chunkId empty: close the original */
async function showOriginal(chunkId) {
  beside = chunkId;
  if (chunkId) original ??= await import("./original.js");
  else original?.forgetOriginal();
  redraw();
  const focused = chunkId ? "original-title" : "open-original";
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(focused)?.focus()));
}

/** Show the original of a source for a key that cannot open the reader. @param {Shown} source */
function originalOf({ chunk, sentences }) {
  if (beside !== chunk.chunk_id || !original) return nothing;
  /** @type {any} */
  const document = { ...chunk, id: chunk.document_id, version: -1 }; // the passage is of the live version
  /** @type {any} */
  const passageOf = { ...chunk, id: chunk.chunk_id };
  return original.originalView(document, passageOf, sentences, () => showOriginal(""));
}

/** Link to the document and to its original, as far as the key may open them. @param {Shown} source */
function links({ chunk, sentences }) {
  const address = `${ROOT}/documents/${chunk.document_id}?chunk=${chunk.chunk_id}${inAddress(sentences)}`;
  if (may("read")) {
    return html`<a href=${address}>${say`Open in document`}</a> ${kinds?.linkTo(address, chunk) ?? nothing}`;
  }
  const kind = mayOpenOriginals() && chunk.version !== undefined ? kinds?.kindOf(chunk) : null;
  if (!kinds || !kind) return nothing;
  const open = () => showOriginal(chunk.chunk_id);
  return html`<button id="open-original" @click=${open}>${kinds.openingOf(kind, chunk.page)}</button>`;
}

/**
 * @param {Shown} source
 * @param {number} many number of sources @param {number} index
 * @param {(index: number) => void} show @param {() => void} close
 */
export function sourcePanel(source, many, index, show, close) {
  const { chunk, sentences } = source;
  const read = neighbours(chunk.chunk_id);
  if (!kinds) loadKinds();
  const isScan = typeof read?.chunk.confidence === "number";
  const { key, marked, line } = citedSentences(chunk.chunk_id, chunk.text, sentences, isScan);
  const name = nameOf(chunk);
  const file = chunk.filename ?? chunk.external_id;
  const place = [file === name ? "" : file, positionOf(chunk)].filter(Boolean).join(" \u00b7 ");
  /** @param {KeyboardEvent} event */
  const pressed = (event) => event.key === "Escape" && close();
  return html`${originalOf(source)}<aside class="detail" aria-labelledby="source-title" @keydown=${pressed}>
    <header class="bar-line">
      <h2 id="source-title" class="grow" tabindex="-1">${say`Source ${index + 1} of ${many}`}</h2>
      <button class="quiet" aria-label=${say`Previous source`} ?disabled=${index === 0}
        @click=${() => show(index - 1)}>${icon("chevron-left")}</button>
      <button class="quiet" aria-label=${say`Next source`} ?disabled=${index === many - 1}
        @click=${() => show(index + 1)}>${icon("chevron-right")}</button>
      <button class="quiet" aria-label=${say`Close`} @click=${close}>${icon("x")}</button>
    </header>
    <p class="name" dir="auto">${name}</p>
    ${place ? html`<p class="soft small" dir="auto">${place}</p>` : nothing}
    ${line}
    <div class="reading" dir="auto" tabindex="0">
      ${read?.before.map((each) => html`<div class="around">${passage(each.text, isScan)}</div>`) ?? nothing}
      <div class=${marked} data-passage=${key}>${passage(chunk.text, isScan)}</div>
      ${read?.after.map((each) => html`<div class="around">${passage(each.text, isScan)}</div>`) ?? nothing}
    </div>
    ${chunk.channels
      ? html`<h3>${say`Why it matched`} <span class="soft number">${score(chunk.score)}</span></h3>` : nothing}
    ${channelBars(chunk.channels, chunk.matched_question)}
    <p class="tools">${links(source)}</p>
  </aside>`;
}
