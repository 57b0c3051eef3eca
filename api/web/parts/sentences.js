// The cited sentences of a drawn passage: highlighted, and in words for a screen reader.

import { html, nothing } from "../vendor/lit-html.js";
import { redraw } from "../store.js";
import { say } from "./words.js";

/** @typedef {[number, number]} Span half-open, in characters of the passage */

/** @type {{key: string, shown: string, words: string[], isHighlighted: boolean, first: Range | null}} */
let cited = { key: "", shown: "", words: [], isHighlighted: false, first: null };

/**
 * Highlight the cited sentences of the drawn passage.
 * @param {string} key of the passage @param {string} text @param {Span[]} sentences @param {boolean} lines
 */
async function mark(key, text, sentences, lines) {
  const { highlight, wordsOf } = await import("./cited.js");
  const box = document.querySelector(`.detail [data-passage="${key}"]`);
  const shown = box?.textContent ?? "";
  if (!box || (cited.key === key && cited.shown === shown && (!cited.first || isIn(cited.first, box)))) return;
  const { ranges, isHighlighted } = highlight(box, text, sentences, lines);
  const characters = [...text];
  const words = ranges.length
    ? ranges.map(wordsOf)
    : sentences.map(([start, end]) => characters.slice(start, end).join(""));
  cited = { key, shown, words, isHighlighted, first: ranges[0] ?? null };
  redraw();
  requestAnimationFrame(() => requestAnimationFrame(toPassage));
}

/**
 * Whether a range has words of an element: it is emptied and moved when its nodes are removed.
 * @param {Range} range
 * @param {Element} element
 */
const isIn = (range, element) => !range.collapsed && element.contains(range.startContainer);

/** Scroll to the first cited sentence, or to the passage. */
export function toPassage() {
  const marked = document.querySelector(".detail .marked");
  const box = marked?.closest(".reading");
  const target = cited.isHighlighted && cited.first && marked && isIn(cited.first, marked) ? cited.first : marked;
  if (target && box) box.scrollTop += target.getBoundingClientRect().top - box.getBoundingClientRect().top - 48;
}

/**
 * Highlight the sentences of a passage after it has been drawn.
 * @param {string} id of the chunk @param {string} text @param {Span[]} sentences
 * @param {boolean} lines whether its line ends are shown
 * @returns {{key: string, marked: string, line: unknown}} attributes of the passage's element, and the sentences in
 *   words
 */
export function citedSentences(id, text, sentences, lines) {
  const key = `${id} ${sentences.join(" ")}`;
  const { words, isHighlighted } = cited.key === key ? cited : { words: [], isHighlighted: false };
  queueMicrotask(() => mark(key, text, sentences, lines).catch(() => {}));
  const name = words.length === 1 ? say`Cited sentence` : say`Cited sentences`;
  const line = html`<p class=${isHighlighted ? "hidden" : "small"} dir="auto">${name}: ${words.join(" \u2026 ")}</p>`;
  return { key, marked: isHighlighted ? "marked by-sentence" : "marked", line: words.length ? line : nothing };
}

/** Return the sentences as a part of an address. @param {Span[]} sentences */
export const inAddress = (sentences) =>
  sentences.length ? `&cited=${sentences.map((span) => span.join("-")).join(".")}` : "";

/** Return the sentences in an address. @param {string | null} value @returns {Span[]} */
export const sentencesIn = (value) => {
  const pairs = [...(value ?? "").matchAll(/(\d{1,7})-(\d{1,7})/g)];
  return pairs.map(([, start, end]) => [Number(start), Number(end)]);
};
