// A PDF, one page at a time, with a passage highlighted. pdf.js draws it on a canvas: scripts, forms and links of the
// file do nothing, and its worker may reach nothing.

import { html } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { count, listed } from "./format.js";
import { icon } from "./icon.js";
import { locate } from "./pdf-text.js";
import { say } from "./words.js";

const LIBRARY = new URL("../vendor/pdfjs/", import.meta.url).href;
const WORKER = `${LIBRARY}pdf.worker.min.mjs`;
const CONTINUED = 3; // pages that a passage may fill
const MOST_PIXELS = 16_000_000; // of a canvas: browsers refuse larger ones
const MOST_SIDE = 8192;
const MOST_HEIGHT = 20_000; // of a page in the document
const ZOOMS = [0.5, 0.75, 1, 1.25, 1.5, 2, 3]; // 1: the width of the panel

/** @import { Viewer } from "./original.js" */
/** @typedef {{items: any[], strings: string[], content: any}} PageText */
/**
 * The pages with the passage. `share` of the located letters.
 * @typedef {{first: number, marks: import("./pdf-text.js").Mark[], share: number}} Found
 */

/** @type {any} */
let policy = null;
function newWorker() {
  const rules = { createScriptURL: () => WORKER };
  policy ??= /** @type {any} */ (globalThis).trustedTypes?.createPolicy("foreask-worker", rules);
  return new Worker(policy?.createScriptURL("") ?? WORKER, { type: "module" });
}

/** @param {Blob} file @returns {Promise<Viewer>} */
export async function openPdf(file) {
  const pdfjs = await import(`${LIBRARY}pdf.min.mjs`).catch(() => {
    throw new Error(say`This browser cannot draw PDFs. You can download the original.`);
  });
  const port = newWorker();
  const worker = new pdfjs.PDFWorker({ port, verbosity: 0 });
  const data = new Uint8Array(await file.arrayBuffer());
  // The decoders of pictures are scripts, because WebAssembly would need a weaker policy.
  const addresses = { wasmUrl: LIBRARY, cMapUrl: `${LIBRARY}cmaps/`, cMapPacked: true };
  const task = pdfjs.getDocument({
    data,
    worker,
    verbosity: 0,
    ...addresses,
    useWasm: false,
    useWorkerFetch: false,
    enableXfa: false,
    maxImageSize: 100_000_000,
  });
  try {
    return new PdfView(pdfjs, await task.promise, () => port.terminate());
  } catch (problem) {
    port.terminate();
    const isLocked = problem.name === "PasswordException";
    throw new Error(
      isLocked
        ? say`This PDF needs a password. You can download it.`
        : say`This PDF is damaged and cannot be drawn. You can download it.`,
    );
  }
}

const ofSentence = {
  picture: say`This page is a picture without text, so the cited sentence cannot be highlighted.`,
  missing: say`The cited sentence was not found on this page, so nothing is highlighted.`,
  elsewhere: (/** @type {string} */ pages) => say`The cited sentence is on page ${pages}.`,
  shown: say`The cited sentence is highlighted.`,
};
const ofPassage = {
  picture: say`This page is a picture without text, so the passage cannot be highlighted.`,
  missing: say`The passage was not found on this page, so nothing is highlighted.`,
  elsewhere: (/** @type {string} */ pages) => say`The passage is on page ${pages}.`,
  shown: say`The passage is highlighted.`,
};

/** @implements {Viewer} */
class PdfView {
  /** @param {any} pdfjs @param {any} file @param {() => void} end ends the worker */
  constructor(pdfjs, file, end) {
    this.pdfjs = pdfjs;
    this.file = file;
    this.end = end;
    this.number = 1; // of the page
    this.zoom = 1;
    this.drawing = 0;
    this.showing = 0;
    this.width = 0;
    this.problem = "";
    this.isSentence = false;
    /** @type {any} */
    this.rendering = null;
    /** @type {Found} */
    this.found = { first: 1, marks: [], share: 0 };
    /** @type {Map<number, Promise<PageText>>} */
    this.texts = new Map();
    this.hasText = true;
    this.box = Object.assign(document.createElement("div"), {
      className: "sheet-box",
      tabIndex: 0,
      role: "region",
      ariaLabel: say`Page`,
    });
    this.sheet = Object.assign(document.createElement("div"), { className: "sheet" });
    this.box.append(this.sheet);
    this.observer = new ResizeObserver(() => this.width && this.width !== this.box.clientWidth && this.draw());
    this.observer.observe(this.box);
  }

  body = () => this.box;

  note = () => {
    const place = say`Page ${count(this.number)} of ${count(this.file.numPages)}.`;
    return this.problem ? `${place} ${this.problem}` : `${place} ${this.finding()}`;
  };

  /** Describe the highlighted part of the page. */
  finding() {
    const { first, marks, share } = this.found;
    const texts = this.isSentence ? ofSentence : ofPassage;
    const pages = [...new Set(marks.map((mark) => mark.page + first))];
    if (!marks.length && this.number !== first) return "";
    if (!marks.length && !this.hasText) return texts.picture;
    if (!marks.length) return texts.missing;
    if (!pages.includes(this.number)) return texts.elsewhere(listed(pages.map(count)));
    const others = pages.filter((page) => page !== this.number);
    const continued = others.length ? say`It continues on page ${listed(others.map(count))}.` : "";
    const rest = share < 0.9 ? say`A part of it was not found.` : continued;
    return `${texts.shown} ${rest}`.trim();
  }

  tools = () => html`<button class="quiet" aria-label=${say`Previous page`}
      ?disabled=${this.number <= 1} @click=${() => this.turn(-1)}>${icon("chevron-left")}</button>
    <button class="quiet" aria-label=${say`Next page`}
      ?disabled=${this.number >= this.file.numPages} @click=${() => this.turn(1)}>${icon("chevron-right")}</button>
    <button class="quiet" aria-label=${say`Zoom out`}
      ?disabled=${this.zoom === ZOOMS[0]} @click=${() => this.magnify(-1)}>${icon("minus")}</button>
    <button class="quiet" aria-label=${say`Zoom in`}
      ?disabled=${this.zoom === ZOOMS.at(-1)} @click=${() => this.magnify(1)}>${icon("plus")}</button>
    <button class="quiet" aria-pressed=${String(this.zoom === 1)}
      @click=${() => this.magnify(0)}>${say`Fit width`}</button>`;

  /** @param {KeyboardEvent} event */
  onKey = (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.shiftKey) return;
    /** @type {Record<string, () => unknown>} */
    const actions = {
      ArrowLeft: () => this.turn(-1),
      ArrowRight: () => this.turn(1),
      "-": () => this.magnify(-1),
      "+": () => this.magnify(1),
      0: () => this.magnify(0),
    };
    if (this.zoom > 1 && event.key.startsWith("Arrow")) return; // the page scrolls sideways
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  };

  /** @param {number} step */
  turn(step) {
    const number = Math.min(Math.max(this.number + step, 1), this.file.numPages);
    if (number === this.number) return;
    this.number = number;
    this.box.scrollTop = 0;
    this.draw();
  }

  /** @param {number} step 0: the width of the panel */
  magnify(step) {
    const index = ZOOMS.indexOf(this.zoom) + step;
    this.zoom = step ? ZOOMS[Math.min(Math.max(index, 0), ZOOMS.length - 1)] : 1;
    this.draw();
  }

  close = () => {
    this.observer.disconnect();
    this.rendering?.cancel();
    this.file.loadingTask.destroy().catch(() => {}).finally(this.end);
  };

  /** @param {Api["ChunkView"]} chunk @param {[number, number][]} sentences */
  show = async (chunk, sentences) => {
    const showing = ++this.showing;
    const first = Math.min(Math.max(chunk.page ?? 1, 1), this.file.numPages);
    const found = await this.find(first, chunk.text, sentences);
    const hasText = (await this.textOf(first)).strings.some((string) => string.trim());
    if (showing !== this.showing) return;
    const number = first + (found.marks[0]?.page ?? 0);
    Object.assign(this, { found, hasText, isSentence: sentences.length > 0, number });
    await this.draw();
  };

  /**
   * Locate a passage that starts on a page.
   * @param {number} first
   * @param {string} text
   * @param {[number, number][]} sentences
   * @returns {Promise<Found>}
   */
  async find(first, text, sentences) {
    /** @type {Found} */
    let best = { first, marks: [], share: 0 };
    const pages = [];
    const end = Math.min(first + CONTINUED, this.file.numPages + 1);
    for (let number = first; number < end && best.share < 0.99; number++) {
      pages.push((await this.textOf(number)).strings);
      const found = locate(pages, text, sentences);
      if (found.share > best.share) best = { first, ...found };
    }
    return best;
  }

  /** @param {number} number @returns {Promise<PageText>} */
  textOf(number) {
    const known = this.texts.get(number);
    if (known) return known;
    const read = this.file.getPage(number).then(async (/** @type {any} */ page) => {
      const content = await page.getTextContent();
      return { content, items: content.items, strings: content.items.map((/** @type {any} */ item) => item.str) };
    });
    this.texts.set(number, read);
    return read;
  }

  /** Draw the page; a later call replaces an earlier one. */
  async draw() {
    const drawing = ++this.drawing;
    this.rendering?.cancel();
    redraw();
    try {
      const drawn = await this.drawn();
      if (drawing !== this.drawing) return;
      this.sheet.replaceChildren(...drawn.layers);
      this.sheet.style.width = `${drawn.width}px`;
      this.sheet.style.height = `${drawn.height}px`;
      this.sheet.dataset.page = String(this.number);
      this.problem = "";
      this.mark(drawn.spans);
    } catch (problem) {
      if (drawing !== this.drawing || problem.name === "RenderingCancelledException") return;
      this.sheet.replaceChildren();
      this.problem = say`This page is damaged and cannot be drawn.`;
    }
    redraw();
  }

  async drawn() {
    const { number } = this;
    const page = await this.file.getPage(number);
    const unit = page.getViewport({ scale: 1 });
    this.width = this.box.clientWidth;
    const scale = Math.min((this.zoom * this.width) / unit.width, MOST_HEIGHT / unit.height);
    const viewport = page.getViewport({ scale });
    const { width, height } = viewport;
    const ratio = Math.min(
      devicePixelRatio,
      Math.sqrt(MOST_PIXELS / (width * height)),
      MOST_SIDE / Math.max(width, height),
    );
    const canvas = Object.assign(document.createElement("canvas"), {
      width: Math.ceil(width * ratio),
      height: Math.ceil(height * ratio),
    });
    this.rendering = page.render({ canvas, viewport: page.getViewport({ scale: scale * ratio }) });
    await this.rendering.promise;
    const layer = Object.assign(document.createElement("div"), { className: "text-layer" });
    layer.style.setProperty("--total-scale-factor", String(scale));
    const source = (await this.textOf(number)).content;
    const text = new this.pdfjs.TextLayer({ textContentSource: source, container: layer, viewport });
    await text.render();
    return { width, height, layers: [canvas, layer], spans: text.textDivs };
  }

  /** Highlight the passage on the drawn page. @param {HTMLElement[]} spans of the text items */
  mark(spans) {
    const origin = this.sheet.getBoundingClientRect();
    const onPage = this.found.marks.filter((mark) => mark.page + this.found.first === this.number);
    const marks = onPage.flatMap(({ item, start, end }) => {
      const node = spans[item]?.firstChild;
      if (!(node instanceof Text)) return [];
      const range = document.createRange();
      range.setStart(node, Math.min(start, node.data.length));
      range.setEnd(node, Math.min(end, node.data.length));
      return [...range.getClientRects()];
    }).map((place) => {
      const mark = Object.assign(document.createElement("div"), { className: "page-mark" });
      Object.assign(mark.style, {
        left: `${place.left - origin.left}px`,
        top: `${place.top - origin.top}px`,
        width: `${place.width}px`,
        height: `${place.height}px`,
      });
      return mark;
    });
    this.sheet.querySelector("canvas")?.after(...marks);
    if (marks.length) this.box.scrollTop = Math.max(0, marks[0].offsetTop - this.box.clientHeight / 3);
  }
}
