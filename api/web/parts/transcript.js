// Questions and answers as Markdown with their sources, for other programs.

import { ROOT } from "../api.js";
import { copy as copyText } from "./clipboard.js";
import { nameOf, positionOf } from "./format.js";
import { may } from "./permissions.js";
import { CITATION, shownAnswer, sourcesOf } from "./turns.js";
import { say } from "./words.js";

/** @import { Turn, Source } from "./turns.js" */

/** Escape the characters with a meaning in Markdown, because names come from documents. @param {string} text */
const escaped = (text) => text.split(/\s+/).join(" ").replaceAll(/[\\`*_[\]<>#|~]/g, "\\$&");

/** @param {Source} source @param {number} index */
function sourceLine({ chunk }, index) {
  const place = [nameOf(chunk), positionOf(chunk)].filter(Boolean).join(" \u00b7 ");
  const link = `: <${location.origin}${ROOT}/documents/${chunk.document_id}?chunk=${chunk.chunk_id}>`;
  return `${index + 1}. ${escaped(place)}${may("read") ? link : ""}`;
}

/** @param {Turn} turn */
function written(turn) {
  const cited = turn.cited?.length ? sourcesOf(turn) : [];
  const answer = shownAnswer(turn).replace(CITATION, (whole, number) => {
    const index = cited.findIndex((each) => each.number === Number(number));
    return index < 0 ? whole : `[${index + 1}]`;
  });
  const sources = cited.length ? [say`Sources:`, cited.map(sourceLine).join("\n")] : [];
  return [`## ${escaped(turn.question)}`, answer, ...sources].filter(Boolean).join("\n\n");
}

/** @param {Turn[]} turns @param {string} copied notice about the success */
export const copy = (turns, copied) => copyText(`${turns.map(written).join("\n\n")}\n`, copied);
