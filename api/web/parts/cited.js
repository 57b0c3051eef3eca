// The cited sentences of a passage, highlighted without a change of its nodes.

import { render } from "../vendor/lit-html.js";
import { markdown } from "./markdown.js";

/** @typedef {[number, number]} Span half-open, in characters */

const FIRST = "\ufdd0"; // noncharacters: no document contains them, and to Markdown they are parts of words
const LAST = "\ufdd1";
const CHECKBOX = /^\[[ xX]\]\s+/;
const LETTER = /[\p{L}\p{N}]/u;

/**
 * Highlight sentences in the element that shows a text. Without support by the browser only their words are returned.
 * @param {Element} box @param {string} text @param {Span[]} sentences positions in the text
 * @param {boolean} [lines] whether the element shows line ends
 * @returns {{ranges: Range[], isHighlighted: boolean}} ranges of the sentences that were located
 */
export function highlight(box, text, sentences, lines = false) {
  const ranges = rangesOf(box, text, sentences, lines);
  if (!("highlights" in CSS)) return { ranges, isHighlighted: false };
  CSS.highlights.set("cited", new Highlight(...ranges));
  return { ranges, isHighlighted: ranges.length > 0 };
}

/** Return the words of a range in one line. @param {Range} range */
export function wordsOf(range) {
  const copy = range.cloneContents();
  for (const element of copy.querySelectorAll("br, td, th, li, p")) element.before(" ");
  return (copy.textContent ?? "").replace(/\s+/g, " ").trim();
}

/** @param {Element} box @param {string} text @param {Span[]} sentences @param {boolean} lines @returns {Range[]} */
function rangesOf(box, text, sentences, lines) {
  const nodes = textNodes(box);
  const shown = nodes.map((node) => node.data).join("");
  return sentences.flatMap((span) => {
    const [start, end] = span.map((at) => unitsBefore(text, at));
    const found = shown === text ? /** @type {Span} */ ([start, end]) : positionIn(shown, text, start, end, lines);
    return found ? [rangeOf(nodes, found)] : [];
  });
}

/** Return a position in UTF-16 units, which the browser counts. @param {string} text @param {number} characters */
export function unitsBefore(text, characters) {
  let units = 0;
  for (let n = 0; n < characters && units < text.length; n++) units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
  return units;
}

/**
 * Return the position of a sentence in the shown text. Its first and its last letter are marked in a copy of the text:
 * parsed again, the copy shows the same text with two marks. If it does not, the sentence is not located.
 * @param {string} shown @param {string} text @param {number} start @param {number} end @param {boolean} lines
 * @returns {Span | null}
 */
function positionIn(shown, text, start, end, lines) {
  const sentence = text.slice(start, end);
  const skipped = CHECKBOX.exec(sentence)?.[0].length ?? 0;
  const letters = [...sentence.slice(skipped).matchAll(new RegExp(LETTER, "gu"))];
  if (!letters.length || text.includes(FIRST) || text.includes(LAST)) return null;
  const first = start + skipped + letters[0].index;
  const last = start + skipped + (letters.at(-1)?.index ?? 0);
  const box = document.createElement("div");
  const copy = text.slice(0, first) + FIRST + text.slice(first, last) + LAST + text.slice(last);
  render(markdown(copy, undefined, lines), box);
  const marked = textNodes(box).map((node) => node.data).join("");
  const [from, to] = [marked.indexOf(FIRST), marked.indexOf(LAST) - 1];
  if (from < 0 || to < from || marked.replaceAll(FIRST, "").replaceAll(LAST, "") !== shown) return null;
  const position = [
    from - shared(text.slice(start + skipped, first), shown.slice(0, from), true),
    to + shared(text.slice(last, end), shown.slice(to), false),
  ];
  return /** @type {Span} */ (trimmed(shown, position[0], position[1]));
}

/** @param {string} shown @param {number} from @param {number} to */
function trimmed(shown, from, to) {
  const words = shown.slice(from, to);
  return [from + words.length - words.trimStart().length, to - words.length + words.trimEnd().length];
}

/**
 * Return the number of characters next to a letter that the sentence and the shown text share, without markup.
 * @param {string} written @param {string} shown @param {boolean} before whether they are before the letter
 */
function shared(written, shown, before) {
  const characters = before ? [...written].reverse() : [...written];
  let length = 0;
  for (const character of characters) {
    const next = before ? shown.slice(0, shown.length - length) : shown.slice(length);
    if (before ? next.endsWith(character) : next.startsWith(character)) length += character.length;
  }
  return length;
}

/** @param {Element} box @returns {Text[]} */
function textNodes(box) {
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(/** @type {Text} */ (walker.currentNode));
  return nodes;
}

/** @param {Text[]} nodes @param {Span} span of their joined text */
function rangeOf(nodes, [start, end]) {
  const range = document.createRange();
  let offset = 0;
  for (const node of nodes) {
    const length = node.data.length;
    if (start >= offset && start < offset + length) range.setStart(node, start - offset);
    if (end > offset && end <= offset + length) range.setEnd(node, end - offset);
    offset += length;
  }
  return range;
}
