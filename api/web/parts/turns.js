// Questions of a conversation with their answers.

import { cut } from "./format.js";
import { say } from "./words.js";

/** @import { StoredTurn } from "./conversations.js" */

/** @typedef {Api["RetrievedChunkView"]} Chunk */
/**
 * @typedef {Pick<Chunk, "chunk_id" | "document_id" | "external_id" | "title" | "filename" | "heading_path" | "page">
 *   & Partial<Chunk>} SourceChunk a chunk without its text belongs to a stored answer
 */
/** @typedef {[number, number]} Span half-open, in characters */
/** @typedef {{number: number, chunk: SourceChunk, sentences: Span[]}} Source its sentences support the answer */
/** @typedef {{passages: number, seconds: number, tokens: number, removed: number}} Facts */
/**
 * @typedef {{id: number, question: string, searched: string, collection: string,
 *   phase: "searching" | "writing" | "done", answer: string, chunks: SourceChunk[], cited: Source[] | null,
 *   form: string, found: boolean, certain: boolean, incomplete_reason: string | null, notice: string | null,
 *   noticeCodes: string[], facts: Facts | null, queryId: string | null, documents: string[],
 *   problem: any, stopped: boolean, isNew: boolean, helpful: Map<string, boolean>, history: Api["MessageBody"][]}} Turn
 */

/** A citation in the text of an answer: the number of a passage. */
export const CITATION = /\[(\d{1,3})\]/g;
/** The English sentence of a model that finds no answer in the passages. */
const NOTHING_FOUND = /^The documents do not answer this question\.?\s*$/;
const REMEMBERED = 6; // questions and answers that a follow-up question may refer to
const MESSAGE_CHARACTERS = 2000; // the server reads no more of a message
let made = 0;

/** @param {string} question @param {string} collection @param {Turn[]} before @returns {Turn} */
export const newTurn = (question, collection, before) => ({
  id: ++made, question, searched: question, collection, phase: "searching", answer: "", chunks: [], cited: null,
  form: "", found: true, certain: true, incomplete_reason: null, notice: null, noticeCodes: [], facts: null,
  queryId: null, documents: [], problem: null, stopped: false, isNew: true, helpful: new Map(),
  history: historyOf(before),
});

/** Return the messages that precede a question. @param {Turn[]} turns @returns {Api["MessageBody"][]} */
function historyOf(turns) {
  return turns.filter((turn) => turn.answer).slice(-REMEMBERED).flatMap(({ question, answer }) => [
    { role: /** @type {const} */ ("user"), content: cut(question, MESSAGE_CHARACTERS) },
    { role: /** @type {const} */ ("assistant"), content: cut(answer, MESSAGE_CHARACTERS) },
  ]);
}

/** Return the request of a question. @param {Turn} turn */
export function requestOf({ question, collection, history }) {
  return { question, collection, top_k: 8, ...(history.length ? { history } : {}) };
}

/**
 * Return the listed sources: the cited chunks, the closest ones if nothing was found, or all results while the answer
 * is incomplete. Cited ones come first, in the order in which the answer cites them. The number that readers see is the
 * position in this list; `number` is the number in the text of the answer.
 * @param {Turn} turn @returns {Source[]}
 */
export function sourcesOf({ found, cited, chunks, answer }) {
  const nearest = found ? chunks : chunks.slice(0, 3);
  const results = () => nearest.map((chunk, index) => ({ number: index + 1, chunk, sentences: [] }));
  const numbers = [...new Set(Array.from(answer.matchAll(CITATION), ([, number]) => Number(number)))];
  /** @param {Source} source */
  const rank = ({ number }) => (numbers.includes(number) ? numbers.indexOf(number) : numbers.length);
  return [...(found && cited ? cited : results())].sort((one, other) => rank(one) - rank(other));
}

/**
 * Return the answer as readers see it, in Markdown. The sentence before quotations has the language of the page, and
 * quotations are apart from each other.
 * @param {Turn} turn
 */
export function shownAnswer({ form, found, certain, answer }) {
  if (!found && (form === "extractive" || NOTHING_FOUND.test(answer))) {
    return say`The documents do not answer this question.`;
  }
  if (form !== "extractive") return answer;
  const start = answer.search(/^> /m);
  if (start < 0) return answer;
  const lead = certain
    ? say`Quoted from the documents:`
    : say`The documents may not answer this question. The nearest passages:`;
  return `${lead}\n\n${answer.slice(start).replace(/(\[\d{1,3}\])\n(?=> )/g, "$1\n\n")}`;
}

/** Apply an event of the answer. @param {Turn} turn @param {string} name @param {any} data */
export function apply(turn, name, data) {
  if (name === "retrieved") {
    Object.assign(turn, {
      phase: "writing", chunks: data.chunks, documents: documentsOf(data.chunks), queryId: data.metadata.query_id,
      searched: data.metadata.question, notice: data.metadata.notice,
    });
    turn.noticeCodes = data.metadata.notice_codes ?? []; // none from an older server
  } else if (name === "token") {
    turn.answer += data.text;
  } else if (name === "done") {
    finish(turn, data);
  }
}

/** @param {Api["RetrievedChunkView"][]} chunks */
const documentsOf = (chunks) => [...new Set(chunks.map((chunk) => chunk.document_id))];

/** @param {Turn} turn @param {Api["QueryReply"]} reply */
function finish(turn, reply) {
  const byId = new Map(reply.chunks.map((chunk) => [chunk.chunk_id, chunk]));
  const cited = reply.citations.flatMap(({ number, chunk_id: id, sentences }) => {
    const chunk = byId.get(id);
    return chunk ? [{ number, chunk, sentences }] : [];
  });
  const { usage, milliseconds } = reply.metadata;
  const facts = {
    passages: reply.chunks.length, seconds: milliseconds.total / 1000,
    tokens: usage.prompt_tokens + usage.completion_tokens, removed: reply.removed_citations.length,
  };
  Object.assign(turn, {
    phase: "done", answer: reply.answer, chunks: reply.chunks, cited, form: reply.form, found: reply.found,
    certain: reply.certain, incomplete_reason: reply.incomplete_reason, facts,
  });
}

/** @param {Turn} turn @returns {StoredTurn} */
export function toStored(turn) {
  const { question, searched, collection, answer, form, found, certain, incomplete_reason, stopped, queryId } = turn;
  const sources = (turn.cited ?? []).map(({ number, sentences, chunk }) => {
    const { chunk_id, document_id, external_id, title, filename, heading_path, page } = chunk;
    return { number, sentences, chunk_id, document_id, external_id, title, filename, heading_path, page };
  });
  const said = { question, searched, collection, answer, form, found, certain, incomplete_reason, stopped, queryId };
  return { ...said, document_ids: turn.documents, sources };
}

/** @param {StoredTurn} stored @returns {Turn} */
export function fromStored({ sources, document_ids: documents = [], ...stored }) {
  const cited = sources.map(({ number, sentences = [], ...chunk }) => ({ number, chunk, sentences }));
  const stopped = stored.stopped || !stored.answer; // the page was closed before the answer
  const turn = newTurn(stored.question, stored.collection, []);
  return { ...turn, ...stored, stopped, phase: "done", documents, cited, isNew: false };
}
