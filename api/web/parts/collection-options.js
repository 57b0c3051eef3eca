// The options of a collection: their values in force, a form to change them, and the cost of a rebuild with new ones.

import { html, nothing } from "../vendor/lit-html.js";
import { createForm } from "../kit/form.js";
import { duration, plural, totalCost } from "./format.js";
import { LABELS, ORDER, SWITCHES, changesOf, inWords } from "./options.js";
import { say } from "./words.js";

/**
 * @typedef {import("./options.js").Option} Option
 * @typedef {import("./options.js").InForce} InForce
 * @typedef {(facts: import("../kit/field.js").Field) => unknown} Field renders a field of the form
 * @typedef {{change: Record<string, any>, estimated: Api["EstimateView"]}} Estimated
 * @typedef {{estimate: Estimated | null, busy: string}} Shown
 * @typedef {{
 *   save: (change: Record<string, any>) => Promise<void>, estimate: (change: Record<string, any>) => Promise<void>,
 *   forget: () => void, rebuild: () => void,
 * }} Actions
 *   forget: remove the estimate, because the options were changed
 */

/** The meaning of options. @type {Record<Option, string>} */
const HINTS = {
  prompt: say`{text} is replaced by the chunk. {title}, {headings} and {count} may be used, too.`,
  questions_per_chunk: say`1 to 20, or auto: 3 to 10, by the length of the chunk.`,
  chunk_max_chars: say`A longer section is divided into chunks of this length.`,
  chunk_overlap_chars: say`Text that two chunks share if a paragraph must be cut.`,
  section_max_chars: say`Chunks are found, and whole sections are returned. Empty: no sections.`,
  ocr_languages: say`Tesseract\u2019s names, such as eng+deu. Empty: the installed ones of English, German, French and \
Spanish.`,
  prepend_questions: say`The meaning of a chunk is computed from its questions and its text together. This helps if \
users and texts share few words.`,
  context: say`In the same call the model writes the setting that the chunk takes for granted. This helps with \
sections of technical documentation.`,
  captions: say`The model describes the pictures in PDF and Word files, so that they are found.`,
};
const LENGTHS = /** @type {Option[]} */ (["chunk_max_chars", "chunk_overlap_chars", "section_max_chars"]);
const TYPED = /** @type {Option[]} */ (["questions_per_chunk", ...LENGTHS, "ocr_languages"]);

/** Mark a value that the server's settings decide. @param {boolean} isDefault */
const mark = (isDefault) => (isDefault ? html` <span class="default-mark">${say`default`}</span>` : nothing);

/** @param {InForce} inForce */
const version = (inForce) => html` <span class="soft">${say`version ${inForce.prompt_version}`}</span>`;

/**
 * Return a section with a form, which keeps its state while the screen is open.
 * @param {() => Api["CollectionView"] | null} current @param {Actions} actions
 */
export function optionsForm(current, { save, estimate, forget, rebuild }) {
  /** @param {Record<string, any>} values @returns {Record<string, any>} */
  const changes = (values) => {
    const view = current();
    if (!view?.effective || !view.defaults) return {};
    return changesOf(values, view.options, view.effective, view.defaults);
  };
  const form = createForm((values) => save(changes(values)));

  async function estimateClicked() {
    try {
      form.clear();
      await estimate(changes(form.values() ?? {}));
    } catch (problem) {
      form.fail(problem);
    }
  }

  /** @param {Api["CollectionView"]} view @param {Shown} shown */
  function section(view, shown) {
    if (!view.effective || !view.defaults) return nothing;
    const { effective, defaults } = view;
    return html`<section aria-labelledby="options-title"><h3 id="options-title">${say`Options and prompt`}</h3>
      <p class="soft">${say`The values in force. \u201cdefault\u201d marks a value of the server\u2019s settings. \
Empty a field to return to it.`}</p>
      ${form.view({
        action: say`Save for new documents`,
        label: say`Options and prompt`,
        body: (field) => fields(field, view, effective, defaults, forget),
        more: html`<button type="button" ?disabled=${shown.busy !== ""} @click=${estimateClicked}>
          ${say`Estimate a rebuild`}</button>`,
      })}
      <p class="soft small">${say`Saved options apply to documents that arrive from now on. To apply them to existing \
documents, estimate a rebuild and start it: it fills another build, and users notice nothing until you make it \
live.`}</p>
      ${shown.estimate ? price(shown.estimate, rebuild) : nothing}</section>`;
  }

  return { section };
}

/**
 * @param {Field} field @param {Api["CollectionView"]} view @param {InForce} effective @param {InForce} defaults
 * @param {() => void} changed
 */
function fields(field, { options, embedding_model: embedding }, effective, defaults, changed) {
  const own = /** @type {Record<string, any>} */ (options);
  /** @param {Option} name */
  function facts(name) {
    const isDefault = own[name] === null;
    const hint = HINTS[name];
    return {
      name,
      label: html`${LABELS[name]}${mark(isDefault)}`,
      hint: isDefault || name === "prompt" ? hint : say`${hint} Default: ${inWords(name, defaults)}.`,
      changed,
    };
  }
  const label = html`${LABELS.prompt}${version(effective)}${mark(own.prompt === null)}`;
  /** @param {Option} name */
  const typed = (name) => field({ ...facts(name), value: effective[name] ?? "", code: name === "ocr_languages",
    unit: LENGTHS.includes(name) ? say`characters` : undefined });
  return html`${field({ ...facts("prompt"), label, type: "area", rows: 12, code: true, wide: true,
      value: effective.prompt, longest: 20_000 })}
    ${instructions(effective)}
    ${TYPED.map(typed)}
    ${SWITCHES.map((name) => field({ ...facts(name), type: "check", value: effective[name], wide: true }))}
    ${chosenAtCreation(options.filterable, embedding)}`;
}

/** @param {InForce} effective */
const instructions = ({ instructions: text, prompt_version: number }) => html`<details class="kit-wide">
  <summary class="soft small">${say`Fixed instructions in front of the prompt, version ${number}`}</summary>
  <pre>${text}</pre></details>`;

/**
 * Show the options that cannot be changed any more.
 * @param {Record<string, string>} filterable @param {string} embedding
 */
function chosenAtCreation(filterable, embedding) {
  const names = Object.entries(filterable).map(([name, type]) => `${name} (${type})`).join(", ");
  return html`<p class="kit-hint kit-wide">${say`Chosen before the first document:`}
    ${say`embedding model ${html`<code>${embedding}</code>`}`} \u00b7
    ${names ? say`metadata for filters: ${names}` : say`no metadata for filters`}</p>`;
}

/** List the values for a key that may not change them. @param {Api["CollectionView"]} view */
export function optionsInForce({ effective, options }) {
  if (!effective) return nothing;
  const own = /** @type {Record<string, any>} */ (options);
  /** @param {Option} name */
  const row = (name) => html`<div><dt>${LABELS[name]}</dt>
    <dd>${inWords(name, effective)}${mark(own[name] === null)}</dd></div>`;
  return html`<section aria-labelledby="options-title"><h3 id="options-title">${say`Options and prompt`}</h3>
    <dl class="build-facts">${ORDER.filter((name) => name !== "prompt").map(row)}</dl>
    <h4>${LABELS.prompt}${version(effective)}${mark(own.prompt === null)}</h4>
    <pre>${effective.prompt}</pre>${instructions(effective)}</section>`;
}

/** @param {Estimated} made @param {() => void} rebuild */
function price({ change, estimated: each }, rebuild) {
  const names = Object.keys(change).map((name) => LABELS[/** @type {Option} */ (name)]).join(", ");
  const options = names ? say`Rebuild with another value of: ${names}` : say`Rebuild with the current options`;
  const tokens = plural(each.prompt_tokens + each.completion_tokens, "token");
  const parts = [plural(each.documents, "document"), plural(each.calls, "call"), tokens];
  parts.push(plural(each.embeddings, "embedding"), totalCost([each.llm_cost, each.embedding_cost]));
  if (each.seconds !== null) parts.push(say`${duration(each.seconds)} at the rate limits`);
  return html`<div class="card" role="status"><p><strong>${options}</strong></p><p>${parts.join(" \u00b7 ")}</p>
    <p class="soft small">${say`Existing questions are reused at no cost. Queries use the live build until you \
switch.`}</p>
    <p><button class="main" @click=${rebuild}>${say`Start the rebuild`}</button></p></div>`;
}
