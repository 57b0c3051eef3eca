// The numbers of a collection, and the data that is lost with it.

import { plural } from "./format.js";
import { OPEN } from "./state.js";
import { say } from "./words.js";

/** @typedef {import("./collections.js").Listed} Listed */

/** Return the number of documents in all states. @param {Listed} collection */
export const documentsOf = ({ documents }) => Object.values(documents).reduce((sum, each) => sum + (each ?? 0), 0);

/**
 * Return the number of documents in some states.
 * @param {Partial<Record<string, number>>} documents @param {readonly string[]} states
 */
export const inStates = (documents, states) => states.reduce((sum, state) => sum + (documents[state] ?? 0), 0);

/** Return the number of documents that are being processed. @param {Listed} collection */
export const openOf = ({ documents }) => inStates(documents, OPEN);

/** Return the number of points that are questions; null: Qdrant is unavailable. @param {Listed} collection */
export function questionsOf({ points, chunks }) {
  return points === null || chunks === null || chunks === undefined ? null : Math.max(0, points - chunks);
}

/** Name the data that is deleted with a collection. @param {Listed} collection */
export function lossesOf(collection) {
  const { chunks, builds = [] } = collection;
  const questions = questionsOf(collection);
  const documents = plural(documentsOf(collection), "document");
  return [
    chunks === null || chunks === undefined || questions === null ? say`${documents} with all chunks and questions`
      : say`${documents} with ${plural(chunks, "chunk")} and ${plural(questions, "question")}`,
    ...(builds.length > 1 ? [say`${plural(builds.length, "build")}: you cannot switch back to an earlier one`] : []),
    say`users\u2019 questions and their feedback, gaps, and conversations and shared answers from it`,
    say`labelled sets, evaluations and the calibration`,
    say`its sources, which are not synced any more`,
  ];
}
