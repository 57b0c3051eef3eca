// The editor for an answer: a document whose ready-made questions are the questions that it answers. If they belong to
// a gap, the document resolves the gap.

import { html, nothing } from "../vendor/lit-html.js";
import { post, send } from "../api.js";
import { dialog } from "../kit/dialog.js";
import { createForm } from "../kit/form.js";
import { redraw } from "../store.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

const ID = "write-answer";
const MOST_TITLE = 200;
const MOST_TEXT = 100_000; // characters
const FEW = 2; // questions; a longer list may scroll
const MOST_QUESTION = 2_000; // characters of a ready-made question
const MOST_NAME = 60; // characters of the document's name that are from its title

/**
 * @typedef {{collection: string, gap: string | null, questions: string[], from: string,
 *   written: (document: Api["DocumentView"], gap: Api["GapView"] | null) => void}} Question
 *   questions: the first one is shown
 *   from: id of the gap or the query, which makes the document's name unique
 */

/** @type {{question: Question, name: string} | null} name: end of the document's name, the same if it is sent again */
let open = null;

/** Open the editor. @param {Question} question */
export function writeAnswer(question) {
  open = { question, name: `${question.from.slice(0, 8)}-${Date.now().toString(36)}` };
  form.clear();
  redraw();
}

/** Close the editor, as when another screen is opened. */
export const closeAnswer = () => (open = null);

function close() {
  closeAnswer();
  const element = /** @type {HTMLDialogElement | null} */ (document.getElementById(ID));
  element?.close(); // it returns the focus; a dialog that is removed does not
  redraw();
}

const form = createForm(async (/** @type {{title: string, text: string}} */ { title, text }) => {
  if (!open) return;
  const { question: { collection, gap, questions, written }, name } = open;
  const saved = await post("/v1/documents", {
    collection, title, text, external_id: `answers/${slug(title)}-${name}.md`,
    questions: questions.filter((each) => each.length <= MOST_QUESTION),
  });
  const address = /** @type {const} */ (`/v1/collections/${encodeURIComponent(collection)}/gaps/${gap}`);
  const changed = gap ? await send("PATCH", address, { body: { resolved_by: saved.id } }) : null;
  close();
  notify(gap ? say`Answer saved, and the gap is resolved by it.` : say`Answer saved.`);
  written(saved, changed);
});

/** Return a title as a part of a name: letters, digits and hyphens. @param {string} title */
export function slug(title) {
  const hyphened = [...title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-")];
  return hyphened.slice(0, MOST_NAME).join("").replace(/^-+|-+$/g, "") || "answer";
}

/**
 * @param {(facts: import("../kit/field.js").Field) => unknown} field renders a field of the form
 * @param {string} question @param {boolean} isGap
 */
const fields = (field, question, isGap) => [
  field({ name: "title", label: say`Title`, required: true, wide: true, longest: MOST_TITLE, focus: true,
    value: question.replace(/[?\uff1f\u061f\s]+$/, "").slice(0, MOST_TITLE) }),
  field({ name: "text", label: say`Text`, type: "area", required: true, wide: true, rows: 8, longest: MOST_TEXT,
    hint: isGap ? say`Markdown. The document resolves the gap.` : say`Markdown.` }),
];

/** Render the editor, if it is open. The screen contains it. */
export function answerDialog() {
  if (!open) return nothing;
  const { collection, questions, gap } = open.question;
  const [first] = questions;
  const body = html`<p class="soft small">${
      say`A document of the collection ${html`<strong>${collection}</strong>`}. These questions find it:`}</p>
    <ul class="answer-questions" role="list" tabindex=${questions.length > FEW ? 0 : nothing}>${
      questions.map((each) => html`<li dir="auto">${each}</li>`)}</ul>
    ${form.view({ action: say`Save the answer`, cancel: close, body: (field) => fields(field, first, gap !== null) })}`;
  return dialog({ id: ID, title: say`Write the answer`, body, close });
}
