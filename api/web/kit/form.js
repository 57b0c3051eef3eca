// A form: its values by their fields, the state of its submission, and the server's errors at their fields.
//
//   const addition = createForm((values) => post("/v1/sources", values));
//   addition.view({ action: say`Add source`, body: (field) => html`
//     ${field({ name: "name", label: say`Name`, required: true })}
//     ${field({ name: "options.include", label: say`Only these files`, wide: true })}` })
//
// A dot in a name is a field within an object, as in problems of the API: `{ name, options: { include } }`. Create a
// form once, outside of the view: it has the state. In a list, one form can belong to the row that is being changed.

import { html, nothing } from "../vendor/lit-html.js";
import { problemCard } from "../parts/notice.js";
import { say } from "../parts/words.js";
import { redraw, redrawNow } from "../store.js";
import { field } from "./field.js";

/** @typedef {import("./field.js").Field} Field */
/** @typedef {{name: string, type?: string, value: string, checked?: boolean}} Control an element of a form */

let forms = 0;

/**
 * Return a form. A value is a string, a number, a boolean, an array of the chosen options, or null for an empty field.
 *
 * @param {(values: any, element: HTMLFormElement) => unknown} submit sends the values; a problem is shown in the form.
 *   It returns false if the user has cancelled it: the values stay
 * @param {{keeps?: boolean}} [options] keeps: whether the values stay after a submission, as for changes of an object
 */
export function createForm(submit, { keeps = false } = {}) {
  const id = `form-${++forms}`;
  /** @type {Map<string, Field>} the drawn fields */
  const fields = new Map();
  /** @type {{isBusy: boolean, errors: Record<string, string>, problem: any}} */
  const state = { isBusy: false, errors: {}, problem: null };

  /** Render a field of the form. @param {Field} facts */
  function own(facts) {
    fields.set(facts.name, facts);
    return field({
      ...facts,
      id: `${id}-${facts.name}`,
      error: state.errors[facts.name] ?? facts.error,
      changed: (value, control) => {
        if (state.errors[facts.name]) {
          delete state.errors[facts.name];
          redraw();
        }
        facts.changed?.(value, control);
      },
      invalid: (event) => refused(event, facts),
    });
  }

  let isRefused = false;

  /** Show the browser's error at the field instead of in a bubble. @param {any} event @param {Field} facts */
  function refused(event, { name, mismatch }) {
    event.preventDefault();
    if (!isRefused) {
      // It is the first of the invalid fields.
      clear();
      requestAnimationFrame(() => ((isRefused = false), show()));
    }
    isRefused = true;
    const { validity, validationMessage } = event.target;
    state.errors[name] ??= (validity.patternMismatch && mismatch) || validationMessage;
  }

  /** Draw the problems, and go to the first of them. */
  function show() {
    redrawNow();
    /** @type {HTMLElement | null} */ (document.querySelector(`#${id} [aria-invalid="true"]`))?.focus();
  }

  /** Show a problem: at the fields that it names, or above the buttons. @param {any} problem */
  function fail(problem) {
    const { errors, rest } = errorsOf(problem, [...fields.keys()]);
    Object.assign(state, { errors, problem: rest });
    show();
  }

  /** Remove all problems. */
  function clear() {
    Object.assign(state, { errors: {}, problem: null });
  }

  /** @param {On<HTMLFormElement>} event */
  async function submitted(event) {
    event.preventDefault();
    const form = event.target;
    if (state.isBusy) return;
    clear();
    state.isBusy = true;
    redraw();
    try {
      const sent = await submit(valuesOf(form.elements, fields), form);
      if (sent !== false && !keeps) form.reset();
      state.isBusy = false;
      redraw();
    } catch (problem) {
      state.isBusy = false;
      fail(problem);
    }
  }

  /** Return the values of the drawn form, as for another button. */
  function values() {
    const form = /** @type {HTMLFormElement | null} */ (document.getElementById(id));
    return form ? valuesOf(form.elements, fields) : null;
  }

  /** Go to the first field of the drawn form. */
  function focus() {
    /** @type {HTMLElement | null} */ (document.querySelector(`#${id} :is(input, select, textarea)`))?.focus();
  }

  /**
   * Render the form. `body` renders its fields with the given function.
   *
   * @param {{action: unknown, body: (field: (facts: Field) => unknown) => unknown, busy?: unknown, label?: string,
   *   cancel?: () => void, more?: unknown, inline?: boolean, danger?: boolean}} facts
   *   busy: words of the button while the values are sent
   *   label: name of the form for screen readers
   *   more: other buttons
   *   inline: whether the form is a line, as in a row
   *   danger: whether it deletes data
   */
  function view({ action, body, busy = say`Saving…`, label, cancel, more, inline, danger }) {
    fields.clear();
    const main = html`<button class=${inline ? nothing : danger ? "kit-destroy" : "main"} type="submit"
      aria-disabled=${state.isBusy ? "true" : nothing}>${state.isBusy ? busy : action}</button>`;
    const back = cancel ? html`<button type="button" @click=${cancel}>${say`Cancel`}</button>` : nothing;
    if (inline) {
      return html`<form class="kit-form kit-inline" id=${id} aria-label=${label ?? nothing} @submit=${submitted}>
        ${body(own)}${main}${back}${problemCard(state.problem)}</form>`;
    }
    return html`<form class="kit-form" id=${id} aria-label=${label ?? nothing} @submit=${submitted}>
      <div class="kit-fields">${body(own)}</div>
      ${problemCard(state.problem)}
      <p class="kit-actions">${main}${more ?? nothing}
        ${back}</p>
    </form>`;
  }

  return { id, state, view, values, focus, fail, clear };
}

/**
 * Return the values of a form's controls, by the types of their fields. A field that is not drawn has no value.
 *
 * @param {Iterable<any>} controls @param {Map<string, Field>} fields
 */
export function valuesOf(controls, fields) {
  /** @type {Record<string, any>} */
  const values = {};
  for (const [name, { type }] of fields) {
    const own = /** @type {Control[]} */ ([...controls].filter((each) => each.name === name));
    if (own.length) put(values, name.split("."), valueFrom(own, type));
  }
  return values;
}

/** @param {Control[]} controls @param {string} [type] */
function valueFrom(controls, type) {
  const chosen = controls.filter((each) => each.checked).map((each) => each.value);
  if (type === "checks") return chosen;
  if (type === "check") return chosen.length > 0;
  const value = type === "tiles" ? (chosen[0] ?? "") : controls[0].value.trim();
  if (value === "") return null;
  return type === "number" ? Number(value) : value;
}

/** @param {Record<string, any>} values @param {string[]} path @param {unknown} value */
function put(values, [first, ...rest], value) {
  if (rest.length) put((values[first] ??= {}), rest, value);
  else values[first] = value;
}

/**
 * Distribute a problem: an error that names one of the fields, or a part of its value, is shown there.
 *
 * @param {any} problem of the API @param {readonly string[]} names of the form's fields
 * @returns {{errors: Record<string, string>, rest: any}} rest: the problem, unless each of its errors has a field
 */
export function errorsOf(problem, names) {
  /** @type {Record<string, string>} */
  const errors = {};
  /** @type {{field: string, message: string}[]} */
  const given = problem.errors ?? (problem.field ? [{ field: problem.field, message: problem.message }] : []);
  const others = given.filter(({ field: path, message }) => {
    const name = names.find((each) => path === each || path.startsWith(`${each}.`));
    if (name) errors[name] ??= message;
    return !name;
  });
  return { errors, rest: given.length && !others.length ? null : problem };
}
