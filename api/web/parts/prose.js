// Answers and passages. Their Markdown is parsed by a module that is loaded with the first of them.

import { html } from "../vendor/lit-html.js";
import { redraw } from "../store.js";

const MOST_CHARACTERS = 200_000; // longer texts would delay the page; a chunk has at most a few thousand
const MOST_CACHED = 50;
/** @type {typeof import("./markdown.js").markdown | null} */
let markdown = null;
let isLoading = false;
/** @type {Map<string, unknown>} templates of passages, which are drawn again at every change of the page */
const cache = new Map();

/**
 * Render an answer, with its citations.
 * @param {string} text @param {(number: number) => unknown} cite renders a citation
 */
export const prose = (text, cite) => rendered(text, true, cite);

/**
 * Render a passage of a document.
 * @param {string} text @param {boolean} [lines] whether its line ends are shown, as those in scans are
 */
export function passage(text, lines = false) {
  if (!markdown) return rendered(text, lines);
  const key = `${lines} ${text}`;
  const known = cache.get(key);
  if (known) return known;
  if (cache.size >= MOST_CACHED) cache.clear();
  const template = rendered(text, lines);
  cache.set(key, template);
  return template;
}

/** @param {string} text @param {boolean} lines @param {(number: number) => unknown} [cite] */
function rendered(text, lines, cite) {
  if (!markdown) load();
  try {
    if (markdown && text.length <= MOST_CHARACTERS) return markdown(text, cite, lines);
  } catch {
    // too deeply nested for the parser: the text itself is shown
  }
  return html`<p class="plain" dir="auto">${text}</p>`;
}

async function load() {
  if (isLoading) return;
  isLoading = true;
  try {
    ({ markdown } = await import("./markdown.js"));
    redraw();
  } catch {
    isLoading = false; // the next passage tries again
  }
}
