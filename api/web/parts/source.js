// The source panel: a passage with its neighbours in the document, and its scores.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get } from "../api.js";
import { redraw } from "../store.js";
import { channelBars } from "./bars.js";
import { path, score } from "./format.js";
import { icon } from "./icon.js";
import { passage } from "./prose.js";
import { citedSentences, inAddress, toPassage } from "./sentences.js";
import { say } from "./words.js";

/** @type {Map<string, Api["ChunkInContextView"] | null>} */
const around = new Map();
const MOST = 50;

/** @param {string} chunkId */
function neighbours(chunkId) {
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
let original = null;
const loadOriginal = () => import("./kinds.js").then((loaded) => ((original = loaded), redraw()), () => {});

/**
 * @param {{number: number, chunk: Api["RetrievedChunkView"], sentences: [number, number][]}} source its sentences support the answer
 * @param {number} many number of sources @param {number} index @param {(index: number) => void} show @param {() => void} close
 */
export function sourcePanel({ number, chunk, sentences }, many, index, show, close) {
  const read = neighbours(chunk.chunk_id);
  const where = path(chunk.heading_path);
  const address = `${ROOT}/documents/${chunk.document_id}?chunk=${chunk.chunk_id}${inAddress(sentences)}`;
  if (!original) loadOriginal();
  const { key, marked, line } = citedSentences(chunk.chunk_id, chunk.text, sentences);
  /** @param {KeyboardEvent} event */
  const pressed = (event) => event.key === "Escape" && close();
  return html`<aside class="detail" aria-labelledby="source-title" @keydown=${pressed}>
    <header class="bar-line">
      <h2 id="source-title" tabindex="-1">${say`Source ${number}`}</h2>
      <span class="grow soft small">${say`${index + 1} of ${many}`}</span>
      <button class="quiet" aria-label=${say`Previous source`} ?disabled=${index === 0} @click=${() => show(index - 1)}>${icon("chevron-left")}</button>
      <button class="quiet" aria-label=${say`Next source`} ?disabled=${index === many - 1} @click=${() => show(index + 1)}>${icon("chevron-right")}</button>
      <button class="quiet" aria-label=${say`Close`} @click=${close}>${icon("x")}</button>
    </header>
    <p class="name" dir="auto">${where || chunk.title || chunk.external_id}</p>
    <p class="soft small" dir="auto">${chunk.filename ?? chunk.external_id}${chunk.page ? ` \u00b7 ${say`page ${chunk.page}`}` : ""}</p>
    ${line}
    <div class="reading" dir="auto" tabindex="0">
      ${read?.before.map((each) => html`<div class="around">${passage(each.text)}</div>`) ?? nothing}
      <div class=${marked} data-passage=${key}>${passage(chunk.text)}</div>
      ${read?.after.map((each) => html`<div class="around">${passage(each.text)}</div>`) ?? nothing}
    </div>
    ${chunk.channels ? html`<h3>${say`Why it matched`} <span class="soft number">${score(chunk.score)}</span></h3>` : nothing}
    ${channelBars(chunk.channels, chunk.matched_question)}
    <p class="tools"><a href=${address}>${say`Open in document`}</a>
      ${original?.linkTo(address, chunk) ?? nothing}</p>
  </aside>`;
}
