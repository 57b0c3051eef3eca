// How near questions that were put are to a text and to the questions about it: as a heat map, or as bars.

import { html } from "../vendor/lit-html.js";
import { post } from "../api.js";
import { bar } from "./bars.js";
import { score } from "./format.js";

/**
 * @typedef {{words: string, mark: any, kind: "questions" | "text" | "bm25", values: number[]}} Row a value for each question that was put
 * @typedef {{text: number[], words: number[], questions: number[][]}} Likeness
 */

const HEATS = [0.1, 0.25, 0.4, 0.55, 0.7, 0.85]; // where a cell's colour changes
const AT_ONCE = 50; // texts that the server compares
const QUESTIONS = 20; // of one text

/**
 * Compare questions with texts, of any number of questions each.
 * @param {string[]} asked @param {{text: string, questions: string[]}[]} texts @param {string | undefined} collection
 * @returns {Promise<Likeness[]>} one for each text
 */
export async function compared(asked, texts, collection) {
  const parts = texts.flatMap(({ text, questions }, place) => {
    const groups = Array.from({ length: Math.max(1, Math.ceil(questions.length / QUESTIONS)) }, (_, group) => group * QUESTIONS);
    return groups.map((from) => ({ place, text, questions: questions.slice(from, from + QUESTIONS) }));
  });
  /** @type {Likeness[]} */
  const likeness = [];
  for (let from = 0; from < parts.length; from += AT_ONCE) {
    const some = parts.slice(from, from + AT_ONCE);
    const body = { questions: asked, texts: some.map(({ text, questions }) => ({ text, questions })), ...(collection ? { collection } : {}) };
    const { items } = await post("/v1/similarity", body);
    for (const [number, { place }] of some.entries()) {
      const known = likeness[place];
      if (!known) likeness[place] = items[number];
      else for (const [column, cosines] of known.questions.entries()) cosines.push(...items[number].questions[column]);
    }
  }
  return likeness;
}

/** Each question that was put is a column. @param {string[]} asked @param {Row[]} rows */
export function heat(asked, rows) {
  const best = asked.map((_, column) => Math.max(...rows.map((row) => row.values[column])));
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Similarities"><table class="heat">
    <thead><tr><th>question</th>${asked.map((each) => html`<th scope="col" dir="auto">${each}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr><th scope="row" dir="auto">${row.mark} ${row.words}</th>${row.values.map((value, column) => html`<td
      class="number heat-${HEATS.filter((from) => value >= from).length} ${value === best[column] ? "best" : ""}">${score(value)}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** One question that was put, the nearest rows first. @param {string} asked @param {number} column @param {Row[]} rows */
export function nearest(asked, column, rows) {
  const sorted = [...rows].sort((a, b) => b.values[column] - a.values[column]);
  return html`<table class="nearest"><caption dir="auto">${asked}</caption>
    <tbody>${sorted.map((row) => html`<tr><th scope="row" dir="auto">${row.mark} ${row.words}</th>
      <td>${bar(row.values[column], row.kind)}</td><td class="number">${score(row.values[column])}</td></tr>`)}</tbody></table>`;
}
