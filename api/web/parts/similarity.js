// Similarity of entered questions to a text and its questions, as a heat map or as bars.

import { html } from "../vendor/lit-html.js";
import { post } from "../api.js";
import { bar } from "./bars.js";
import { score } from "./format.js";
import { say } from "./words.js";

/**
 * @typedef {{words: string, mark: any, kind: "questions" | "text" | "bm25", values: number[]}} Row
 *   one value per entered question
 * @typedef {{text: number[], words: number[], questions: number[][]}} Similarity
 */

const HEATS = [0.1, 0.25, 0.4, 0.55, 0.7, 0.85]; // thresholds of the cell colours
const AT_ONCE = 50; // maximum number of texts in a request
const QUESTIONS = 20; // maximum number of questions of a text

/**
 * Compare questions with texts. Texts with many questions are split over several entries.
 * @param {string[]} entered @param {{text: string, questions: string[]}[]} texts @param {string | undefined} collection
 * @returns {Promise<Similarity[]>} one for each text
 */
export async function compared(entered, texts, collection) {
  const parts = texts.flatMap(({ text, questions }, index) => {
    const many = Math.max(1, Math.ceil(questions.length / QUESTIONS));
    const groups = Array.from({ length: many }, (_, group) => group * QUESTIONS);
    return groups.map((from) => ({ index, text, questions: questions.slice(from, from + QUESTIONS) }));
  });
  /** @type {Similarity[]} */
  const similarity = [];
  for (let from = 0; from < parts.length; from += AT_ONCE) {
    const some = parts.slice(from, from + AT_ONCE);
    const body = {
      questions: entered,
      texts: some.map(({ text, questions }) => ({ text, questions })),
      ...(collection ? { collection } : {}),
    };
    const { items } = await post("/v1/similarity", body);
    for (const [number, { index }] of some.entries()) {
      const existing = similarity[index];
      if (!existing) similarity[index] = items[number];
      else {
        const { questions } = items[number];
        for (const [column, cosines] of existing.questions.entries()) cosines.push(...questions[column]);
      }
    }
  }
  return similarity;
}

/** Draw a heat map with one column per entered question. @param {string[]} entered @param {Row[]} rows */
export function heat(entered, rows) {
  const best = entered.map((_, column) => Math.max(...rows.map((row) => row.values[column])));
  /** @param {number} value @param {number} column */
  const cell = (value, column) => {
    const level = HEATS.filter((from) => value >= from).length;
    return html`<td class="number heat-${level} ${value === best[column] ? "best" : ""}">${score(value)}</td>`;
  };
  return html`<div class="scrolls" tabindex="0" role="group" aria-label=${say`Similarities`}><table class="heat">
    <thead><tr>
      <th>${say`question`}</th>${entered.map((each) => html`<th scope="col" dir="auto">${each}</th>`)}
    </tr></thead>
    <tbody>${rows.map((row) => html`<tr>
      <th scope="row" dir="auto">${row.mark} ${row.words}</th>${row.values.map(cell)}
    </tr>`)}</tbody></table></div>`;
}

/**
 * Draw one entered question with its rows, most similar first.
 * @param {string} entered
 * @param {number} column
 * @param {Row[]} rows
 */
export function nearest(entered, column, rows) {
  const sorted = [...rows].sort((a, b) => b.values[column] - a.values[column]);
  return html`<table class="nearest"><caption dir="auto">${entered}</caption>
    <tbody>${sorted.map((row) => html`<tr>
      <th scope="row" dir="auto">${row.mark} ${row.words}</th>
      <td>${bar(row.values[column], row.kind)}</td>
      <td class="number">${score(row.values[column])}</td>
    </tr>`)}</tbody></table>`;
}
