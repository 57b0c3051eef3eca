// The search strategies of evaluations, each in a sentence.

import { say } from "./words.js";

/** @type {Record<string, string>} */
const SENTENCES = {
  default: say`The search of users: questions, text and words together, weighted by the calibration.`,
  questions: say`Only the generated questions.`,
  text: say`Only the meaning of the texts: plain vector search.`,
  bm25: say`Only the words: classic keyword search.`,
  "text+bm25 rrf": say`Text and words, merged by rank: the usual hybrid search, without questions.`,
  "questions joined": say`All questions of a passage as one vector.`,
  "questions prepended": say`The questions put before the text, as one vector.`,
  "default prepended": say`As default, with the questions put before the text.`,
  mean: say`Questions, text and words, merged by the mean of their scores.`,
  "all rrf": say`Questions, text and words, merged by rank.`,
  max: say`Questions, text and words; the best score of any of them counts.`,
  "default hyde": say`As default, and with an answer that a model makes up. One call for each question.`,
  "default queries": say`As default, and with other wordings by a model. One call for each question.`,
  "default step-back": say`As default, and with a more general question by a model. One call for each question.`,
  "default rerank": say`As default, and a reranker sorts the best passages again.`,
};

/** Describe a strategy; a newer server may have further ones. @param {string} name */
export const describe = (name) => SENTENCES[name] ?? "";
