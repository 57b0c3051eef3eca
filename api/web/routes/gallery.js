// Gallery: each part of the kit in each of its states, for developers and for the tests, which photograph it. It is
// served from a checkout only, and the navigation does not have it.

import { html, nothing } from "../vendor/lit-html.js";
import { card } from "../kit/card.js";
import { confirmed, dialog } from "../kit/dialog.js";
import { empty } from "../kit/empty.js";
import { field } from "../kit/field.js";
import { createForm } from "../kit/form.js";
import { menu } from "../kit/menu.js";
import { skeleton } from "../kit/skeleton.js";
import { table } from "../kit/table.js";
import { tabs } from "../kit/tabs.js";
import { notify } from "../parts/notice.js";
import { redraw } from "../store.js";

export const title = "Gallery";
export const titled = true;
export const load = redraw;
export const unload = () => {};

const LONG = "A-name-without-a-space-that-is-longer-than-any-column-of-a-small-display-and-wraps-within-its-own-box";
const RTL = "\u0627\u0644\u0625\u062c\u0627\u0632\u0629 \u0627\u0644\u0633\u0646\u0648\u064a\u0629";
const seen = { tab: "text", isOpen: false, answer: "" };
/** @type {readonly import("../kit/field.js").Option[]} */
const KINDS = [
  ["folder", "Folder", "A folder of the server", "folder"],
  ["crawl", "Site", "All pages below an address", "globe"],
  ["postgresql", "Database", "Rows of a table or a query of PostgreSQL", "database"],
];
/** @type {readonly import("../kit/field.js").Option[]} */
const SCOPES = [
  ["ask", "Ask questions"],
  ["read", "Read documents"],
  ["write", "Add and change documents"],
];
const ROWS = [
  { name: "everything", spent: 1234.5, limit: 20000, by: "operator", ended: false },
  { name: LONG, spent: 0.07, limit: 5, by: "tenant", ended: false },
  { name: RTL, spent: 88, limit: 88, by: "tenant", ended: true },
];

const plain = createForm((values) => notify(JSON.stringify(values)));
const refusing = createForm(() =>
  Promise.reject({
    message: "name: It is in use. (1 more in `errors`)",
    errors: [
      { field: "name", message: "A source with this name exists." },
      {
        field: "uri",
        message: "This address is not allowed: ask the operator for the permission to read below file:///srv.",
      },
    ],
  }),
);
const failing = createForm(() =>
  Promise.reject({ message: "The server is unreachable. This page may be out of date.", requestId: "0198f3a1" }),
);
const waiting = createForm(() => new Promise(() => {}));
const inline = createForm((values) => notify(JSON.stringify(values)), { keeps: true });
const inDialog = createForm((values) => (notify(JSON.stringify(values)), close()));

function close() {
  seen.isOpen = false;
  /** @type {HTMLDialogElement | null} */ (document.querySelector("#dialog"))?.close();
  redraw();
}

async function ask() {
  const isSure = await confirmed({
    title: "Delete the source and its documents?",
    text: `3,000 documents of ${LONG} are deleted from the collection. This cannot be undone.`,
    action: "Delete 3,000 documents",
    danger: true,
  });
  seen.answer = isSure ? "deleted" : "kept";
  redraw();
}

/** @param {string} name @param {unknown} body */
const part = (name, body) => html`<section class="gallery-part" aria-label=${name}><h2>${name}</h2>${body}</section>`;

export const view = () => html`<section class="column wide">
  ${part("Field", fields())} ${part("Form", forms())} ${part("Card", cards())} ${part("Table", budgets())}
  ${part("Menu", menus())} ${part("Dialog", dialogs())} ${part("Tabs", views())}
  ${part("Empty", empties())} ${part("Skeleton", html`${skeleton()}${skeleton({ rows: 2, cards: true })}`)}
</section>`;

/** @type {readonly import("../kit/field.js").Field[]} */
const FIELDS = [
  { name: "plain", label: "Name", value: "handbook" },
  { name: "hint", label: "Address", hint: "A folder or a site", placeholder: "https://example.org/", code: true },
  { name: "wrong", label: "Schedule", value: "every day", error: "This is not a cron expression: it has five fields." },
  {
    name: "both", label: "Limit", type: "number", value: -1, unit: "USD a day", hint: "Empty: no limit",
    error: "The limit must be at least 0.",
  },
  { name: "list", label: "Collection", list: ["default", "handbook"], value: "default" },
  { name: "select", label: "Period", type: "select", options: [["day", "a day"], ["week", "a week"]], value: "week" },
  { name: "secret", label: "Key", type: "password", value: "secret", autocomplete: "off" },
  { name: "check", label: "Also hidden files", type: "check", hint: "Names that start with a dot", value: true },
  {
    name: "scopes", label: "Permissions", type: "checks", options: SCOPES, value: ["ask"],
    hint: "A key with limits cannot manage.",
  },
  { name: "area", label: "Query", type: "area", code: true, wide: true, value: "SELECT id, text FROM articles" },
  { name: "kind", label: "Kind", type: "tiles", options: KINDS, value: "crawl" },
  { name: "wrong-kind", label: "Kind, not chosen", type: "tiles", options: KINDS.slice(0, 2), error: "Choose a kind." },
];

const fields = () => html`<div class="kit-fields">${FIELDS.map(field)}</div>`;

/** @param {(facts: import("../kit/field.js").Field) => unknown} own */
const body = (own) => html`
  ${own({ name: "name", label: "Name", required: true, pattern: "[a-z]+", mismatch: "Only small letters." })}
  ${own({ name: "uri", label: "Address", hint: "Where the documents are" })}`;

/** @param {(facts: import("../kit/field.js").Field) => unknown} own */
const limit = (own) => own({ name: "limit", label: "Limit", type: "number", value: 5, unit: "USD" });

const forms = () => html`
  <h3>Empty</h3>
  ${plain.view({ action: "Add source", label: "Empty", body, cancel: () => notify("Cancelled.") })}
  <h3>Refused by the server</h3>
  ${refusing.view({ action: "Add refused source", label: "Refused", body })}
  <h3>Failed</h3>
  ${failing.view({ action: "Add failing source", label: "Failed", body })}
  <h3>Being sent</h3>
  ${waiting.view({ action: "Add slow source", busy: "Adding\u2026", label: "Slow", body })}
  <h3>In a row</h3>
  ${inline.view({ action: "Change", label: "Row", inline: true, body: limit })}`;

const cards = () => html`<ul role="list" class="kit-cards">
  ${card({ label: "plain", title: "handbook", facts: "Folder \u00b7 every night at 03:00" })}
  ${card({
    label: "full",
    title: LONG,
    facts: "Site \u00b7 synced on request",
    actions: html`<button>Sync now</button>${actions("card")}`,
    body: html`<p class="small">3,000 entries listed, 12 new, 2 deleted</p>`,
  })}
  ${card({ label: "right to left", title: RTL, facts: RTL })}</ul>`;

const budgets = () => html`${table({
  label: "Budgets",
  rows: ROWS,
  key: (each) => each.name,
  quiet: (each) => each.ended,
  columns: [
    { words: "Budget", cell: (each) => each.name, main: true },
    { words: "Spent", cell: (each) => each.spent.toFixed(2), number: true },
    { words: "Limit", cell: (each) => each.limit.toFixed(2), number: true },
    { words: "Set by", cell: (each) => each.by },
    { words: "Actions", cell: (each) => actions(`row-${ROWS.indexOf(each)}`), silent: true },
  ],
})}
  ${table({
    label: "Without rows",
    rows: [],
    columns: [
      { words: "Budget", cell: () => "", main: true },
      { words: "Spent", cell: () => "", number: true },
    ],
  })}`;

/** @param {string} id */
const actions = (id) =>
  menu({
    id,
    label: "More actions",
    items: [
      { words: "Rename", run: () => notify("Renamed.") },
      { words: "Show documents", href: "#documents", sign: "files" },
      { words: "Delete", run: ask, danger: true },
    ],
  });

const menus = () =>
  html`<p class="kit-actions">${actions("more")} ${menu({
    id: "worded",
    label: "Views",
    words: "Views",
    items: [
      { words: "As a list", run: redraw },
      { words: LONG, run: redraw },
    ],
  })}</p>`;

const dialogs = () => html`<p class="kit-actions"><button @click=${ask}>Ask</button>
    <button @click=${() => ((seen.isOpen = true), redraw())}>Open a form</button> <output>${seen.answer}</output></p>
  ${seen.isOpen ? dialog({ title: "New source", close, body: formInDialog() }) : nothing}`;

const formInDialog = () => inDialog.view({ action: "Add", label: "In a dialog", body, cancel: close });

const views = () =>
  tabs({
    id: "views",
    label: "Views",
    chosen: seen.tab,
    choose: (name) => ((seen.tab = name), redraw()),
    items: [
      { name: "text", words: "Text", body: () => html`<p>The text of the document.</p>` },
      { name: "file", words: "Original", body: () => html`<p>The file, as it was uploaded.</p>` },
      { name: "questions", words: "Generated questions", body: () => html`<p>Its questions.</p>` },
    ],
  });

const empties = () => html`${empty({ title: "No keys yet" })}
  ${empty({
    sign: "folder-sync",
    title: "No sources yet",
    text: "A source is a folder, a site, a repository, a bucket or a table. Its documents change with it.",
    actions: html`<button class="main">Add a source</button><a class="button" href="#upload">Upload files</a>`,
  })}`;
