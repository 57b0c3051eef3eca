// The dialog about the readers of a document: change them, and ask whether a person reads it.

import { html, nothing } from "../vendor/lit-html.js";
import { post, send } from "../api.js";
import { dialog } from "../kit/dialog.js";
import { createForm } from "../kit/form.js";
import { redraw } from "../store.js";
import { notify } from "./notice.js";
import { may } from "./permissions.js";
import { LONGEST, namesIn, readerWords, readersWords, unsetWords } from "./reader-words.js";
import { say } from "./words.js";

/** @typedef {Api["DocumentView"]} Document */
/** @typedef {"everyone" | "named" | "nobody" | "unset"} Choice */

const ID = "readers";
const SECONDS = 8; // in which a change can be undone

/**
 * The open dialog. `choice`: the chosen readers; `answer`: whether the person of the last question reads the document.
 * @type {{document: Document, byDefault: string | undefined, changed: (document: Document) => void, choice: Choice,
 *   answer: string} | null}
 */
let opened = null;

/**
 * @param {Document} document @param {string | undefined} byDefault who reads documents without readers
 * @param {(document: Document) => void} changed called with the changed document
 */
export function openReaders(document, byDefault, changed) {
  change.clear();
  question.clear();
  opened = { document, byDefault, changed, choice: choiceOf(document.readable_by), answer: "" };
  redraw();
}

/** Return the choice that readers stand for. @param {readonly string[] | null} readers @returns {Choice} */
export function choiceOf(readers) {
  if (readers === null) return "unset";
  if (readers.includes("everyone")) return "everyone";
  return readers.length ? "named" : "nobody";
}

/**
 * Return the names of a kind among readers, one on each line.
 * @param {readonly string[] | null} readers @param {string} kind
 */
const linesOf = (readers, kind) =>
  (readers ?? []).flatMap((reader) => (reader.startsWith(kind) ? [reader.slice(kind.length)] : [])).join("\n");

/**
 * Return the readers that a form names; null: the document names none.
 * @param {{choice: Choice, groups: string | null, users: string | null}} values
 * @throws a problem at a field
 */
export function readersFrom({ choice, groups, users }) {
  if (choice === "unset") return null;
  if (choice === "nobody") return [];
  if (choice === "everyone") return ["everyone"];
  const named = { groups: namesIn(groups), users: namesIn(users) };
  for (const [field, names] of Object.entries(named)) {
    const isLong = names.some((name) => [...name].length > LONGEST);
    if (isLong) throw { field, message: say`A name has at most ${LONGEST} characters.` };
  }
  const readers = [...named.groups.map((name) => `group:${name}`), ...named.users.map((name) => `user:${name}`)];
  if (!readers.length) throw { field: "groups", message: say`Name at least one group or user.` };
  return readers;
}

/** @param {string} id of a document @param {readonly string[] | null} readers */
const put = (id, readers) =>
  send("PATCH", `/v1/documents/${id}`, { body: { readable_by: readers === null ? null : [...readers] } });

const change = createForm(async (values) => {
  if (!opened) return;
  const { document: before, byDefault, changed } = opened;
  const after = await put(before.id, readersFrom(values)).catch((problem) => {
    throw problem.field?.startsWith("readable_by") ? { field: "groups", message: problem.message } : problem;
  });
  changed(after);
  closeDialog();
  const undo = () => put(before.id, before.readable_by).then(changed, (problem) => notify(problem.message));
  notify(say`Readers: ${readersWords(after.readable_by, byDefault)}.`, { undo, seconds: SECONDS });
});

const question = createForm(
  async ({ user, groups }) => {
    const now = opened;
    if (!now) return;
    now.answer = "";
    const body = { user, groups: namesIn(groups), document_id: now.document.id };
    now.answer = reasonOf(user, await post("/v1/access-checks", body));
  },
  { keeps: true },
);

/** Return why a person reads a document, or does not. @param {string} user @param {Api["AccessCheckReply"]} reply */
export function reasonOf(user, { readable, versions }) {
  const live = versions.find((version) => version.live);
  if (!live) return say`No query finds the document yet.`;
  const { readable_by: readers, matches } = live;
  const every = say`${user} reads the document: it names no readers, so every person reads it.`;
  if (readers === null && readable) return every;
  if (readers === null) return say`${user} does not read the document: it names no readers, so no person reads it.`;
  const named = readersWords(readable ? [matches[0]] : readers);
  if (readable) return say`${user} reads the document, because of its readers: ${named}.`;
  return say`${user} does not read the document. Its readers: ${named}.`;
}

const closeDialog = () => /** @type {HTMLDialogElement | null} */ (document.getElementById(ID))?.close();

/** Render the open dialog. */
export function readersDialog() {
  if (!opened) return nothing;
  const close = () => ((opened = null), redraw());
  const body = html`${may("write") ? changing(opened) : nothing}${may("manage") ? asking(opened) : nothing}`;
  return dialog({ id: ID, title: say`Readers`, body, close });
}

/** @param {NonNullable<typeof opened>} now */
function changing(now) {
  const { document, byDefault, choice } = now;
  /** @type {import("../kit/field.js").Option[]} */
  const options = [
    ["everyone", readerWords("everyone")],
    ["named", say`these groups and users`],
    ["nobody", readerWords("nobody")],
    ["unset", unsetWords(byDefault)],
  ];
  const changed = (/** @type {string} */ value) => ((now.choice = /** @type {Choice} */ (value)), redraw());
  const hint = say`One on each line, as your identity provider or application names them.`;
  return change.view({
    label: say`Change readers`,
    action: say`Save`,
    cancel: closeDialog,
    body: (field) => html`
      ${field({ name: "choice", label: say`Which persons read it?`, type: "select", value: choice, options, changed })}
      ${choice === "named"
        ? html`${field({ name: "groups", label: say`Groups`, type: "area", wide: true, hint,
            value: linesOf(document.readable_by, "group:") })}
          ${field({ name: "users", label: say`Users`, type: "area", wide: true,
            value: linesOf(document.readable_by, "user:") })}`
        : nothing}`,
  });
}

/** @param {NonNullable<typeof opened>} now */
function asking({ answer }) {
  return html`<details class="kit-more"><summary>${say`Can a person read it?`}</summary>
    ${question.view({
      label: say`Can a person read it?`,
      action: say`Check`,
      busy: say`Checking…`,
      body: (field) => html`
        ${field({ name: "user", label: say`User`, required: true, longest: LONGEST, wide: true, autocomplete: "off" })}
        ${field({ name: "groups", label: say`Groups of the user`, type: "area", rows: 2, wide: true,
          hint: say`One on each line` })}`,
    })}
    <p role="status" dir="auto">${answer}</p></details>`;
}
