// The contents of the dialogs that create, describe and delete a collection. They are loaded when one is opened.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, get, send } from "../api.js";
import { dialog } from "../kit/dialog.js";
import { createForm } from "../kit/form.js";
import { redraw } from "../store.js";
import { closeDialog, showDialog } from "./collection-dialog.js";
import { lossesOf } from "./collection-numbers.js";
import { isListed } from "./collections.js";
import { notify } from "./notice.js";
import { server } from "./permissions.js";
import { say } from "./words.js";

const NAME = "[a-z0-9][a-z0-9_\\-]{0,62}";
const LONGEST = 500; // characters of a description
const MOST_FIELDS = 16;
/** @type {[string, string][]} the types of a metadata field */
const TYPES = [
  ["keyword", say`text`], ["integer", say`whole number`], ["float", say`number`], ["bool", say`yes or no`],
  ["datetime", say`date`],
];

/** @typedef {(facts: import("../kit/field.js").Field) => unknown} Field renders a field of a form */

/** @param {string} name */
const address = (name) => /** @type {const} */ (`/v1/collections/${encodeURIComponent(name)}`);

/** Return a problem at a field of a form. @param {string} field @param {string} message */
const problemAt = (field, message) => Object.assign(new Error(message), { field });

/** Ask for the name and the options of a new collection. */
export async function openCreation() {
  const { embedding: usual = null, embeddings = [] } = (await server()) ?? {};
  let many = 0;
  const form = createForm(async ({ name, description, embedding, metadata }) => {
    // The request would replace the options of an existing collection.
    if (isListed(name)) throw problemAt("name", say`A collection of this name exists.`);
    await send("PUT", address(name), { body: { description, embedding, filterable: declared(metadata) } });
    location.assign(`${ROOT}/collections/${encodeURIComponent(name)}`);
    await new Promise(() => {}); // until the screen is left
  });
  const more = () => ((many += 1), redraw());
  /** @param {Field} field */
  const body = (field) => html`
    ${field({ name: "name", label: say`Name`, required: true, focus: true, code: true, wide: true, longest: 63,
      pattern: NAME, mismatch: say`Use lower-case letters, digits, - and _.`,
      hint: say`Lower-case letters, digits, - and _. The name cannot be changed later.` })}
    ${descriptionField(field)}
    ${embeddings.length ? field({ name: "embedding", label: say`Embedding model`, type: "select", wide: true,
      value: usual, options: embeddings.map((each) => /** @type {const} */ ([each.name, each.name])),
      hint: say`Compares questions with texts by meaning. After the first document, only a rebuild changes it, which \
embeds all texts again.` }) : nothing}
    ${metadataFields(field, many, more)}
    <p class="kit-hint kit-wide">${say`The prompt, the number of questions and the length of chunks can be changed \
later.`}</p>`;
  const facts = { action: say`Create`, busy: say`Creating\u2026`, cancel: closeDialog, body };
  showDialog(() => dialog({ title: say`Create a collection`, close: closeDialog, body: form.view(facts) }));
}

/** @param {Field} field @param {Partial<import("../kit/field.js").Field>} [more] */
const descriptionField = (field, more) => field({ name: "description", label: say`Description`, type: "area", rows: 2,
  longest: LONGEST, wide: true, hint: say`For people: its contents and its readers.`, ...more });

/** Render the fields for filters. @param {Field} field @param {number} many @param {() => void} more */
function metadataFields(field, many, more) {
  const words = many ? say`Add another field` : say`Add a field`;
  /** @param {number} number */
  const one = (number) => html`<div class="metadata-field">
    ${field({ name: `metadata.${number}.name`, label: say`Field`, code: true, longest: 100,
      placeholder: "department" })}
    ${field({ name: `metadata.${number}.type`, label: say`Values`, type: "select", options: TYPES })}</div>`;
  return html`<div class="kit-wide metadata-fields"><p class="kit-label">${say`Metadata for filters`}</p>
    <p class="kit-hint">${say`Declare the fields of your documents\u2019 metadata by which questions are filtered, \
such as a department. Fields can be added only before the first document.`}</p>
    ${Array.from({ length: many }, (_, number) => one(number))}
    ${many < MOST_FIELDS ? html`<button type="button" class="quiet" @click=${more}>${words}</button>` : nothing}
  </div>`;
}

/**
 * Return the types of the declared fields by their names; null: none is declared.
 * @param {Record<string, {name: string | null, type: string}>} [metadata] by the numbers of the rows
 */
export function declared(metadata = {}) {
  const named = Object.values(metadata).filter(({ name }) => name);
  return named.length ? Object.fromEntries(named.map(({ name, type }) => [name, type])) : null;
}

/** Change the description of a collection. @param {Api["CollectionView"]} collection @param {() => void} changed */
export function openDescription({ name, description }, changed) {
  const form = createForm(async (values) => {
    const { options } = await get(address(name)); // they may have changed since the dialog was opened
    await send("PUT", address(name), { body: { ...options, description: values.description ?? "" } });
    closeDialog();
    notify(say`Description saved.`);
    changed();
  });
  /** @param {Field} field */
  const body = (field) => descriptionField(field, { rows: 3, value: description ?? "", focus: true });
  const facts = { action: say`Save`, cancel: closeDialog, body };
  showDialog(() => dialog({ title: say`Describe \u201c${name}\u201d`, close: closeDialog, body: form.view(facts) }));
}

/**
 * Ask for the name of a collection before it is deleted.
 * @param {import("./collections.js").Listed} collection @param {() => void} deleted
 */
export function openDeletion(collection, deleted) {
  const { name } = collection;
  const form = createForm(async (values) => {
    if (values.name !== name) throw problemAt("name", say`The name does not match.`);
    await send("DELETE", address(name));
    closeDialog();
    notify(say`\u201c${name}\u201d is deleted. Its data is removed within some minutes.`);
    deleted();
  });
  /** @param {Field} field */
  const body = (field) => field({ name: "name", label: say`Type \u201c${name}\u201d to confirm`, required: true,
    focus: true, code: true, wide: true });
  const facts = { action: say`Delete collection`, busy: say`Deleting\u2026`, cancel: closeDialog, body };
  showDialog(() => dialog({ title: say`Delete \u201c${name}\u201d?`, close: closeDialog, body: html`
    <p>${say`This cannot be undone. Deleted are:`}</p>
    <ul>${lossesOf(collection).map((each) => html`<li>${each}</li>`)}</ul>
    <p class="soft">${say`Files in your sources are not touched, and records of costs are kept.`}</p>
    <div class="deletion">${form.view(facts)}</div>` }));
}
