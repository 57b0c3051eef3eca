// "In texts": the passages of a collection that have the words of a search.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, latest, post } from "../api.js";
import { redraw } from "../store.js";
import { cut, nameOf, opening, path, plural } from "./format.js";
import { problemCard } from "./notice.js";
import { say } from "./words.js";

const MOST = 50; // passages
const MOST_TOKENS = 100_000;
const LENGTH = 240; // characters of a passage that are shown
const BEFORE = 80; // of them before the first word of the search
const STEM = 4; // characters that the forms of a word share at least
const ENDING = 2; // characters in which they may differ
const LETTER = "[\\p{L}\\p{N}]";

/** @type {{q: string, collection: string, hits: Api["RetrievedChunkView"][] | null, problem: any}} */
let seen = { q: "", collection: "", hits: null, problem: null };
const newest = latest();

/** Search the texts, unless the same search is shown. @param {string} q @param {string} collection */
export async function searchTexts(q, collection) {
  if (seen.q === q && seen.collection === collection && !seen.problem) return;
  const now = { q, collection, hits: /** @type {typeof seen.hits} */ (null), problem: null };
  seen = now;
  if (!q.trim()) return;
  redraw();
  try {
    const channels = /** @type {"bm25"[]} */ (["bm25"]);
    const most = { top_k: MOST, max_tokens: MOST_TOKENS };
    const body = { question: q, collection, channels, ...most, rerank: false, record: false };
    now.hits = (await newest(post("/v1/retrieve", body))).chunks;
  } catch (problem) {
    now.problem = problem;
  }
  redraw();
}

/** Forget the last search, because documents may have changed. */
export function forgetTexts() {
  seen = { q: "", collection: "", hits: null, problem: null };
}

export function textHits() {
  const { q, collection, hits, problem } = seen;
  const again = () => searchTexts(q, collection);
  return html`<p class="soft small" role="status">${problem ? nothing : number(hits)}</p>
    ${problemCard(problem, again)}
    <ul class="hits" role="list">${(hits ?? []).map((hit) => passageOf(hit, wordsOf(q)))}</ul>`;
}

/** @param {Api["RetrievedChunkView"][] | null} hits */
function number(hits) {
  if (!hits) return say`Searching\u2026`;
  if (hits.length < MOST) return say`${plural(hits.length, "passage")} with these words`;
  return say`The best ${plural(MOST, "passage")} with these words`;
}

/** @param {Api["RetrievedChunkView"]} hit @param {RegExp | null} words */
function passageOf(hit, words) {
  const place = [path(hit.heading_path), hit.page ? say`page ${hit.page}` : ""].filter(Boolean).join(" \u00b7 ");
  const address = `${ROOT}/documents/${hit.document_id}?chunk=${hit.chunk_id}`;
  return html`<li><a class="name" dir="auto" href=${address}>${nameOf(hit)}</a>
    ${place ? html`<span class="soft small" dir="auto">${place}</span>` : nothing}
    <span dir="auto">${marked(excerpt(hit.text, words), words)}</span></li>`;
}

/** Return an expression for the words of a search and their forms; null without words. @param {string} q */
export function wordsOf(q) {
  const words = q.match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.length ? new RegExp(words.map(formsOf).join("|"), "giu") : null;
}

/** Return an expression for the forms of a word, which share its first letters. @param {string} word */
function formsOf(word) {
  if (/^\p{Script=Han}/u.test(word)) return word;
  const letters = [...word];
  const hasForms = letters.length > STEM && !/\p{N}/u.test(word);
  const start = hasForms ? letters.slice(0, Math.max(STEM, letters.length - ENDING)).join("") : word;
  return `(?<!${LETTER})${start}${hasForms ? `${LETTER}*` : `(?!${LETTER})`}`;
}

/** Return the part of a passage with the first of the words. @param {string} text @param {RegExp | null} words */
export function excerpt(text, words) {
  const plain = opening(text, text.length);
  const at = words ? plain.search(words) : 0;
  const from = at > BEFORE ? plain.indexOf(" ", at - BEFORE) + 1 || at : 0;
  const part = cut(plain.slice(from), LENGTH);
  return `${from ? "\u2026 " : ""}${part}${from + part.length < plain.length ? " \u2026" : ""}`;
}

/** Mark the words of a search. @param {string} text @param {RegExp | null} words */
function marked(text, words) {
  if (!words) return text;
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(words)) {
    parts.push(text.slice(end, match.index), html`<mark>${match[0]}</mark>`);
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}
