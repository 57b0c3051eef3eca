// The original of a document next to a passage: a PDF at its page, a picture, or the table of a spreadsheet.

import { html, nothing } from "../vendor/lit-html.js";
import { bytes } from "../api.js";
import { redraw, redrawNow } from "../store.js";
import { nameOf } from "./format.js";
import { icon } from "./icon.js";
import { kindOf } from "./kinds.js";
import { say } from "./words.js";

/** @typedef {[number, number]} Span */
/**
 * A shown original. `note` describes the shown part; `show` shows the part with a passage.
 * @typedef {{
 *   note: () => string,
 *   tools: () => unknown,
 *   body: () => unknown,
 *   show: (chunk: Api["ChunkView"], sentences: Span[]) => Promise<void>,
 *   onKey: (event: KeyboardEvent) => void,
 *   close: () => void,
 * }} Viewer
 */
/**
 * @typedef {{
 *   key: string,
 *   file: string,
 *   viewer: Viewer | null,
 *   opening: Promise<Viewer> | null,
 *   problem: string,
 * }} Original
 */

/** @returns {Original} */
const none = () => ({ key: "", file: "", viewer: null, opening: null, problem: "" });
let current = none();

/** Release the original. */
export function forgetOriginal() {
  current.viewer?.close();
  current = none();
}

/**
 * @param {Api["DocumentView"]} document
 * @param {Api["ChunkView"]} chunk
 * @param {Span[]} sentences of its text
 * @param {() => void} close
 */
export function originalView(document, chunk, sentences, close) {
  show(document, chunk, sentences);
  const { viewer, problem } = current;
  /** @param {KeyboardEvent} event */
  const pressed = (event) => (event.key === "Escape" ? close() : viewer?.onKey(event));
  return html`<section class="original" aria-labelledby="original-title" @keydown=${pressed}>
    <header class="bar-line">
      <h2 class="grow clip" id="original-title" tabindex="-1" dir="auto"
        >${document.filename ?? nameOf(document)}</h2>
      ${viewer && !problem ? viewer.tools() : nothing}
      <button class="quiet" aria-label=${say`Close original`} @click=${close}>${icon("x")}</button></header>
    <p class="small soft" role="status">${problem || viewer?.note() || say`Opening the original\u2026`}</p>
    ${viewer && !problem ? viewer.body() : nothing}
  </section>`;
}

/**
 * Show the original, unless it is shown.
 * @param {Api["DocumentView"]} document
 * @param {Api["ChunkView"]} chunk
 * @param {Span[]} sentences
 */
async function show(document, chunk, sentences) {
  const file = `${document.id} ${chunk.version}`;
  const key = `${file} ${chunk.id} ${sentences.join(" ")}`;
  if (current.key === key) return;
  if (current.file !== file) {
    forgetOriginal();
    current.file = file;
  }
  current.key = key;
  const now = current;
  try {
    now.opening ??= open(document, chunk.version === document.version ? "latest" : "live");
    const viewer = await now.opening;
    if (now !== current) return viewer.close();
    now.viewer = viewer;
    redrawNow(); // a page is drawn at the width of its element
    if (now.key === key) await viewer.show(chunk, sentences);
  } catch (problem) {
    if (now === current) now.problem = problem.message;
  }
  redraw();
}

/** @param {Api["DocumentView"]} document @param {"latest" | "live"} version @returns {Promise<Viewer>} */
async function open(document, version) {
  const address = `/v1/documents/${document.id}`;
  const kind = kindOf(document);
  if (kind === "table") {
    const { openSheet } = await import("./sheet.js");
    return openSheet(await (await bytes(`${address}/text?version=${version}`)).text());
  }
  const file = await bytes(`${address}/content?version=${version}`);
  return kind === "pdf" ? (await import("./pdf.js")).openPdf(file) : openPicture(file, nameOf(document));
}

/**
 * Return the raster type of a file by its first bytes: the declared type is the uploader's. An SVG is a document, and
 * is not shown.
 * @param {string} head
 */
function pictureType(head) {
  if (head.startsWith("\x89PNG")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("GIF8")) return "image/gif";
  if (head.startsWith("BM")) return "image/bmp";
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WEBP") return "image/webp";
  return head.slice(4, 12) === "ftypavif" ? "image/avif" : null;
}

/** @param {Blob} file @param {string} name @returns {Promise<Viewer>} */
async function openPicture(file, name) {
  const head = new Uint8Array(await file.slice(0, 16).arrayBuffer());
  const type = pictureType(String.fromCharCode(...head));
  if (!type) throw new Error(say`This file is not a picture that a browser can show. You can download it.`);
  const address = URL.createObjectURL(new Blob([file], { type }));
  let note = say`The original picture.`;
  const failed = () => ((note = say`The picture is damaged and cannot be shown.`), redraw());
  return {
    note: () => note,
    tools: () => nothing,
    body: () => html`<div class="sheet-box" tabindex="0" role="region" aria-label=${say`Picture`}
      ><img src=${address} alt=${name} @error=${failed}></div>`,
    show: async () => {},
    onKey: () => {},
    close: () => URL.revokeObjectURL(address),
  };
}
