// Questions and answers as Markdown with their sources, for other programs.

import { ROOT } from "../api.js";
import { copy as copyText } from "./clipboard.js";
import { path } from "./format.js";
import { sourcesOf } from "./turns.js";
import { say } from "./words.js";

/** @import { Turn, Source } from "./turns.js" */

/** Escape the characters with a meaning in Markdown, because names come from documents. @param {string} text */
const escaped = (text) => text.split(/\s+/).join(" ").replaceAll(/[\\`*_[\]<>#|~]/g, "\\$&");

/** @param {Source} source */
function sourceLine({ number, chunk }) {
  const name = path(chunk.heading_path, chunk.title ?? chunk.external_id);
  const file = chunk.filename ?? chunk.external_id;
  const where = [file === name ? "" : file, chunk.page ? say`page ${chunk.page}` : ""].filter(Boolean).join(", ");
  return `${number}. ${escaped(name)}${where ? ` (${escaped(where)})` : ""}: <${location.origin}${ROOT}/documents/${chunk.document_id}?chunk=${chunk.chunk_id}>`;
}

/** @param {Turn} turn */
function written(turn) {
  const sources = turn.cited?.length ? [say`Sources:`, sourcesOf(turn).map(sourceLine).join("\n")] : [];
  return [`## ${escaped(turn.question)}`, turn.answer, ...sources].filter(Boolean).join("\n\n");
}

/** @param {Turn[]} turns @param {string} copied notice about the success */
export const copy = (turns, copied) => copyText(`${turns.map(written).join("\n\n")}\n`, copied);
