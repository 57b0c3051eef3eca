// The form of a source: tiles of the kinds, and for each kind its address, its options, its secret and its schedule.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { get, post, send } from "../api.js";
import { confirmed } from "../kit/dialog.js";
import { createForm } from "../kit/form.js";
import { listed, plural } from "./format.js";
import { notify } from "./notice.js";
import { may } from "./permissions.js";
import { choiceOf, cronOf, scheduleFields } from "./schedule.js";
import { KINDS, addressOf, kindOf, optionsOf, shownOption } from "./source-kinds.js";
import { redraw, redrawNow } from "../store.js";
import { say } from "./words.js";

const PERCENT = 100;
const POLL = 1000; // milliseconds between two readings of a test
const DELETE_SHARE = 0.1; // of the server
const LONGEST_NAME = 63;
/** @param {Api["SourceView"] | null} source null or without a schedule: the time zone of the browser */
const zoneOf = (source) => (source?.schedule ? source.time_zone : Intl.DateTimeFormat().resolvedOptions().timeZone);
/** @typedef {import("../kit/field.js").Field} Field */

/** @type {Field} */
const KIND = {
  name: "kind",
  label: say`Kind`,
  type: "tiles",
  options: KINDS.map(({ name, words, hint, sign }) => [name, words, hint, sign]),
};
/** @type {Field} */
const NAME = {
  name: "name",
  label: say`Name`,
  hint: say`Documents are named after it: handbook/leave.md`,
  required: true,
  longest: LONGEST_NAME,
  placeholder: "handbook",
  pattern: "[a-z0-9][a-z0-9_\\-]*",
  mismatch: say`Small letters, digits, - and _ only.`,
  changed: (value, control) => {
    const spelled = value.toLowerCase().replace(/\s/g, "-");
    if (spelled !== value) control.value = spelled;
  },
};
/** @type {Field} */
const COLLECTION = {
  name: "collection",
  label: say`Collection`,
  placeholder: "default",
  hint: say`A new name creates a collection`,
};
const VARIABLE = html`<code>FOREASK_SOURCE_SECRET_${say`NAME`}</code>`;
/** @type {Field} */
const SECRET = {
  name: "secret_name",
  label: say`Secret`,
  hint: say`Its name. The operator stores the secret as ${VARIABLE}. Empty: none is needed`,
  placeholder: "WIKI",
  longest: 100,
};
/** @type {Field} */
const DELETIONS = {
  name: "max_delete_share",
  label: say`Deletions without approval`,
  hint: say`Largest part of the documents that one sync deletes by itself. Ten are always allowed`,
  type: "number",
  min: 0,
  max: PERCENT,
  unit: "%",
};

/** @typedef {{isBusy: boolean, found: Api["SourceCheckView"] | null}} Test of the definition in the form */

/**
 * The open form; kind: of the source; every: interval of its schedule; old: the source that is changed, or null.
 * @type {{kind: string, every: string, old: Api["SourceView"] | null, collections: string[], test: Test | null,
 *   saved: () => Promise<void>} | null}
 */
let open = null;
/** @type {ReturnType<typeof createForm>} */
let form;
let proposed = ""; // the name that was derived from the address

/** The id of the button that opens the form of a new source. */
export const ADDITION = "add-source";

export const isEditing = () => open !== null;

/** @param {Api["SourceView"] | null} old */
function openForm(old) {
  open = {
    kind: old?.kind ?? "folder",
    every: choiceOf(old?.schedule ?? null).every,
    old,
    collections: [],
    test: null,
    saved: async () => {},
  };
  proposed = "";
  form = createForm(save);
  get("/v1/collections?limit=200").then(
    ({ items }) => {
      if (open) open.collections = items.map((each) => each.name);
      redraw();
    },
    () => {},
  ); // names are only proposed
}

/** Open the form of a new source. */
export const newSource = () => openForm(null);

/** @param {Api["SourceView"]} source */
export const editSource = (source) => openForm(source);

export const focusForm = () => form.focus();

export function closeForm() {
  open = null;
  redraw();
}

/** Close the form, and return the keyboard to the list. */
function leaveForm() {
  closeForm();
  redrawNow();
  document.getElementById(ADDITION)?.focus();
}

/**
 * Return a name for the source of an address: the last part of its path, or its host.
 * @param {string} address
 */
export function nameFrom(address) {
  const [last = ""] = address.replace(/[?#].*$/, "").replace(/^[a-z+]+:/i, "").split("/").filter(Boolean).slice(-1);
  const words = last.toLowerCase().replace(/\.(git|xml|txt|jsonl|parquet)$/, "").replace(/^www\./, "");
  return words.replace(/[^a-z0-9_]+/g, "-").replace(/^[-_]+|-+$/g, "").slice(0, LONGEST_NAME);
}

/**
 * Name the source after its address, until the user names it.
 * @param {string} address @param {HTMLInputElement} control
 */
function proposeName(address, { form: element }) {
  const name = element?.elements.namedItem("name");
  if (!(name instanceof HTMLInputElement) || name.value !== proposed) return;
  name.value = proposed = nameFrom(address);
}

/** Return the values of a source that the API expects. @param {any} values @param {Api["SourceView"] | null} old */
export function definitionOf(values, old) {
  const kind = old?.kind ?? values.kind;
  const known = kindOf(kind);
  return {
    uri: addressOf(kind, values.uri ?? ""),
    options: known ? optionsOf(known, values.options, old?.options) : (old?.options ?? {}),
    secret_name: values.secret_name ?? null,
    schedule: known?.pushed ? null : cronOf({ ...values, minute: choiceOf(old?.schedule ?? null).minute }),
    time_zone: zoneOf(old),
    ...(values.max_delete_share === null || values.max_delete_share === undefined
      ? {}
      : { max_delete_share: values.max_delete_share / PERCENT }),
  };
}

/** @param {any} values */
async function save(values) {
  const { old, saved } = open ?? { old: null, saved: async () => {} };
  const definition = definitionOf(values, old);
  if (old) {
    if (!(await change(old, definition))) return false;
    notify(say`The source ${old.name} was changed.`);
  } else {
    const { collection, kind, name } = values;
    await post(
      "/v1/sources",
      /** @type {any} */ ({ name, kind, ...(collection ? { collection } : {}), ...definition }),
    );
    notify(kindOf(kind)?.pushed ? say`The source ${name} was added.` : await started(name));
  }
  leaveForm();
  await saved();
  return true;
}

/** Start the first sync of a source, and return the notice about it. @param {string} name */
async function started(name) {
  const added = say`The source ${name} was added.`;
  if (!may("write")) return added;
  return post(`/v1/sources/${name}/sync`).then(
    () => say`The source ${name} was added, and is being synced.`,
    (problem) => `${added} ${problem.message}`,
  );
}

/** Change a source; false: the user did not confirm it. @param {Api["SourceView"]} old @param {any} definition */
async function change(old, definition) {
  const path = /** @type {const} */ (`/v1/sources/${old.name}`);
  try {
    await send("PATCH", path, { body: definition });
  } catch (problem) {
    if (problem.status !== 409) throw problem;
    const isSure = await confirmed({
      title: say`Change the entries of the source?`,
      text: say`Documents of entries that it no longer lists are deleted later.`,
      action: say`Change the source`,
    });
    if (!isSure) return false;
    await send("PATCH", path, { body: { ...definition, confirm: true } });
  }
  return true;
}

/** List the first entries of the source in the form, and show their number. */
async function check() {
  if (!open || open.test?.isBusy) return;
  const values = form.values();
  if (!values?.uri) return form.fail({ field: "uri", message: say`Enter an address first.` });
  /** @type {Test} */
  const test = (open.test = { isBusy: true, found: null });
  form.clear();
  redraw();
  const kind = open.old?.kind ?? values.kind;
  const { uri, options, secret_name } = definitionOf(values, open.old);
  try {
    test.found = await post("/v1/source-checks", { kind, uri, options, secret_name });
    while (test.found && !test.found.ended_at && open?.test === test) {
      redraw();
      await new Promise((done) => setTimeout(done, POLL));
      test.found = await get(`/v1/source-checks/${test.found.id}`);
    }
  } catch (problem) {
    if (open?.test === test) open.test = null;
    form.fail(problem);
  }
  test.isBusy = false;
  redraw();
}

/** @param {Api["SourceCheckView"]} found */
const refused = (found) => say`${plural(found.refused, "entry", "entries")} cannot be read`;

/** Render the result of a test. @param {Test | null} test */
function tested(test) {
  const found = test?.found;
  if (test?.isBusy)
    return html`<p class="soft small">${
      found?.state === "queued" ? say`The test waits for a worker.` : say`The first entries are being listed.`
    }</p>`;
  if (!found) return nothing;
  if (found.error) return html`<p class="bad" dir="auto">${say`The source cannot be listed: ${found.error}`}</p>`;
  const many = plural(found.seen, "entry", "entries");
  const words = found.complete ? say`${many} listed.` : say`The first ${many} were listed; there are more.`;
  return html`<p class="good">${words}</p>
    ${found.keys.length ? html`<p class="small" dir="auto">${listed(found.keys)}</p>` : nothing}
    ${found.refused ? html`<p class="bad small" dir="auto">${refused(found)}: ${found.refusal}</p>` : nothing}`;
}

/** Render the form. @param {() => Promise<void>} saved reads the sources again */
export function formOf(saved) {
  if (!open) return nothing;
  open.saved = saved;
  const { old } = open;
  const { pushed } = kindOf(open.kind) ?? {};
  return html`<h2>${old ? say`Change ${old.name}` : say`Add a source`}</h2>
    ${form.view({
      action: old ? say`Save` : may("write") && !pushed ? say`Add and sync` : say`Add source`,
      label: old ? say`Change ${old.name}` : say`Add a source`,
      cancel: leaveForm,
      body: fields,
      more: pushed
        ? nothing
        : html`<button type="button" aria-disabled=${open.test?.isBusy ? "true" : nothing}
        @click=${check}>${say`Test`}</button>`,
    })}
    <div class="source-test" role="status">${tested(open.test)}</div>`;
}

/** @param {(facts: import("../kit/field.js").Field) => unknown} field */
function fields(field) {
  if (!open) return nothing;
  const { kind: name, every, old, collections } = open;
  const kind = kindOf(name);
  /** @param {"kind" | "every"} key @returns {(value: string) => void} */
  const choose = (key) => (value) => {
    if (open) Object.assign(open, { [key]: value, test: null });
    form.clear();
    redraw();
  };
  const all = kind?.options ?? [];
  /** @param {boolean} isRare */
  const options = (isRare) => repeat(all.filter(({ rare = false }) => rare === isRare), keyOf, option);
  /** @param {import("./source-kinds.js").Option} option */
  const option = ({ name: each, many, rare, ...facts }) =>
    field({ ...facts, name: `options.${each}`, code: facts.code ?? many, value: shownOption(old?.options[each]) });
  const isWrong =
    all.some(({ name: each, rare }) => rare && form.state.errors[`options.${each}`]) ||
    Boolean(form.state.errors.max_delete_share);
  const { label = say`Address`, placeholder = "", hint = "" } = kind?.address ?? {};
  const zone = zoneOf(old);
  return html`
    ${old ? nothing : field({ ...KIND, value: name, changed: choose("kind") })}
    ${field({
      ...{ name: "uri", label, placeholder, hint, value: old?.uri, required: true, wide: true, code: true },
      changed: proposeName,
    })}
    ${old ? nothing : [field(NAME), field({ ...COLLECTION, list: collections })]}
    ${
      kind?.pushed
        ? nothing
        : scheduleFields(field, every, { cron: old?.schedule ?? null, zone, changed: choose("every") })
    }
    ${kind?.secret ? field({ ...SECRET, value: old?.secret_name ?? undefined }) : nothing}
    ${options(false)}
    <details class="kit-more" ?open=${isWrong}><summary>${say`More options`}</summary>
      <div class="kit-fields">${options(true)}
        ${field({ ...DELETIONS, value: (old?.max_delete_share ?? DELETE_SHARE) * PERCENT })}</div></details>`;
}

/**
 * Identify the field of an option: it keeps its typed value if another kind with the same option is chosen.
 *
 * @param {import("./source-kinds.js").Option} option
 */
const keyOf = ({ name, label }) => `${name} ${label}`;
