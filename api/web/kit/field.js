// A labelled control with a hint and an error, which screen readers read with it. In a form, use the `field` that the
// form passes to its body.
//
//   field({ name: "uri", label: say`Address`, hint: say`A folder, a bucket or a site`, required: true, wide: true })
//   field({ name: "unit", label: say`Unit`, type: "select", options: [["money", say`money`], ["token", say`tokens`]] })

import { html, nothing } from "../vendor/lit-html.js";
import { icon } from "../parts/icon.js";

/**
 * `type` is a type of `<input>`, or: `area` for several lines, `select`, `checks` for any number of options, `tiles`
 * for one of a few options, `check` for a box of its own. An option is its value, its words, a hint, and an icon.
 *
 * @typedef {readonly [value: string, words: unknown, hint?: unknown, sign?: string]} Option
 * @typedef {{
 *   name: string, label: unknown, type?: string, hint?: unknown, error?: string, id?: string, value?: unknown,
 *   options?: readonly Option[], required?: boolean, wide?: boolean, placeholder?: string, pattern?: string,
 *   silent?: boolean, mismatch?: string, min?: number, max?: number, step?: number | "any", longest?: number,
 *   rows?: number, list?: readonly string[], autocomplete?: string, unit?: string, code?: boolean, focus?: boolean,
 *   changed?: (value: string, control: HTMLInputElement) => void, invalid?: (event: Event) => void,
 * }} Field
 *   value: the first value, which a reset of the form restores; for checks, the chosen options
 *   silent: whether the label is only for screen readers, as in a row of a table
 *   mismatch: error of a value that does not match the pattern
 *   code: whether it is an address or a pattern, in a fixed-width font
 *   unit: words after the control, such as a currency
 *   changed: called at each input
 */

/** The groups of options, with the classes of their layouts. @type {Record<string, string>} */
const GROUPS = { checks: "kit-checks", tiles: "kit-tiles" };

/** @param {Field} facts */
export function field(facts) {
  const { name, label, type = "text", hint, error, id = `field-${name}`, unit } = facts;
  const isWide = facts.wide || type === "tiles";
  const described = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ") || nothing;
  const notes = html`${hint ? html`<p class="kit-hint" id=${`${id}-hint`}>${hint}</p>` : nothing}
    ${error ? html`<p class="kit-error" id=${`${id}-error`} dir="auto">${error}</p>` : nothing}`;
  if (type in GROUPS) {
    return html`<fieldset class=${isWide ? "kit-field kit-wide" : "kit-field"} aria-describedby=${described}>
      <legend class="kit-label">${label}</legend>
      <div class=${GROUPS[type]}>${(facts.options ?? []).map((each) => choice(facts, each))}</div>${notes}</fieldset>`;
  }
  const control = (CONTROLS[type] ?? input)(facts, id, described);
  if (type === "check") {
    return html`<div class=${isWide ? "kit-field kit-wide" : "kit-field"}>
      <label class="kit-check">${control}<span>${label}</span></label>${notes}</div>`;
  }
  return html`<div class=${isWide ? "kit-field kit-wide" : "kit-field"}>
    <label class=${facts.silent ? "hidden" : "kit-label"} for=${id}>${label}</label>
    ${unit ? html`<span class="kit-with-unit">${control}<span class="kit-unit">${unit}</span></span>` : control}
    ${notes}</div>`;
}

/** @typedef {string | symbol} Described ids of the hint and the error; a symbol: none */

/** @type {Record<string, (facts: Field, id: string, described: Described) => unknown>} */
const CONTROLS = { select, area, check };

/** @param {Field} facts @returns {(event: any) => void} */
const onInput =
  ({ changed }) =>
  (event) =>
    changed?.(event.target.value, event.target);

/** @param {Field} facts */
const isInvalid = ({ error }) => (error ? "true" : nothing);

/** @param {Field} facts @param {string} id @param {Described} described */
function input(facts, id, described) {
  const { name, type = "text", list } = facts;
  return html`<input class=${facts.code ? "kit-code" : nothing} id=${id} name=${name} type=${type}
      value=${facts.value ?? nothing} ?required=${facts.required} ?autofocus=${facts.focus}
      placeholder=${facts.placeholder ?? nothing} pattern=${facts.pattern ?? nothing}
      min=${facts.min ?? nothing} max=${facts.max ?? nothing} step=${facts.step ?? nothing}
      maxlength=${facts.longest ?? nothing} autocomplete=${facts.autocomplete ?? "off"}
      spellcheck=${facts.code ? "false" : nothing} list=${list ? `${id}-list` : nothing}
      aria-invalid=${isInvalid(facts)} aria-describedby=${described}
      @input=${onInput(facts)} @invalid=${facts.invalid ?? nothing}>
    ${list ? html`<datalist id=${`${id}-list`}>${list.map(proposed)}</datalist>` : nothing}`;
}

const proposed = (/** @type {string} */ value) => html`<option value=${value}></option>`;

/** @param {Field} facts @param {string} id @param {Described} described */
function check(facts, id, described) {
  return html`<input id=${id} name=${facts.name} type="checkbox" value="true" ?checked=${facts.value}
    ?required=${facts.required} aria-invalid=${isInvalid(facts)} aria-describedby=${described}
    @input=${onInput(facts)} @invalid=${facts.invalid ?? nothing}>`;
}

/** @param {Field} facts @param {string} id @param {Described} described */
function select(facts, id, described) {
  const { name, value = "", options = [] } = facts;
  return html`<select id=${id} name=${name} ?required=${facts.required} aria-invalid=${isInvalid(facts)}
      aria-describedby=${described} @input=${onInput(facts)} @invalid=${facts.invalid ?? nothing}>
    ${options.map(([each, words]) => html`<option value=${each} ?selected=${each === value}>${words}</option>`)}
  </select>`;
}

/** @param {Field} facts @param {string} id @param {Described} described */
function area(facts, id, described) {
  return html`<textarea class=${facts.code ? "kit-code" : nothing} id=${id} name=${facts.name} rows=${facts.rows ?? 3}
    ?required=${facts.required} placeholder=${facts.placeholder ?? nothing} maxlength=${facts.longest ?? nothing}
    spellcheck=${facts.code ? "false" : nothing} aria-invalid=${isInvalid(facts)} aria-describedby=${described}
    @input=${onInput(facts)} @invalid=${facts.invalid ?? nothing} .defaultValue=${facts.value ?? ""}></textarea>`;
}

/** Render one of the options of a group. @param {Field} facts @param {Option} option */
function choice(facts, [value, words, hint, sign]) {
  const isTile = facts.type === "tiles";
  const isChosen = isTile ? facts.value === value : Array.isArray(facts.value) && facts.value.includes(value);
  return html`<label class=${isTile ? "kit-tile" : "kit-check"}>
    <input type=${isTile ? "radio" : "checkbox"} name=${facts.name} value=${value} ?checked=${isChosen}
      ?required=${isTile && facts.required} @input=${onInput(facts)} @invalid=${facts.invalid ?? nothing}>
    ${sign ? icon(sign) : nothing}
    <span class="kit-words"><span>${words}</span>
      ${hint ? html`<span class="kit-hint">${hint}</span>` : nothing}</span>
  </label>`;
}
