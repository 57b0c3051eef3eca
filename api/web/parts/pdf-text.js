// A passage in the text of PDF pages. Only letters and digits are compared: white space, hyphens, punctuation,
// ligatures and accents differ between a page and the text that was extracted from it.

/**
 * @typedef {{page: number, item: number, start: number, end: number}} Mark
 *   a part of a text item; `page` counts from 0
 */
/** @typedef {[number, number]} Span half-open */

const LETTER = /[\p{L}\p{N}]/u;
const NOISE = /\]\([^)\s]*\)|<br\s*\/?>|&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,7});/g; // markup with letters
const CONTEXT = 40; // letters on each side, which distinguish equal texts
const SURE = 12; // letters of a text and its context; fewer occur anywhere
const LONG = 20; // letters of a part before an interruption, such as the end of a page
const SHORT = 8;
const ALONE = 4; // letters of a complete passage
const GAP = 600; // letters of an interruption
const ENOUGH = 0.5; // share of a passage's letters

/**
 * Locate sentences of a passage, or the passage itself, on consecutive pages.
 * @param {string[][]} pages the text items of each page @param {string} text of the passage
 * @param {Span[]} sentences positions in its characters
 * @returns {{marks: Mark[], share: number}} share of the letters that were located; nothing is marked if it is a small
 *   one
 */
export function locate(pages, text, sentences) {
  const { letters, places } = lettersOf(pages);
  const characters = [...text.replace(NOISE, (noise) => " ".repeat([...noise].length))];
  const offsets = [0];
  const needle = characters
    .map(folded)
    .map((letter) => (offsets.push((offsets.at(-1) ?? 0) + letter.length), letter))
    .join("");
  const last = characters.length;
  const wanted = (sentences.length ? sentences : parts(characters))
    .map(([start, end]) => [offsets[Math.min(start, last)], offsets[Math.min(end, last)]])
    .filter(([start, end]) => end > start);
  const found = wanted.map(([start, end]) => positions(letters, needle, start, end));
  const total = wanted.reduce((sum, [start, end]) => sum + end - start, 0);
  const located = found.flat().reduce((sum, [start, end]) => sum + end - start, 0);
  const share = total ? located / total : 0;
  if (!sentences.length && share < ENOUGH) return { marks: [], share: 0 };
  return { marks: joined(pages, found.flat().flatMap((span) => marksOf(pages, places, span))), share };
}

/** Return the letters of a character, without case and accents. @param {string} character */
function folded(character) {
  return [...character.normalize("NFKD").toLowerCase()].filter((letter) => LETTER.test(letter)).join("");
}

/** Return the letters of pages, and for each the page, the item, and its position there. @param {string[][]} pages */
function lettersOf(pages) {
  /** @type {[number, number, number, number][]} */
  const places = [];
  const letters = pages.map((items, page) => items.map((text, item) => {
    let start = 0;
    return [...text].map((character) => {
      const letter = folded(character);
      for (let n = 0; n < letter.length; n++) places.push([page, item, start, start + character.length]);
      start += character.length;
      return letter;
    }).join("");
  }).join("")).join("");
  return { letters, places };
}

/**
 * Return lines, divided after full stops: a page may have them in another order.
 * @param {string[]} characters
 * @returns {Span[]}
 */
function parts(characters) {
  /** @param {string} character @param {number} index */
  const isEnd = (character, index) =>
    character === "\n" || (character === " " && /[.!?]/.test(characters[index - 1] ?? ""));
  const ends = characters.flatMap((character, index) => (isEnd(character, index) ? [index] : []));
  return [-1, ...ends].map((before, index) => [before + 1, ends[index] ?? characters.length]);
}

/**
 * Return the positions of a part of the needle: one, or two around an interruption. None if it does not occur, or if it
 * is unclear which occurrence is meant.
 * @param {string} letters @param {string} needle @param {number} start @param {number} end @returns {Span[]}
 */
function positions(letters, needle, start, end) {
  const at = position(letters, needle, start, end);
  if (at !== null) return [[at, at + end - start]];
  const length = sharedLength(letters, needle.slice(start, end));
  const first = length < LONG ? null : position(letters, needle, start, start + length);
  if (first === null) return [];
  const rest = needle.slice(start + length, end);
  if (rest.length < SHORT) return [[first, first + length]];
  const second = letters.indexOf(rest, first + length);
  if (second < 0 || second - first - length > GAP) return [];
  return [[first, first + length], [second, second + rest.length]];
}

/**
 * Return the length of the longest start of a text that occurs in the letters.
 * @param {string} letters
 * @param {string} text
 */
function sharedLength(letters, text) {
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (letters.includes(text.slice(0, middle))) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** @param {string} letters @param {string} needle @param {number} start @param {number} end @returns {number | null} */
function position(letters, needle, start, end) {
  const text = needle.slice(start, end);
  const isWhole = text.length === needle.length;
  let best = { at: -1, score: -1, isOnly: false };
  for (let at = letters.indexOf(text); at >= 0; at = letters.indexOf(text, at + 1)) {
    const before = agreement(letters, at, needle, start, -1);
    const score = before + agreement(letters, at + text.length - 1, needle, end - 1, 1);
    if (score === best.score) best.isOnly = false;
    if (score > best.score) best = { at, score, isOnly: true };
  }
  if (best.at < 0 || !best.isOnly) return null;
  return text.length + best.score >= (isWhole ? ALONE : SURE) ? best.at : null;
}

/**
 * Count equal letters next to two positions.
 * @param {string} one
 * @param {number} at
 * @param {string} other
 * @param {number} place
 * @param {number} step
 */
function agreement(one, at, other, place, step) {
  let count = 0;
  while (count < CONTEXT) {
    const [letter, expected] = [one[at + step * (count + 1)], other[place + step * (count + 1)]];
    if (letter === undefined || letter !== expected) break;
    count++;
  }
  return count;
}

/**
 * Join marks that only white space or punctuation separates.
 * @param {string[][]} pages
 * @param {Mark[]} marks
 * @returns {Mark[]}
 */
function joined(pages, marks) {
  /** @type {Mark[]} */
  const result = [];
  for (const mark of marks) {
    const before = result.at(-1);
    const isNext = before?.page === mark.page && before.item === mark.item && before.end <= mark.start;
    if (before && isNext && !LETTER.test(pages[mark.page][mark.item].slice(before.end, mark.start))) {
      before.end = mark.end;
    } else result.push({ ...mark });
  }
  return result;
}

/**
 * @param {string[][]} pages
 * @param {[number, number, number, number][]} places
 * @param {Span} span of letters
 * @returns {Mark[]}
 */
function marksOf(pages, places, [first, last]) {
  /** @type {Mark[]} */
  const marks = [];
  for (const [page, item, start, end] of places.slice(first, last)) {
    const before = marks.at(-1);
    if (before?.page === page && before.item === item) before.end = end;
    else marks.push({ page, item, start, end });
  }
  for (const mark of marks) { // a comma at the end of a line, and the full stop, but no hyphen of a divided word
    const rest = pages[mark.page][mark.item].slice(mark.end);
    mark.end += /^[^\p{L}\p{N}\s\-\u00ad\u2010]*/u.exec(rest)?.[0].length ?? 0;
  }
  return marks;
}
