// The questions of a chunk in the reader. Own questions are added, changed and removed; others are switched off and on.

import { html, nothing } from "../vendor/lit-html.js";
import { live } from "../vendor/directives/live.js";
import { post, send } from "../api.js";
import { redraw } from "../store.js";
import { score } from "./format.js";
import { icon } from "./icon.js";
import { notify } from "./notice.js";
import { may } from "./permissions.js";
import { say } from "./words.js";

const ORIGIN = { generated: "", given: say`supplied with the document`, user: say`asked or added by a user` };

/**
 * The question in the field: `id` is the question that is changed, "" for a new one, null without a field.
 * @type {{chunk: string, id: string | null, text: string, isBusy: boolean}}
 */
let writing = { chunk: "", id: null, text: "", isBusy: false };

/** @param {Api["ChunkView"]} chunk @param {string} collection @param {() => unknown} then called after a change */
export function questionsOf(chunk, collection, then) {
  if (writing.chunk !== chunk.id) writing = { chunk: chunk.id, id: null, text: "", isBusy: false };
  const rows = chunk.questions.map((each) =>
    each.accepted && each.accepted.id === writing.id
      ? html`<li>${form(chunk, collection, then)}</li>`
      : question(each, chunk.id, collection, then));
  return html`${rows.length ? html`<ul class="questions" role="list">${rows}</ul>` : nothing}
    ${may("manage") ? adding(chunk, collection, then) : nothing}`;
}

/** @param {Api["ChunkView"]} chunk @param {string} collection @param {() => unknown} then */
function adding(chunk, collection, then) {
  if (writing.id === "") return form(chunk, collection, then);
  return html`<p><button id="add-question" @click=${() => write("", "")}>${say`Add question`}</button></p>`;
}

/** Show the field. @param {string} id @param {string} text */
function write(id, text) {
  Object.assign(writing, { id, text });
  redraw();
  requestAnimationFrame(() => document.getElementById("own-question")?.focus());
}

function stopWriting() {
  Object.assign(writing, { id: null, text: "", isBusy: false });
  redraw();
  requestAnimationFrame(() => document.getElementById("add-question")?.focus());
}

/** @param {Api["ChunkView"]} chunk @param {string} collection @param {() => unknown} then */
function form(chunk, collection, then) {
  /** @param {Event} event */
  const submit = (event) => (event.preventDefault(), save(chunk, collection, then));
  /** @param {On<HTMLInputElement>} event */
  const typed = (event) => (writing.text = event.target.value);
  /** @param {KeyboardEvent} event */
  const pressed = (event) => event.key === "Escape" && (event.stopPropagation(), stopWriting());
  return html`<form class="own-question" @submit=${submit} @keydown=${pressed}>
    <input id="own-question" dir="auto" maxlength="2000" required .value=${live(writing.text)} @input=${typed}
      aria-label=${say`Question that this chunk answers`}>
    <button class="main" type="submit" ?disabled=${writing.isBusy}>${say`Save`}</button>
    <button type="button" @click=${stopWriting}>${say`Cancel`}</button></form>`;
}

/**
 * Add the question, and remove the question that it replaces.
 * @param {Api["ChunkView"]} chunk @param {string} collection @param {() => unknown} then
 */
async function save(chunk, collection, then) {
  const { id, text } = writing;
  const asked = text.trim();
  if (!asked || writing.isBusy) return;
  if (chunk.questions.some((each) => each.accepted?.id === id && each.text === asked)) return stopWriting();
  writing.isBusy = true;
  redraw();
  try {
    const { outcome } = await post(accepted(collection), { question: asked, chunk_id: chunk.id });
    if (id) await removal(id, collection);
    if (outcome === "already_asked") notify(say`The chunk has this question already.`);
    else notify(say`Question added. It finds this chunk as soon as it is indexed.`);
    stopWriting();
    await then();
  } catch (problem) {
    notify(problem.message);
  }
  writing.isBusy = false;
  redraw();
}

/** @param {string} collection @returns {`/v1/collections/${string}/accepted-questions`} */
const accepted = (collection) => `/v1/collections/${encodeURIComponent(collection)}/accepted-questions`;

/** @param {string} id @param {string} collection */
const removal = (id, collection) => send("DELETE", `${accepted(collection)}/${id}`);

/** @param {string} id @param {string} collection @param {() => unknown} then */
async function remove(id, collection, then) {
  try {
    await removal(id, collection);
    notify(say`Question removed. It stops finding this chunk within a minute.`);
    await then();
  } catch (problem) {
    notify(problem.message);
  }
}

/**
 * @param {Api["ChunkQuestion"]} each @param {string} chunk its id @param {string} collection
 * @param {() => unknown} then
 */
function question(each, chunk, collection, then) {
  const isRemoved = each.accepted?.state === "removing";
  const why = [offBy(each), each.reason, ORIGIN[each.source], isRemoved ? say`being removed` : ""];
  const reasons = why.filter(Boolean).join(" \u00b7 ");
  return html`<li class=${each.disabled ? "off" : each.passed === false ? "dropped" : ""}>${markOf(each)}
    <span class="grow"><span dir="auto">${each.text}</span>
    ${reasons ? html`<span class="soft small">${reasons}</span>` : nothing}</span>
    ${each.accepted && !isRemoved ? actionsOf(each.accepted.id, each.text, collection, then) : nothing}
    ${!each.accepted && each.passed && may("manage") ? switchOf(each, chunk, then) : nothing}
    <span class="soft small number">${each.similarity === null ? "" : score(each.similarity)}</span></li>`;
}

/** Return who has switched a question off, in words. @param {Api["ChunkQuestion"]} each */
function offBy({ disabled, disabled_by: by }) {
  if (!disabled) return "";
  return by ? say`switched off by ${by}` : say`switched off`;
}

/** @param {Api["ChunkQuestion"]} each @param {string} chunk its id @param {() => unknown} then */
function switchOf({ text, disabled }, chunk, then) {
  const name = disabled ? say`Switch on: ${text}` : say`Switch off: ${text}`;
  return html`<button class="quiet" aria-label=${name} @click=${() => change(text, !disabled, chunk, then)}
    >${disabled ? say`Switch on` : say`Switch off`}</button>`;
}

/** @param {string} text @param {boolean} disabled @param {string} chunk its id @param {() => unknown} then */
async function change(text, disabled, chunk, then) {
  try {
    await send("PATCH", `/v1/chunks/${chunk}/questions`, { body: { question: text, disabled } });
    if (disabled) notify(say`Question switched off. It does not find this chunk any more.`);
    else notify(say`Question switched on. It finds this chunk again.`);
    await then();
  } catch (problem) {
    notify(problem.message);
  }
}

/** @param {Api["ChunkQuestion"]} each */
function markOf({ passed, disabled }) {
  if (disabled) return html`<span class="soft" role="img" aria-label=${say`switched off`}>${icon("minus")}</span>`;
  if (passed === null) {
    return html`<span class="soft" role="img" aria-label=${say`not checked yet`}>${icon("circle-dashed")}</span>`;
  }
  if (passed) return html`<span class="good" role="img" aria-label=${say`kept`}>${icon("check")}</span>`;
  return html`<span class="bad" role="img" aria-label=${say`dropped`}>${icon("x")}</span>`;
}

/** @param {string} id @param {string} text @param {string} collection @param {() => unknown} then */
function actionsOf(id, text, collection, then) {
  const edit = html`<button class="quiet" @click=${() => write(id, text)}>${say`Edit`}</button>`;
  const drop = html`<button class="quiet" @click=${() => remove(id, collection, then)}>${say`Remove`}</button>`;
  return [may("manage") ? edit : nothing, may("write") ? drop : nothing];
}
